"""A queue: messages by priority, then arrival, each identified by its UID.

    put ──▶ entry under (queue, lane, 9 - priority, arrival) ──take──▶ leased ──ack──▶ gone
             │          ▲                                        │
        delayed ──wake──┴──────────── return_to_queue ◀──────────┘

Most of the state in memory is a cache of the store. Leases, positions and the puts of open units of
work are in memory only, so a restart forgets them. A delivery writes nothing.

Lanes. Delayed messages are in a separate lane, which gets do not scan. After the delay, they enter
the ready lane with their original arrival number. Members of groups are also in a separate lane. A
consumer that reads group by group scans only the ready lane, and finds groups through groups.py. A
consumer that reads in physical order merges both lanes.

Positions. A queue searches for the next message from a position (positions.py). A consumer that
selects has separate positions. Consumers that seek the same index key share one position
(waiting.py).
"""

from typing import Any, NamedTuple

from qmgr_protocol import record as records
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.entry import Entry
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.unused_bodies import UnusedBodies
from qmgrd.core.queue.breaker import Breaker
from qmgrd.core.queue.dedup import OriginTable, UidVerdict
from qmgrd.core.queue.group.groups import NEVER, Groups
from qmgrd.core.queue.history import Account, History
from qmgrd.core.queue.lease import Lease
from qmgrd.core.queue.ordered import OrderedMessages
from qmgrd.core.queue.positions import Positions
from qmgrd.core.queue.references import References
from qmgrd.core.queue.stored_bytes import StoredBytes
from qmgrd.core.queue.uncommitted import Uncommitted
from qmgrd.core.queue.waiting import Waiting


class Shared(NamedTuple):
    """The parts that all queues of a queue manager share."""

    ids: Ids  # the source of body ids for long records
    schedule: Schedule
    history: History | None
    unused_bodies: UnusedBodies


class Queue:
    """A local queue, a subscription, a transmission queue, or the queue of publications.

    Invariant: ``counters.depth`` is the number of entries in the ready and the grouped lane,
    including leased messages.
    """

    def __init__(
        self,
        queue_id: int,
        name: str,
        bounds: Bounds,
        counters: Counters,
        ids: Ids,
        schedule: Schedule,
        *,
        is_transmission: bool = False,
        unclean: bool = False,
        references: References | None = None,
        history: History | None = None,
        origin: bytes = b"",
        unused_bodies: UnusedBodies | None = None,
    ) -> None:
        self.id, self.name = queue_id, name
        self.counters = counters
        # Whether the queue has a single order and no gets, like the queue of publications.
        self.is_transmission = is_transmission
        self.is_publications = queue_id == keys.PUBLICATIONS_ID
        # The references of a subscription to publications; None for other queues.
        self.references = references
        # The recorder of the history; None if the queue keeps no history.
        self.account: Account | None = None
        # The bytes on all queues of the user who created this one; None without such a user.
        self.stored: StoredBytes | None = None
        # *origin* is the name of this queue manager.
        self.origins = OriginTable(queue_id, OrderedMessages(queue_id, counters, origin))
        self.leases: dict[int, Lease] = {}
        self.waiting = Waiting()
        self.uncommitted = Uncommitted()
        self.positions = Positions(queue_id, is_transmission=is_transmission)
        self.groups = Groups(queue_id, name, schedule)
        self.breaker = Breaker()
        self.deleted = self.is_full_reported = False
        self.shared = Shared(ids, schedule, history, unused_bodies or UnusedBodies())
        # After a crash, the daemon does not know which messages had been delivered.
        if unclean:
            counters.mark_all_maybe_delivered()
        self.bounds = bounds

    @property
    def bounds(self) -> Bounds:
        """The limits of the queue."""
        return self._bounds

    @bounds.setter
    def bounds(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.account = None
        history = self.shared.history
        if history is not None and bounds.accounting == "on":
            self.account = history.account(self.name, self.id)
        self.positions.set_default_priority(bounds.priority_default)

    @property
    def ready(self) -> int:
        """The number of messages that a get can lease now."""
        return self.counters.depth - len(self.leases)

    @property
    def messages(self) -> int:
        """The number of messages in all states, including the puts of open units of work."""
        return self.counters.depth + self.counters.delayed + self.uncommitted.messages

    @property
    def used_bytes(self) -> int:
        """The bytes of these messages."""
        return self.counters.bytes + self.uncommitted.bytes

    @property
    def arrived(self) -> int:
        """The highest arrival number at or below which no message can still arrive.

        Open units of work reserve arrival numbers, so messages with higher numbers may already
        exist.
        """
        return (self.uncommitted.lowest or self.counters.next_arrival) - 1

    def has_room(self, messages: int, bytes_: int) -> bool:
        """Returns whether a put of *messages* with a total of *bytes_* bytes fits in the queue."""
        bounds = self._bounds
        used_bytes = self.counters.bytes + self.uncommitted.bytes
        return (
            self.messages + messages <= bounds.depth_max
            and used_bytes + bytes_ <= bounds.bytes_max
            and (self.stored is None or not bytes_ or used_bytes + bytes_ <= self.bytes_limit)
        )

    @property
    def bytes_limit(self) -> int:
        """The bytes that the queue may have now, given the limit of the user who created it."""
        if self.stored is None or not self.stored.limit_bytes:
            return self._bounds.bytes_max
        return min(self._bounds.bytes_max, self.stored.limit_of(self))

    def has_room_for_held(self, messages: int, bytes_: int) -> bool:
        """Returns whether held puts of that size fit once all other messages are evicted."""
        bounds = self._bounds
        return self.uncommitted.messages + messages <= bounds.depth_max and (
            not bytes_ or self.uncommitted.bytes + bytes_ <= self.bytes_limit
        )

    def is_new(self, tx: Transaction, trailer: bytes, bound_for: bytes) -> bool:
        """Returns whether a message with the encoded UID *trailer* may be put."""
        if self.is_uncommitted(trailer, bound_for):
            return False
        return self.origins.check_uid(tx, trailer, bound_for) is not UidVerdict.DUPLICATE

    def is_uncommitted(self, trailer: bytes, bound_for: bytes) -> bool:
        """Returns whether an open unit of work holds a message with the encoded UID *trailer*."""
        arrivals = self.uncommitted.arrivals
        return bool(arrivals) and self.origins.index_key(trailer, bound_for) in arrivals

    def longest(self, message_max_bytes: int) -> int:
        """Returns the size limit of a message: *message_max_bytes*, or the queue's lower limit."""
        return min(message_max_bytes, self._bounds.message_max_bytes or message_max_bytes)

    def priority_of(self, head: records.Head) -> int:
        """Returns the priority of a message whose record has the given *head*."""
        if head.flags & records.FLAG_PRIORITY_OF_QUEUE:
            return self._bounds.priority_default
        return head.priority

    def key(self, priority: int, arrival: int) -> bytes:
        """Returns the key of an entry in the ready lane."""
        return keys.message(self.id, keys.LANE_READY, priority, arrival)

    def find(self, tx: Transaction, priority: int, arrival: int) -> tuple[bytes, bytes] | None:
        """Returns the key and the entry of a message in the ready or grouped lane, or None."""
        for lane in keys.LANES_READY:
            key = keys.message(self.id, lane, priority, arrival)
            if (value := tx.get(key)) is not None:
                return key, value
        return None

    def next_arrival(self, *, is_new: bool = False) -> int:
        """Returns the next arrival number. No other message of the queue has this number.

        Args:
            is_new: Whether this queue manager assigned the UID of the message, and the queue has no
                higher UID of this origin. Such a message may need no row in the UID index
                (ordered.py).
        """
        counters = self.counters
        if is_new and self.needs_no_rows:
            counters.include_next()
            return counters.assign_arrival()
        arrival = counters.assign_arrival()
        counters.exclude(arrival)
        return arrival

    @property
    def needs_no_rows(self) -> bool:
        """Whether new messages with the next arrival numbers need no rows in the UID index.

        Each delivery of a publication reads the row of the publication.
        """
        return not self.is_publications and self.counters.may_include

    def refresh_groups(self, tx: Transaction, now: Now) -> bool:
        """Updates the order of groups. Returns whether more members may be available now."""
        turns, whole_from = self.groups.refresh(tx, now, self._bounds)
        waiting = self.waiting
        for place in turns if waiting.selecting else ():
            if place:
                rank, arrival = keys.PLACE.unpack(place)
                waiting.look_again(keys.PRIORITY_TOP - rank, arrival)
        if whole_from < NEVER:
            for consumer in waiting.selecting:
                consumer.look_at_group(whole_from)
        return bool(turns)

    def start_over(self) -> None:
        """Makes all consumers examine all messages again."""
        self.positions.start_over()
        self.waiting.start_over()

    def record_history(
        self,
        kind: int,
        key: bytes,
        entry: Entry,
        *,
        peer: str = "",
        target: str = "",
        code: int = 0,
    ) -> None:
        """Records an event of the message under *key*, if the queue keeps a history."""
        if self.account is not None:
            self.account.entry(kind, key, entry, peer=peer, target=target, code=code)

    def record_arrival(
        self, kind: int, priority: int, arrival: int, entry: Entry, target: str = ""
    ) -> None:
        """Records the arrival of *entry*, if the queue keeps a history."""
        if self.account is not None:
            self.account.entry(kind, self.key(priority, arrival), entry, target=target)

    def lower_position(self, priority: int, arrival: int, lane: int = keys.LANE_READY) -> None:
        """Lowers the positions so that the next scan finds a message that became available."""
        if self.is_transmission:
            return
        positions = self.positions
        heads = positions.ready if lane == keys.LANE_READY else positions.grouped
        if arrival < heads[priority]:
            heads[priority] = arrival
        self.waiting.look_again(priority, arrival)

    @property
    def notices_use(self) -> bool:
        """Whether the daemon tracks the use of this queue, because it is a subscription or may
        expire.
        """
        return self.references is not None or self._bounds.unused_expiry_ms > 0

    def wake_uid_seekers(self, trailer: bytes) -> None:
        """Wakes the consumers that seek the message with the encoded UID *trailer*."""
        waiting = self.waiting
        if waiting.seeking and (key := self.origins.index_key(trailer)) in waiting.seeking:
            waiting.sought[key] = None

    def wake_seekers(self, front: bytes, trailer: bytes, priority: int, arrival: int) -> None:
        """Wakes the consumers that seek a message that became available."""
        waiting = self.waiting
        if not waiting.seeking:
            return
        self.wake_uid_seekers(trailer)
        key = index.correlation_key(self.id, front, priority, arrival)
        if (prefix := key[: -keys.PLACE.size]) in waiting.seeking:
            waiting.seek_from(prefix, key)
        group = index.selected_by(front)[1]
        if group is not None:
            key = keys.group(self.id, *group)
            # The prefix of this member, and the prefix of its group
            for prefix in (key, key[keys.BEFORE_NUMBER]):
                if prefix in waiting.seeking:
                    waiting.seek_from(prefix, key)

    def index_correlation(self, tx: Transaction, correlation_id: bytes, key: bytes) -> None:
        """Adds a new message to the index of correlation ids."""
        if self.is_transmission:
            return
        waiting, prefix = self.waiting, self.positions.correlation_prefix
        prefix += bytes([len(correlation_id)]) + correlation_id
        index_key = prefix + key[-keys.PLACE.size :]
        tx.put(index_key, b"")
        tx.rows_used += 1
        if prefix in waiting.seeking:
            waiting.seek_from(prefix, index_key)
        if prefix in waiting.selecting_in:
            waiting.look_again(*keys.place(key), prefix)

    def remember(
        self, tx: Transaction, until_ms: int, trailer: bytes, priority: int, arrival: int
    ) -> None:
        """Remembers the UID of a consumed message until *until_ms*, to detect duplicates."""
        lane, rank = keys.LANE_REMEMBERED, keys.PRIORITY_TOP - priority
        tx.put(self.origins.index_key(trailer), keys.POSITION.pack(lane, rank, arrival))
        self.shared.schedule.add(tx, until_ms, self.id, lane, priority, arrival, trailer)

    def forget(self, tx: Transaction, position: bytes, trailer: bytes) -> None:
        """Forgets a UID that was remembered at *position*."""
        index_key = self.origins.index_key(trailer)
        if tx.get(index_key) == position:
            tx.delete(index_key)

    def is_lost(self, entry: Entry, arrival: int) -> bool:
        """Returns whether a restart lost a message. A job will remove the rows of that message."""
        return arrival < self.origins.born and entry.volatile

    def lose_volatile(self) -> tuple[int, int] | None:
        """Counts all messages that are not persistent as lost, after a restart.

        Returns:
            The first arrival number to sweep and the arrival number before which to stop, or None
            if no message was lost.
        """
        counters = self.counters
        if not counters.lose_volatile():
            return None
        self.origins.born = counters.next_arrival
        return counters.volatile_from, counters.next_arrival

    def end(self, lease: Lease) -> None:
        """Forgets a lease. The caller removes its message or returns it to the queue."""
        del self.leases[lease.arrival]
        lease.lessee.leases.pop(lease.arrival, None)
        if self.groups.held_groups.leased:
            group_id = self.groups.held_groups.settled(lease.arrival)
            if group_id is not None:
                self.groups.mark_changed(group_id)

    def value_of(self, tx: Transaction, lease: Lease) -> bytes:
        """Returns the entry of the leased message."""
        value = tx.get(lease.key)
        assert value is not None, f"{self.name}: leased {lease.arrival} does not exist"
        return value

    def flush(self, tx: Transaction) -> None:
        """Writes the changes of this turn to rows other than those of messages."""
        assert self.groups.is_fresh, f"{self.name}: groups are not refreshed"
        self.origins.flush(tx)
        self.counters.write(tx, self.id)

    def describe(self) -> dict[str, Any]:
        """Returns the counters and the state in memory for `qmctl queue show`."""
        shown: dict[str, Any] = self.counters.as_dict()
        for internal in ("unindexed", "unindexed_from", "unindexed_until"):
            del shown[internal]
        shown |= {
            "ready": self.ready,
            "leased": len(self.leases),
            "held": self.uncommitted.messages,
        }
        shown["consumers"] = self.waiting.consumer_count
        shown["breaker"] = self.breaker.state.value
        if self.references is None:
            del shown["parked"], shown["missed"]
            # This field is missing for a subscription, because it receives retained publications
            # later.
            shown["arrived"] = self.arrived
        return shown
