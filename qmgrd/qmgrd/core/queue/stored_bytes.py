"""The bytes on the queues and subscriptions that one user created, and their limit.

The counters of each queue are stored and exact, so the sum is exact after a restart as well. A put
counts from the moment it is accepted. A message that leaves counts until the end of the turn.
"""

from typing import Protocol


class HasBytes(Protocol):
    """A queue, of which only the bytes matter here."""

    id: int

    @property
    def used_bytes(self) -> int:
        """The bytes of its messages, including the puts of open units of work."""


class StoredBytes:
    """The bytes on the queues of one user, including the puts of open units of work.

    Invariant: between turns, ``bytes`` is the sum over all queues of the user. During a turn, only
        the queues in ``_touched`` may have more bytes than were counted.
    """

    def __init__(self, user: str) -> None:
        self.user = user
        self.limit_bytes = 0  # 0 is unlimited
        self.bytes = 0
        self._counted: dict[int, int] = {}  # bytes of each queue at its last count, by queue id
        self._touched: list[
            HasBytes
        ] = []  # queues that may have received puts since the last count

    def limit_of(self, queue: HasBytes) -> int:
        """Returns how many bytes *queue* may have, given the bytes of the user's other queues.

        The caller may then put messages on *queue*, and on no other queue without another call.
        """
        for touched in self._touched:
            self.count(touched)
        self._touched = [queue]
        self.count(queue)
        return self.limit_bytes - self.bytes + self._counted[queue.id]

    def count(self, queue: HasBytes) -> None:
        """Adds the changes of *queue* since its last count."""
        self.bytes += queue.used_bytes - self._counted.get(queue.id, 0)
        self._counted[queue.id] = queue.used_bytes

    def forget(self, queue: HasBytes) -> None:
        """Subtracts the bytes of *queue*, which was deleted."""
        self.bytes -= self._counted.pop(queue.id, 0)
        self._touched = [x for x in self._touched if x is not queue]
