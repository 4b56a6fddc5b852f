"""The schedule: when delays end, messages expire and remembered UIDs are forgotten.

The schedule is one range of rows in the order of their times, so due rows are found without a
search. A message has at most one row in the schedule, at ``due_ms`` of its entry. All times are
times of the store clock.
"""

from itertools import islice

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction


class Schedule:
    """The schedule of a store. Invariant: no row is due before ``next_ms``."""

    def __init__(self) -> None:
        self.next_ms: int | None = None

    def load(self, tx: Transaction) -> None:
        """Reads the time of the first row. Must also be called after rows were removed."""
        first = next(tx.scan(keys.SPACE_DUE, keys.after(keys.SPACE_DUE)), None)
        self.next_ms = None if first is None else due_of(first[0])

    def add(
        self,
        tx: Transaction,
        due_ms: int,
        queue_id: int,
        lane: int,
        priority: int,
        arrival: int,
        value: bytes = b"",
    ) -> None:
        """Adds a row that is due at *due_ms*, for a lane and a place of a queue."""
        tx.put(keys.due(due_ms, queue_id, lane, priority, arrival), value)
        if self.next_ms is None or due_ms < self.next_ms:
            self.next_ms = due_ms

    def due(self, tx: Transaction, now_ms: int, count: int) -> list[tuple[bytes, bytes]]:
        """Returns up to *count* rows that are due at *now_ms*, oldest first."""
        stop = keys.SPACE_DUE + (now_ms + 1).to_bytes(8, "big")
        return list(islice(tx.scan(keys.SPACE_DUE, stop), count))


def due_of(key: bytes) -> int:
    """Returns the time in the key of a row of the schedule."""
    return int.from_bytes(key[keys.DUE_MS], "big")
