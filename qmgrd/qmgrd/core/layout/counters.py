"""The counters of a queue: one row, written once in each turn that changed the queue.

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
    """The counters of a queue. Only the methods of this class change them.

    Invariant, between operations on messages:

        depth + delayed + parked
            = puts - acked - purged - damaged - expired - dead - moved - lost
        puts = fast + slow

    The left side changes when a message enters or leaves a lane (``enter_lane``, ``leave_lane``,
    ``count_parked``), the right side when the reason is counted (``count_put``, ``count_acked``
    and so on). An operation that puts or removes a message does both, once each. An operation that
    changes the lane of a message only leaves one lane and enters the other. The methods for
    batches do both sides at once.
    """

    next_arrival: int = 1
    depth: int = 0  # available and leased messages
    bytes: int = 0  # of the records of these, and of delayed messages
    puts: int = 0
    fast: int = 0  # puts whose UID was new by the table of origins
    slow: int = 0  # puts whose UID was new by the index
    duplicates: int = 0  # puts that were refused as duplicates
    acked: int = 0
    purged: int = 0
    damaged: int = 0  # messages that failed their checksum
    delivered: int = 0  # deliveries; written with the next other change
    returned: int = 0
    refused: int = 0  # puts without room, to an inhibited queue, or malformed
    maybe_before: int = 0  # arrivals below this may have been delivered before a crash
    delayed: int = 0  # delayed messages
    expired: int = 0  # messages that were removed as they had expired
    dead: int = 0  # messages that left for a backout queue or the dead letters
    moved: int = 0  # messages that jobs moved to another queue
    lost: int = 0  # messages that a restart lost
    volatile: int = 0  # of depth: messages that are not persistent
    volatile_delayed: int = 0  # the same of delayed
    volatile_bytes: int = 0
    volatile_from: int = 0  # the lowest arrival of these, or lower
    grouped: int = 0  # members of groups in depth, and lost ones that no job has removed yet
    parked: int = 0  # messages of a subscription that it returned too often
    missed: int = 0  # publications that a full or suspended subscription did not receive

    # -- arrivals

    def assign_arrival(self) -> int:
        """Returns the next arrival. No other message of the queue gets the same."""
        arrival = self.next_arrival
        self.next_arrival = arrival + 1
        return arrival

    def skip_arrivals(self, next_arrival: int) -> None:
        """Makes all arrivals below *next_arrival* unavailable to further messages."""
        if next_arrival > self.next_arrival:
            self.next_arrival = next_arrival

    def doubt_deliveries(self) -> None:
        """Records that each message so far may have been delivered, as after a crash."""
        self.maybe_before = self.next_arrival

    # -- lanes: the messages that the queue has

    def enter_lane(self, lane: int, size: int, arrival: int, *, is_volatile: bool) -> None:
        """Counts a message of *size* bytes that enters the ready, grouped or delayed lane."""
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

    def leave_lane(self, lane: int, size: int, *, is_volatile: bool, is_lost: bool) -> None:
        """Counts a message of *size* bytes that leaves its lane.

        Args:
            is_lost: a restart lost it, so :meth:`lose_volatile` has counted it, except for its
                group.
        """
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
        self.bytes -= min(self.bytes, size)  # A damaged entry may have been counted otherwise.

    def lose_volatile(self) -> int:
        """Removes all messages that are not persistent; returns how many there were.

        They stay in ``grouped`` until a job removes their entries.
        """
        count = self.volatile + self.volatile_delayed
        self.depth -= self.volatile
        self.delayed -= self.volatile_delayed
        self.bytes -= min(self.bytes, self.volatile_bytes)
        self.lost += count
        self.volatile = self.volatile_delayed = self.volatile_bytes = 0
        return count

    # -- batches: both sides of the invariant

    def put_batch(self, count: int, size: int, *, grouped: int = 0) -> None:
        """Counts *count* plain puts of *size* bytes in all that enter the ready or grouped lane."""
        self.depth += count
        self.grouped += grouped
        self.bytes += size
        self.puts += count
        self.fast += count

    def acknowledge_batch(self, count: int, size: int, *, grouped: int = 0) -> None:
        """Counts *count* plain messages of *size* bytes in all that acknowledgements removed."""
        self.acked += count
        self.depth -= count
        self.grouped -= grouped
        self.bytes -= min(self.bytes, size)  # A damaged entry may have been counted otherwise.

    # -- why a message came, or left for good

    def count_put(self, *, is_fast: bool) -> None:
        """Counts a put.

        Args:
            is_fast: the table of origins alone showed that its UID is new.
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
        """Counts a message that left for a backout queue or the dead letters."""
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
        """Counts a put that was refused because its message exists or is remembered."""
        self.duplicates += 1

    def count_refused(self, count: int = 1) -> None:
        """Counts *count* puts that were refused for another reason than a duplicate."""
        self.refused += count

    def count_missed(self, count: int = 1) -> None:
        """Counts *count* publications that a full or suspended subscription did not receive."""
        self.missed += count

    # -- the stored row

    def encode(self) -> builtins.bytes:
        """Returns the stored row."""
        try:
            return _ROW.pack(*_values(self))
        except struct.error:  # A stored counter was too low: it is negative now.
            for name in NAMES:
                setattr(self, name, max(getattr(self, name), 0))
            return _ROW.pack(*_values(self))

    @classmethod
    def decode(cls, row: builtins.bytes) -> "Counters":
        """Returns the counters in a stored row; those that it does not have start at 0."""
        padded = row[: _ROW.size].ljust(_ROW.size, b"\0")
        return cls(*_ROW.unpack(padded))

    @classmethod
    def read(cls, tx: Transaction, queue_id: int, queue: str) -> "Counters":
        """Returns the stored counters of that queue.

        Raises:
            RowDamaged: the row is damaged or missing.
        """
        return cls.decode(rows.get(tx, keys.of_queue(keys.SPACE_COUNTERS, queue_id), queue))

    def write(self, tx: Transaction, queue_id: int) -> None:
        """Stores the counters of that queue."""
        rows.put(tx, keys.of_queue(keys.SPACE_COUNTERS, queue_id), self.encode())

    def as_dict(self) -> dict[str, int]:
        """Returns the counters by name."""
        return dict(zip(NAMES, _values(self), strict=True))


NAMES = tuple(field.name for field in fields(Counters))
_values = attrgetter(*NAMES)  # dataclasses.astuple is ten times as slow.
