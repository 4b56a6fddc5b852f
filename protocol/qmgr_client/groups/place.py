"""The position of a handle in its groups, and its restoration when a unit of work is backed out.

1. The position consists of the position of the last message put or received, and its unit of work.
2. The position before the first step of a unit is remembered. A backout restores this position,
   unless a step outside of the unit came later. A backout does not undo such a step, so the
   position after the step is kept.
3. A refused step does not change the position.
"""

from typing import NamedTuple

from qmgr_client.sansio.units import Unit


class GroupPosition(NamedTuple):
    """The position after a message of a group. Without an id, the handle is between groups."""

    group_id: bytes = b""
    number: int = 0
    unit: Unit | None = None  # unit in which the message was put or received
    was_logical: bool = False
    persistent: bool = True

    def is_consistent(self, unit: Unit | None) -> bool:
        """Returns whether a step in *unit*, or without a unit, is consistent with the last step."""
        return (self.unit is None) == (unit is None)


class HandlePosition:
    """The position of one handle.

    Invariant: ``_before`` has the units that were open at the last :meth:`look`.
    """

    def __init__(self) -> None:
        self.place = GroupPosition()
        self._before: dict[Unit, GroupPosition] = {}
        self._mark = self.place  # position that a refusal restores
        self._begun: Unit | None = None  # unit of work whose first step came after the mark

    def mark(self) -> None:
        """Starts a step, or several steps that are refused together."""
        self._mark, self._begun = self.place, None

    def move(self, place: GroupPosition) -> None:
        """Moves the handle to *place*, the position after the current step."""
        if place.unit is not None and place.unit not in self._before:
            self._before[place.unit] = self.place
            self._begun = place.unit
        self.place = place

    def move_back(self) -> None:
        """Returns to the mark because the steps after it were refused."""
        if self._begun is not None:
            self._before.pop(self._begun, None)
        self.place = self._mark
        self.mark()

    def look(self) -> None:
        """Handles the units that have ended since the last call."""
        for unit in [unit for unit in self._before if unit.is_over]:
            before = self._before.pop(unit)
            if unit.is_undone and self.place.unit is unit:
                self.place = before
                self.mark()

    def lose(self) -> None:
        """Forgets the position because the connection is lost."""
        self._before.clear()
        self.place = GroupPosition()
        self.mark()
