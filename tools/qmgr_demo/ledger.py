"""The total-queue checker: what went in against what came out, seen from outside."""

from collections.abc import Set
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ledger:
    """Every message has a number. Invariant: the counts below follow from what was noted.

    A message that may have been delivered before carries a flag, by which a consumer that must not
    do its work twice knows to look. Handing one out again without it is a double.
    """

    acknowledged: set[int] = field(default_factory=set)
    refused: int = 0
    uids: dict[int, str] = field(default_factory=dict)  # number to UID of the first delivery
    redelivered: int = 0  # handed out again, flagged
    doubled: list[int] = field(default_factory=list)
    unexpected: list[int] = field(default_factory=list)

    def note_put(self, number: int) -> None:
        """Notes that the put of *number* was acknowledged."""
        self.acknowledged.add(number)

    def note_delivery(self, number: int, uid: str, *, flagged: bool, known: bool) -> bool:
        """Notes a delivery; return whether its work is still to be done.

        Args:
            flagged: the message says that it may have been delivered before.
            known: a message of that number was put, or tried to be.
        """
        first = self.uids.get(number)
        if not known:
            self.unexpected.append(number)
            return False
        if first is None:
            self.uids[number] = uid
            return True
        if first != uid or not flagged:
            self.doubled.append(number)
        else:
            self.redelivered += 1
        return False

    def has_all(self, but: Set[int] = frozenset()) -> bool:
        """Returns whether all that was acknowledged came out, *but* these."""
        return len(self.uids) >= len(self.acknowledged - but) and self.lost <= but

    @property
    def lost(self) -> set[int]:
        """What was acknowledged and never came out."""
        return self.acknowledged - self.uids.keys()

    @property
    def consumed(self) -> int:
        """How many different messages came out."""
        return len(self.uids)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, doubled or made up."""
        return not (self.lost or self.doubled or self.unexpected)
