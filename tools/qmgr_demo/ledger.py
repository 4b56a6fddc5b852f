"""Compares acknowledged puts with deliveries, as the clients observe them."""

from collections.abc import Set
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ledger:
    """The puts and deliveries of numbered messages.

    A flag marks each message that may have been delivered before, so that consumers can check. A
    repeated delivery without the flag is a duplicate. Invariant: the numbers follow from the
    recorded calls.
    """

    acknowledged: set[int] = field(default_factory=set)
    refused: int = 0
    uids: dict[int, str] = field(default_factory=dict)  # first delivery's UID, by number
    redelivered: int = 0  # number of repeated deliveries with the flag
    doubled: list[int] = field(default_factory=list)
    unexpected: list[int] = field(default_factory=list)

    def note_put(self, number: int) -> None:
        """Records that the put of *number* was acknowledged."""
        self.acknowledged.add(number)

    def note_delivery(self, number: int, uid: str, *, flagged: bool, known: bool) -> bool:
        """Records a delivery. Returns whether the message still has to be processed.

        Args:
            flagged: Whether the message is marked as possibly delivered before.
            known: Whether a put of that number was attempted.
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
        """Returns whether all acknowledged messages except *but* were delivered."""
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
        """Whether no message was lost, duplicated or invented."""
        return not (self.lost or self.doubled or self.unexpected)
