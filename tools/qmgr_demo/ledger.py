"""Compares the acknowledged puts with the deliveries, seen from outside."""

from collections.abc import Set
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ledger:
    """Every message has a number. Invariant: the counts below follow from the recorded calls.

    A message that may have been delivered before has a flag, which tells consumers to check. A
    repeated delivery without the flag is a duplicate.
    """

    acknowledged: set[int] = field(default_factory=set)
    refused: int = 0
    uids: dict[int, str] = field(default_factory=dict)  # number to UID of the first delivery
    redelivered: int = 0  # delivered again, flagged
    doubled: list[int] = field(default_factory=list)
    unexpected: list[int] = field(default_factory=list)

    def note_put(self, number: int) -> None:
        """Records that the put of *number* was acknowledged."""
        self.acknowledged.add(number)

    def note_delivery(self, number: int, uid: str, *, flagged: bool, known: bool) -> bool:
        """Records a delivery; returns whether its work is still to be done.

        Args:
            flagged: whether the message says that it may have been delivered before.
            known: whether a put of that number was at least tried.
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
        """Returns whether all acknowledged messages were delivered, except *but*."""
        return len(self.uids) >= len(self.acknowledged - but) and self.lost <= but

    @property
    def lost(self) -> set[int]:
        """The acknowledged messages that were never delivered."""
        return self.acknowledged - self.uids.keys()

    @property
    def consumed(self) -> int:
        """The number of different messages that were delivered."""
        return len(self.uids)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, duplicated or invented."""
        return not (self.lost or self.doubled or self.unexpected)
