"""The counters of a queue: one row, written once in each turn that changes the queue.

29 x u64: next_arrival depth bytes puts fast slow duplicates acked purged damaged
          delivered returned refused maybe_before delayed expired dead moved lost
          volatile volatile_delayed volatile_bytes volatile_from grouped parked missed
          unindexed unindexed_from unindexed_until
"""

import builtins
import struct
from dataclasses import dataclass, fields
from operator import attrgetter

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.value_checks import NUMBER_MAX

_ROW = struct.Struct(">29Q")
OPEN = NUMBER_MAX  # the end of a range that new messages enter


@dataclass(slots=True)
class Counters:
    """The counters of a queue. Only the methods of this class change them.

    Invariant, between operations on messages:

        depth + delayed + parked
            = puts - acked - purged - damaged - expired - dead - moved - lost
        puts = fast + slow

    The left side changes when a message enters or leaves a lane (``enter_lane``, ``leave_lane``,
    ``count_parked``). The right side changes when the reason is counted (``count_put``,
    ``count_acked`` and so on). An operation that puts or removes a message changes each side once.
    An operation that moves a message to another lane leaves one lane and enters the other. The
    methods for batches change both sides in one call.
    """

    next_arrival: int = 1  # the arrival number of the next message
    depth: int = 0  # available and leased messages
    bytes: int = 0  # bytes in the records of available, leased and delayed messages
    puts: int = 0
    fast: int = 0  # puts whose UID the table of origins showed to be new
    slow: int = 0  # puts whose UID a lookup showed to be new
    duplicates: int = 0  # puts that were refused as duplicates
    acked: int = 0
    purged: int = 0
    damaged: int = 0  # messages that failed their checksum
    delivered: int = 0  # deliveries; stored with the next change of another counter
    returned: int = 0
    refused: int = 0  # puts that were malformed, did not fit, or were inhibited
    # The arrival number below which messages may have been delivered before a crash.
    maybe_before: int = 0
    delayed: int = 0  # delayed messages
    expired: int = 0  # messages that were removed because they had expired
    dead: int = 0  # messages that moved to a backout queue or a dead-letter queue
    moved: int = 0  # messages that jobs moved to another queue
    lost: int = 0  # messages that a restart lost
    volatile: int = 0  # messages in ``depth`` that are not persistent
    volatile_delayed: int = 0  # delayed messages that are not persistent
    volatile_bytes: int = 0  # bytes in the records of all messages that are not persistent
    volatile_from: int = 0  # lower bound of the arrival numbers of messages that are not persistent
    grouped: int = 0  # group members in ``depth``, and lost members that no job has removed yet
    parked: int = 0  # messages that the subscriber returned too often
    missed: int = 0  # publications that a full or suspended subscription did not receive
    unindexed: int = 0  # messages without a row in the UID index, including lost ones
    # The arrival numbers of these messages are in this range, and no others are (ordered.py).
    unindexed_from: int = 0
    unindexed_until: int = 0

    # -- arrivals

    def assign_arrival(self) -> int:
        """Returns the next arrival number. Each number is assigned only once per queue."""
        arrival = self.next_arrival
        self.next_arrival = arrival + 1
        return arrival

    def is_unindexed(self, arrival: int) -> bool:
        """Returns whether a message with this arrival number has no row in the UID index."""
        return self.unindexed_from <= arrival < self.unindexed_until

    @property
    def may_include(self) -> bool:
        """Whether the next arrival number may be in the range of messages without a row."""
        return self.unindexed_until == OPEN or not self.unindexed

    def include_next(self) -> None:
        """Includes the next arrival numbers in the range. Requires :attr:`may_include`.

        A new range begins, unless the range is open.
        """
        if self.unindexed_until != OPEN:
            self.unindexed_from, self.unindexed_until = self.next_arrival, OPEN

    def exclude(self, arrival: int, count: int = 1) -> None:
        """Excludes *count* arrival numbers from *arrival* on: their UIDs are not in order."""
        if self.unindexed_until != OPEN:
            return
        if self.unindexed:
            self.unindexed_until = arrival
        else:
            self.unindexed_from = arrival + count

    def skip_arrivals(self, next_arrival: int) -> None:
        """Skips all arrival numbers below *next_arrival*."""
        if next_arrival > self.next_arrival:
            self.next_arrival = next_arrival

    def mark_all_maybe_delivered(self) -> None:
        """Records that each message now on the queue may have been delivered before a crash."""
        self.maybe_before = self.next_arrival

    def count_unindexed(self, arrival: int) -> bool:
        """Counts a message that has no row in the UID index. Returns whether it has none."""
        is_unindexed = self.is_unindexed(arrival)
        self.unindexed += is_unindexed
        return is_unindexed

    # -- lanes: the messages on the queue

    def enter_lane(self, lane: int, size: int, arrival: int, *, is_volatile: bool) -> None:
        """Counts a message of *size* bytes that enters the ready, grouped or delayed lane."""
        self.count_unindexed(arrival)
        if lane == keys.LANE_DELAYED:
            self.delayed += 1
        else:
            self.depth += 1
            self.grouped += lane == keys.LANE_GROUPED
        self.bytes += size
        if is_volatile:
            if not self.volatile and not self.volatile_delayed:
                self.volatile_from = arrival
            self.volatile_from = min(self.volatile_from, arrival)
            self.volatile += lane != keys.LANE_DELAYED
            self.volatile_delayed += lane == keys.LANE_DELAYED
            self.volatile_bytes += size

    def leave_lane(
        self, lane: int, size: int, arrival: int, *, is_volatile: bool, is_lost: bool
    ) -> None:
        """Counts a message of *size* bytes that leaves its lane.

        Args:
            lane: The lane that the message leaves.
            size: The size of the record of the message.
            arrival: The arrival number of the message.
            is_volatile: Whether the message is not persistent.
            is_lost: Whether a restart lost the message. :meth:`lose_volatile` has already counted
                such a message, except in ``grouped`` and ``unindexed``.
        """
        self.unindexed -= self.is_unindexed(arrival)
        if lane == keys.LANE_PARKED:
            self.parked -= 1
            return
        self.grouped -= lane == keys.LANE_GROUPED
        if is_lost:
            return
        if is_volatile:
            self.volatile -= lane != keys.LANE_DELAYED
            self.volatile_delayed -= lane == keys.LANE_DELAYED
            self.volatile_bytes -= min(self.volatile_bytes, size)
        self.depth -= lane != keys.LANE_DELAYED
        self.delayed -= lane == keys.LANE_DELAYED
        self.bytes -= min(self.bytes, size)  # The size in a damaged entry may differ.

    def lose_volatile(self) -> int:
        """Counts all messages that are not persistent as lost. Returns their number.

        Lost messages stay in ``grouped`` and ``unindexed`` until a job removes their entries.
        """
        count = self.volatile + self.volatile_delayed
        self.depth -= self.volatile
        self.delayed -= self.volatile_delayed
        self.bytes -= min(self.bytes, self.volatile_bytes)
        self.lost += count
        self.volatile = self.volatile_delayed = self.volatile_bytes = 0
        return count

    # -- batches: both sides of the invariant

    def put_batch(
        self, count: int, size: int, *, grouped: int = 0, unindexed: int = 0, slow: int = 0
    ) -> None:
        """Counts *count* plain puts with a total of *size* bytes.

        *grouped* of them are group members, *unindexed* have no row in the UID index, and a lookup
        showed that *slow* of them are new.
        """
        self.unindexed += unindexed
        self.depth += count
        self.grouped += grouped
        self.bytes += size
        self.puts += count
        self.fast += count - slow
        self.slow += slow

    def acknowledge_batch(
        self, count: int, size: int, *, grouped: int = 0, unindexed: int = 0
    ) -> None:
        """Counts *count* acknowledged plain messages with a total of *size* bytes.

        *grouped* of them are group members, and *unindexed* have no row in the UID index.
        """
        self.unindexed -= unindexed
        self.acked += count
        self.depth -= count
        self.grouped -= grouped
        self.bytes -= min(self.bytes, size)  # The size in a damaged entry may differ.

    # -- reasons for entering or leaving the queue

    def count_put(self, *, is_fast: bool) -> None:
        """Counts a put.

        Args:
            is_fast: Whether the table of origins alone showed that the UID is new.
        """
        self.puts += 1
        self.fast += is_fast
        self.slow += not is_fast

    def count_acked(self) -> None:
        """Counts a message that was consumed, or that the peer of a link committed."""
        self.acked += 1

    def count_purged(self) -> None:
        """Counts a message that a purge or an overflow removed."""
        self.purged += 1

    def count_expired(self) -> None:
        """Counts a message that was removed because it had expired."""
        self.expired += 1

    def count_dead(self) -> None:
        """Counts a message that moved to a backout queue or a dead-letter queue."""
        self.dead += 1

    def count_moved(self) -> None:
        """Counts a message that a job moved to another queue."""
        self.moved += 1

    def count_damaged(self) -> None:
        """Counts a message that failed its checksum and is set aside."""
        self.damaged += 1

    def count_parked(self) -> None:
        """Counts a message that left its lane and is parked."""
        self.parked += 1

    # -- events that change neither side

    def count_delivered(self, count: int) -> None:
        """Counts *count* deliveries."""
        self.delivered += count

    def count_returned(self) -> None:
        """Counts a lease that ended without an acknowledgement."""
        self.returned += 1

    def count_duplicate(self) -> None:
        """Counts a put that was refused because its UID exists or is remembered."""
        self.duplicates += 1

    def count_refused(self, count: int = 1) -> None:
        """Counts *count* puts that were refused for a reason other than a duplicate."""
        self.refused += count

    def count_missed(self, count: int = 1) -> None:
        """Counts *count* publications that a full or suspended subscription did not receive."""
        self.missed += count

    # -- the stored row

    def encode(self) -> builtins.bytes:
        """Returns the stored row."""
        try:
            return _ROW.pack(*_values(self))
        except struct.error:  # A stored counter was too low, so its value is negative now.
            for name in NAMES:
                setattr(self, name, max(getattr(self, name), 0))
            return _ROW.pack(*_values(self))

    @classmethod
    def decode(cls, row: builtins.bytes) -> "Counters":
        """Returns the counters in a stored row. Counters that are missing at its end are 0."""
        padded = row[: _ROW.size].ljust(_ROW.size, b"\0")
        return cls(*_ROW.unpack(padded))

    @classmethod
    def read(cls, tx: Transaction, queue_id: int, queue: str) -> "Counters":
        """Returns the stored counters of the queue.

        Raises:
            RowDamaged: The row is damaged or missing.
        """
        return cls.decode(rows.get(tx, keys.of_queue(keys.SPACE_COUNTERS, queue_id), queue))

    def write(self, tx: Transaction, queue_id: int) -> None:
        """Stores the counters of the queue."""
        rows.put(tx, keys.of_queue(keys.SPACE_COUNTERS, queue_id), self.encode())

    def as_dict(self) -> dict[str, int]:
        """Returns the counters by name."""
        return dict(zip(NAMES, _values(self), strict=True))


NAMES = tuple(field.name for field in fields(Counters))
_values = attrgetter(*NAMES)  # This expression is ten times as fast as dataclasses.astuple.
