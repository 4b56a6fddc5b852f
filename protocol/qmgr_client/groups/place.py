"""The place of a handle among groups, and how a backout of a unit of work restores it.

1. The place is that of the last message put or got, with its unit of work.
2. The place before the first step of a unit is remembered. A backout restores it, unless a step
   outside of the unit came later. That step is not undone, so its place is kept.
3. A refused step does not change the place.
"""

from typing import NamedTuple

from qmgr_client.sansio.units import Unit


class GroupPosition(NamedTuple):
    """After a message of a group. Without an id, the handle is between groups."""

    group_id: bytes = b""
    number: int = 0
    unit: Unit | None = None  # in which the message was put or got
    was_logical: bool = False
    persistent: bool = True

    def is_consistent(self, unit: Unit | None) -> bool:
        """Returns whether a step in *unit*, or without one, is consistent with the last step."""
        return (self.unit is None) == (unit is None)


class HandlePosition:
    """The place of one handle.

    Invariant: ``_before`` has the units that had not ended at the last :meth:`look`.
    """

    def __init__(self) -> None:
        self.place = GroupPosition()
        self._before: dict[Unit, GroupPosition] = {}
        self._mark = self.place  # restored by a refusal
        self._begun: Unit | None = None  # whose first step came after the mark

    def mark(self) -> None:
        """Starts a step, or several that are refused together."""
        self._mark, self._begun = self.place, None

    def move(self, place: GroupPosition) -> None:
        """Moves to *place*, the place after the current step."""
        if place.unit is not None and place.unit not in self._before:
            self._before[place.unit] = self.place
            self._begun = place.unit
        self.place = place

    def move_back(self) -> None:
        """Returns to the mark. The steps after it were refused."""
        if self._begun is not None:
            self._before.pop(self._begun, None)
        self.place = self._mark
        self.mark()

    def look(self) -> None:
        """Handles units that have ended since the last call."""
        for unit in [unit for unit in self._before if unit.is_over]:
            before = self._before.pop(unit)
            if unit.is_undone and self.place.unit is unit:
                self.place = before
                self.mark()

    def lose(self) -> None:
        """Forgets the place, which is lost with the connection."""
        self._before.clear()
        self.place = GroupPosition()
        self.mark()
