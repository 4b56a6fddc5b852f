"""The rules of a reader of groups: the client's part of the table in PROTOCOL.md.

The queue manager knows the next message. The reader knows its current group, and whether it reads
the group in units of work.
"""

from qmgr_client.groups.place import GroupPosition, HandlePosition
from qmgr_client.outgoing import Group
from qmgr_client.sansio.units import Unit
from qmgr_protocol.errors import ErrorCode, RequestError


class GroupGetState:
    """The state of one reader."""

    def __init__(self) -> None:
        self.warning: ErrorCode | None = None  # warning of the last call
        self._places = HandlePosition()

    @property
    def current(self) -> Group | None:
        """The current group, with the number of the last message received."""
        self._places.look()
        place = self._places.place
        return Group(place.group_id, place.number) if place.group_id else None

    def logical(self, unit: Unit | None) -> None:
        """Starts a get in logical order, in *unit* or without a unit.

        Raises:
            RequestError: INCONSISTENT_UNIT if the group was read with a unit before and *unit* is
                None, or the reverse.
        """
        current = self._begin()
        if current is not None and not self._places.place.is_consistent(unit):
            before = "without units of work" if unit is not None else "in units of work"
            text = f"group {current.id.hex()} was read {before} so far: continue in the same way"
            raise RequestError(ErrorCode.INCONSISTENT_UNIT, text)

    def physical(self) -> None:
        """Starts a get in physical order."""
        self._begin()

    def got(self, group: Group | None, unit: Unit | None, *, logical: bool) -> None:
        """Moves the reader to the message that a get returned.

        *group* is None if the message has no group.
        """
        current, place = self.current, self._places.place
        if not logical and current is not None:
            if group is not None and group.id == current.id and not place.is_consistent(unit):
                self.warning = ErrorCode.INCONSISTENT_UNIT
            elif place.was_logical:
                self.warning = ErrorCode.INCOMPLETE_GROUP
        inside = group is not None and not group.last
        group_id, number = (group.id, group.number) if group is not None and inside else (b"", 0)
        self._places.move(GroupPosition(group_id, number, unit, logical))

    def _begin(self) -> Group | None:
        self.warning, current = None, self.current
        self._places.mark()
        return current

    def lost(self) -> None:
        """Forgets the current group because the connection is lost."""
        self._places.lose()
