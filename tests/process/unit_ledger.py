"""A ledger of units of work with numbered pairs of messages.

Each number is put twice in one unit, as a token on each of two queues. Units move the tokens. At
the end, each token has been consumed or is a dead letter.
"""

from collections import Counter
from dataclasses import dataclass, field

Token = tuple[int, str]  # number and side
SIDES = ("a", "b")


@dataclass(slots=True)
class UnitLedger:
    """The ledger of all pairs. Invariant: a number is in at most one of committed and refused."""

    committed: set[int] = field(default_factory=set)
    # numbers that were backed out, or whose unit was lost before its commit
    refused: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)  # numbers whose commit has an unknown outcome
    # numbers that may be missing because they expire soon
    expiring: set[int] = field(default_factory=set)
    consumed: Counter[Token] = field(default_factory=Counter)
    perhaps: set[Token] = field(default_factory=set)  # tokens consumed in a unit of unknown outcome
    dead: Counter[Token] = field(default_factory=Counter)
    backed_out: int = 0
    moved: int = 0

    def missing(self) -> set[Token]:
        """Returns the tokens that were committed and have not been received."""
        sure = self.committed - self.expiring
        tokens = {(number, side) for number in sure for side in SIDES}
        return tokens - self.consumed.keys() - self.dead.keys() - self.perhaps

    def faults(self) -> dict[str, list[Token]]:
        """Returns the problems by type. All queues must be empty."""
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
