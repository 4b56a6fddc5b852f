"""Running sums over all queues, so that a status does not have to loop over them."""

from qmgrd.core.queue.queue import Queue


class Totals:
    """Sums over the queues. A queue is counted again in each turn that changes it.

    Invariant: between turns ``messages`` is the sum of the depths of all queues, ``leased`` that of
    their leases.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.leased = 0
        self._counted: dict[
            int, tuple[int, int]
        ] = {}  # by queue id: depth and leases at its last count

    def had_leases(self, queue: Queue) -> bool:
        """Returns whether *queue* had leases when it was counted last."""
        return self._counted.get(queue.id, (0, 0))[1] > 0

    def count(self, queue: Queue) -> None:
        """Adds the changes of *queue* since it was counted last."""
        depth, leased = queue.counters.depth, len(queue.leases)
        depth_before, leased_before = self._counted.get(queue.id, (0, 0))
        self.messages += depth - depth_before
        self.leased += leased - leased_before
        self._counted[queue.id] = depth, leased

    def forget(self, queue: Queue) -> None:
        """Subtracts *queue*, which is deleted."""
        depth, leased = self._counted.pop(queue.id, (0, 0))
        self.messages -= depth
        self.leased -= leased
