"""What a queue counts: one stored row, written once in each turn that touched the queue.

26 x u64: next_arrival depth bytes puts fast slow duplicates acked purged damaged
          delivered returned refused maybe_before delayed expired dead moved lost
          volatile volatile_delayed volatile_bytes volatile_from grouped parked missed
"""

import builtins
import struct
from dataclasses import dataclass, fields
from operator import attrgetter

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction

_ROW = struct.Struct(">26Q")


@dataclass(slots=True)
class Counters:
    """The counters of a queue.

    Invariant: depth + delayed + parked = puts - acked - purged - damaged - expired - dead - moved
    - lost, and puts = fast + slow: each message went one of the two ways through the table of
    origins.
    """

    next_arrival: int = 1
    depth: int = 0  # messages that can be got or are leased
    bytes: int = 0  # of their records, and of those delayed
    puts: int = 0
    fast: int = 0  # puts that needed no look at any message
    slow: int = 0  # puts that asked the index in vain
    duplicates: int = 0  # refused
    acked: int = 0
    purged: int = 0
    damaged: int = 0  # failed their checksum, set aside
    delivered: int = 0  # deliveries since the counter was last written; none is written for itself
    returned: int = 0
    refused: int = 0  # for want of space, inhibited, or for what was wrong with them
    maybe_before: int = 0  # arrivals below may have been delivered before the last crash
    delayed: int = 0  # messages that wait for their time
    expired: int = 0  # gone because their time was over
    dead: int = 0  # gone to a backout queue or to the dead letters
    moved: int = 0  # gone to another queue
    lost: int = 0  # not persistent, gone with a restart
    volatile: int = 0  # of depth: not persistent
    volatile_delayed: int = 0  # the same of those delayed
    volatile_bytes: int = 0
    volatile_from: int = 0  # no arrival of one is lower
    grouped: int = 0  # in groups, of depth and of what is gone with a restart and not swept yet
    parked: int = 0  # of a subscription: what its subscriber gave back too often
    missed: int = 0  # publications that it did not get, being full or suspended

    def encode(self) -> builtins.bytes:
        """Return the stored row."""
        try:
            return _ROW.pack(*_values(self))
        except struct.error:  # A stored count was too low, so one is below zero now.
            for name in NAMES:
                setattr(self, name, max(getattr(self, name), 0))
            return _ROW.pack(*_values(self))

    @classmethod
    def decode(cls, row: builtins.bytes) -> "Counters":
        """Return what a stored row holds; counters it does not know yet start at 0."""
        padded = row[: _ROW.size].ljust(_ROW.size, b"\0")
        return cls(*_ROW.unpack(padded))

    @classmethod
    def read(cls, tx: Transaction, queue_id: int, queue: str) -> "Counters":
        """Return what is stored for that queue.

        Raises:
            RowDamaged: the row is, or it is missing: each queue has one.
        """
        return cls.decode(rows.get(tx, keys.of_queue(keys.SPACE_COUNTERS, queue_id), queue))

    def write(self, tx: Transaction, queue_id: int) -> None:
        """Store them for that queue."""
        rows.put(tx, keys.of_queue(keys.SPACE_COUNTERS, queue_id), self.encode())

    def as_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return dict(zip(NAMES, _values(self), strict=True))


NAMES = tuple(field.name for field in fields(Counters))
_values = attrgetter(*NAMES)  # dataclasses.astuple copies each value: ten times as slow.
