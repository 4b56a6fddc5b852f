"""Keeps sums over all queues so that a status request need not visit every queue."""

from qmgrd.core.layout.owner import name_of
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.stored_bytes import StoredBytes


class Totals:
    """The sums over all queues. Each turn updates the sums for the queues that it changed.

    Invariant: between turns, ``messages`` is the sum of the depths of all queues, and ``leased`` is
    the number of their leases. ``_stored`` has the sum of the bytes on the queues of each user.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.leased = 0
        self._stored: dict[str, StoredBytes] = {}  # by the user who created the queues
        # The depth and the number of leases of each queue at its last count, by queue id.
        self._counted: dict[int, tuple[int, int]] = {}

    def stored_by(self, owner: str) -> StoredBytes:
        """Returns the bytes on the queues that *owner* created."""
        found = self._stored.get(owner)
        if found is None:
            found = self._stored[owner] = StoredBytes(name_of(owner))
        return found

    def count(self, queue: Queue) -> bool:
        """Adds the changes of *queue* since its last count. Returns whether it had leases then."""
        depth, leased = queue.counters.depth, len(queue.leases)
        depth_before, leased_before = self._counted.get(queue.id, (0, 0))
        self.messages += depth - depth_before
        self.leased += leased - leased_before
        self._counted[queue.id] = depth, leased
        if queue.stored is not None:
            queue.stored.count(queue)
        return leased_before > 0

    def forget(self, queue: Queue) -> None:
        """Subtracts the numbers of *queue*, which was deleted."""
        depth, leased = self._counted.pop(queue.id, (0, 0))
        self.messages -= depth
        self.leased -= leased
        if queue.stored is not None:
            queue.stored.forget(queue)
