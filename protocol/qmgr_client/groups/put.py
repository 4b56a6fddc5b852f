"""The rules of a handle that puts groups, as in the table in PROTOCOL.md.

In logical order, the handle numbers messages and refuses puts that would break its group. In
physical order, the caller numbers messages, and puts that break the group cause a warning.
"""

from qmgr_client.groups.place import GroupPosition, HandlePosition
from qmgr_client.outgoing import Group
from qmgr_client.sansio.units import Unit
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import GROUP_NUMBER_MAX, number_error


class GroupPutState:
    """The state of one handle."""

    def __init__(self) -> None:
        self.warning: ErrorCode | None = None  # warning of the last call
        self._places = HandlePosition()

    @property
    def current(self) -> Group | None:
        """The current group, with the number of the last message put."""
        self._places.look()
        place = self._places.place
        return Group(place.group_id, place.number) if place.group_id else None

    def alone(self) -> None:
        """Starts the put of a message without a group in logical order.

        Raises:
            RequestError: INCOMPLETE_GROUP if the current group has not ended.
        """
        current = self._begin()
        if current is not None:
            text = (
                f"group {current.id.hex()} has not ended (its latest number is {current.number}): "
                "end it with last=True, or put this message without the handle"
            )
            raise RequestError(ErrorCode.INCOMPLETE_GROUP, text)

    def logical(
        self,
        new_id: bytes,
        unit: Unit | None,
        *,
        last: bool,
        persistent: bool,
        is_further: bool = False,
    ) -> Group:
        """Returns the group field of the next message. A new group gets *new_id*.

        If *is_further* is true, the message and the previous one are put together or refused
        together.

        Raises:
            RequestError: INCONSISTENT_PERSISTENCE, INCONSISTENT_UNIT, GROUP_NUMBER_INVALID.
        """
        current = self.current if is_further else self._begin()
        place = self._places.place
        if current is not None:
            if refusal := _inconsistent(place, unit, persistent=persistent):
                raise RequestError(*refusal)
            if current.number == GROUP_NUMBER_MAX:
                raise number_error(current.number + 1)
        group = Group(place.group_id or new_id, place.number + 1, last)
        self._go(group, unit, logical=True, persistent=persistent)
        return group

    def physical(self, group: Group | None, unit: Unit | None, *, persistent: bool) -> None:
        """Moves the handle to a message with its own *group*, or without a group."""
        current, place = self._begin(), self._places.place
        if current is not None:
            same = group is not None and group.id == current.id
            if same and (refusal := _inconsistent(place, unit, persistent=persistent)):
                self.warning = refusal[0]
            elif place.was_logical:
                self.warning = ErrorCode.INCOMPLETE_GROUP
        self._go(group, unit, logical=False, persistent=persistent)

    def refused(self) -> None:
        """Moves the handle back because the last put, or several puts of one call, were refused."""
        self.warning = None
        self._places.move_back()

    def close(self) -> None:
        """Closes the handle. ``warning`` reports a group that has not ended."""
        self.warning = None if self.current is None else ErrorCode.INCOMPLETE_GROUP

    def _begin(self) -> Group | None:
        self.warning, current = None, self.current
        self._places.mark()
        return current

    def _go(
        self, group: Group | None, unit: Unit | None, *, logical: bool, persistent: bool
    ) -> None:
        inside = group is not None and not group.last
        group_id, number = (group.id, group.number) if group is not None and inside else (b"", 0)
        self._places.move(GroupPosition(group_id, number, unit, logical, persistent))


def _inconsistent(
    place: GroupPosition, unit: Unit | None, *, persistent: bool
) -> tuple[ErrorCode, str] | None:
    """Returns an error if a message is inconsistent with the earlier messages of its group."""
    group = f"group {place.group_id.hex()}"
    if place.persistent != persistent:
        before = "persistent" if place.persistent else "not persistent"
        text = f"{group} is {before} so far: use the same persistent= for all its messages"
        return ErrorCode.INCONSISTENT_PERSISTENCE, text
    if not place.is_consistent(unit):
        before = "without units of work" if place.unit is None else "in units of work"
        text = f"{group} was put {before} so far: continue in the same way"
        return ErrorCode.INCONSISTENT_UNIT, text
    return None
