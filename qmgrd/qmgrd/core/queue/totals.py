"""How many messages all queues hold, as running sums: a status costs no loop over the queues."""

from qmgrd.core.queue.queue import Queue


class Totals:
    """Sums over the queues. A queue is counted again in each turn that changes it.

    Invariant: between turns ``messages`` is the sum of the depths of all queues, ``leased`` that of
    their leases.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.leased = 0

    def count(self, queue: Queue) -> None:
        """Add what changed on *queue* since it was counted last."""
        counted, depth, leased = queue.counted, queue.counters.depth, len(queue.leases)
        self.messages += depth - counted[0]
        self.leased += leased - counted[1]
        counted[0], counted[1] = depth, leased

    def forget(self, queue: Queue) -> None:
        """Subtract what *queue*, which is deleted, was counted with."""
        self.messages -= queue.counted[0]
        self.leased -= queue.counted[1]
        queue.counted = [0, 0]
