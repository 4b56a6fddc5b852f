"""A ledger of units of work with numbered pairs of messages.

Each number is put twice in one unit, as a token on each of two queues. A token moves on in units.
In the end it is consumed, or becomes a dead letter.
"""

from collections import Counter
from dataclasses import dataclass, field

Token = tuple[int, str]  # number and side
SIDES = ("a", "b")


@dataclass(slots=True)
class UnitLedger:
    """All pairs. Invariant: a number is in at most one of committed and refused."""

    committed: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)  # backed out, or lost before its commit
    unknown: set[int] = field(default_factory=set)  # whether they were committed is unknown
    expiring: set[int] = field(default_factory=set)  # may be missing: they expire soon
    consumed: Counter[Token] = field(default_factory=Counter)
    perhaps: set[Token] = field(default_factory=set)  # consumed in a unit of unknown outcome
    dead: Counter[Token] = field(default_factory=Counter)
    backed_out: int = 0
    moved: int = 0

    def missing(self) -> set[Token]:
        """Returns the tokens that were committed and have not come out."""
        sure = self.committed - self.expiring
        tokens = {(number, side) for number in sure for side in SIDES}
        return tokens - self.consumed.keys() - self.dead.keys() - self.perhaps

    def faults(self) -> dict[str, list[Token]]:
        """Returns the problems, by kind, once all queues are empty."""
        out = self.consumed + self.dead
        known = self.committed | self.unknown
        halved = [
            (number, side)
            for number in self.unknown - self.expiring
            for side in SIDES
            if ((number, side) in out) != any((number, other) in out for other in SIDES)
            and (number, side) not in self.perhaps
        ]
        return {
            "lost": sorted(self.missing()),
            "doubled": sorted(token for token, count in out.items() if count > 1),
            "never committed": sorted(token for token in out if token[0] not in known),
            "halved": sorted(halved),
        }
