"""What a handle that puts groups allows, and where each put leads: the table of PROTOCOL.md.

In logical order the handle numbers, and refuses what would break its group. In physical order its
caller numbers, and is warned.
"""

from qmgr_client.groups.place import Place, Places
from qmgr_client.outgoing import Group
from qmgr_client.sansio.units import Unit
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import GROUP_NUMBER_MAX, number_invalid


class GroupPutState:
    """The state of one handle. Each put says what it is, and is told its group, or refused."""

    def __init__(self) -> None:
        self.warning: ErrorCode | None = None  # of the last call
        self._places = Places()

    @property
    def current(self) -> Group | None:
        """The group that has not ended, and the number that was put last."""
        self._places.look()
        place = self._places.place
        return Group(place.group_id, place.number) if place.group_id else None

    def alone(self) -> None:
        """Put a message of no group, in logical order.

        Raises:
            RequestError: INCOMPLETE_GROUP.
        """
        current = self._begin()
        if current is not None:
            text = (
                f"group {current.id.hex()} has not ended, its number {current.number} was the "
                "last put: end it with last=True, or put this without the handle"
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
        """Return what the next message of the group carries; *new_id* where one begins.

        A *further* one is put together with the one before, and refused with it.

        Raises:
            RequestError: INCONSISTENT_PERSISTENCE, INCONSISTENT_UNIT, GROUP_NUMBER_INVALID.
        """
        current = self.current if is_further else self._begin()
        place = self._places.place
        if current is not None:
            if why := _inconsistent(place, unit, persistent=persistent):
                raise RequestError(*why)
            if current.number == GROUP_NUMBER_MAX:
                raise number_invalid(current.number + 1)
        group = Group(place.group_id or new_id, place.number + 1, last)
        self._go(group, unit, logical=True, persistent=persistent)
        return group

    def physical(self, group: Group | None, unit: Unit | None, *, persistent: bool) -> None:
        """Put a message that says its *group* itself, or is of none: the handle is there now."""
        current, place = self._begin(), self._places.place
        if current is not None:
            same = group is not None and group.id == current.id
            if same and (why := _inconsistent(place, unit, persistent=persistent)):
                self.warning = why[0]
            elif place.was_logical:
                self.warning = ErrorCode.INCOMPLETE_GROUP
        self._go(group, unit, logical=False, persistent=persistent)

    def refused(self) -> None:
        """Take the refusal of the last put, and what was put with it: the handle is before it."""
        self.warning = None
        self._places.move_back()

    def close(self) -> None:
        """End the handle; ``warning`` tells of a group that has not ended."""
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
        self._places.move(Place(group_id, number, unit, logical, persistent))


def _inconsistent(
    place: Place, unit: Unit | None, *, persistent: bool
) -> tuple[ErrorCode, str] | None:
    """Return how a message does not fit those of its group before it."""
    group = f"group {place.group_id.hex()}"
    if place.persistent != persistent:
        so = "persistent" if place.persistent else "not persistent"
        text = f"{group} is {so} so far: put all of it with the same persistent="
        return ErrorCode.INCONSISTENT_PERSISTENCE, text
    if not place.is_as(unit):
        so = "outside of units of work" if place.unit is None else "in units of work"
        return ErrorCode.INCONSISTENT_UNIT, f"{group} is put {so} so far: go on with it so"
    return None
