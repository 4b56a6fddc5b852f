"""Where a handle stands among groups, and what a unit of work that is backed out makes of that.

1. A place is that of the last message put or got, and of the unit of work that it was in.
2. Before a unit's first step the place is kept. Backing out brings it back, unless a step outside
   of the unit came later: that is not undone, and its place stands.
3. A step that is refused leaves the place as it was.
"""

from typing import NamedTuple

from qmgr_client.sansio.units import Unit


class Place(NamedTuple):
    """Behind a message of a group; without an id the handle is in no group."""

    group_id: bytes = b""
    number: int = 0
    unit: Unit | None = None  # that the message was put or got in
    was_logical: bool = False
    persistent: bool = True

    def is_as(self, unit: Unit | None) -> bool:
        """Return whether a step in *unit*, or in none, fits the one before."""
        return (self.unit is None) == (unit is None)


class Places:
    """The place of one handle.

    Invariant: ``_before`` has the units that were not known to be over when last looked at.
    """

    def __init__(self) -> None:
        self.place = Place()
        self._before: dict[Unit, Place] = {}
        self._mark = self.place  # where a refusal leads back to
        self._begun: Unit | None = None  # of which the first step came behind the mark

    def mark(self) -> None:
        """Begin a step, or several that are refused together."""
        self._mark, self._begun = self.place, None

    def move(self, place: Place) -> None:
        """Go to *place*, where the step that is under way leads."""
        if place.unit is not None and place.unit not in self._before:
            self._before[place.unit] = self.place
            self._begun = place.unit
        self.place = place

    def move_back(self) -> None:
        """Go back to the mark: what came behind it was refused."""
        if self._begun is not None:
            self._before.pop(self._begun, None)
        self.place = self._mark
        self.mark()

    def look(self) -> None:
        """Take note of units that are over by now."""
        for unit in [unit for unit in self._before if unit.is_over]:
            before = self._before.pop(unit)
            if unit.is_undone and self.place.unit is unit:
                self.place = before
                self.mark()

    def lose(self) -> None:
        """Go to no place: what was kept of it elsewhere is gone."""
        self._before.clear()
        self.place = Place()
        self.mark()
