"""A queue: messages by priority, then arrival, each identified by its UID.

    put ──▶ entry under (queue, lane, 9 - priority, arrival) ──take──▶ leased ──ack──▶ gone
             │          ▲                                        │
        delayed ──wake──┴────────────── come back ◀──────────────┘

Everything in memory is a cache of the store, but for the leases, the positions and what units of
work hold, which die with a restart. A delivery writes nothing.

Lanes. What an ordinary get must not meet, as its time has not come, lies in a lane of its own and
comes back to the ready one under its old arrival. Members of groups have a lane of their own, too:
who takes one group after the other meets the other messages alone, and finds the groups through
groups.py; who takes all as it came goes through both lanes at once.

Positions. positions.py says from where on a queue looks for the next message. A consumer that
selects has its own positions: before them is what it does not want, too. Consumers that seek the
same in an index share one (waiting.py).
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
from qmgrd.core.queue.breaker import Breaker
from qmgrd.core.queue.dedup import OriginTable, Verdict
from qmgrd.core.queue.group.groups import NEVER, Groups
from qmgrd.core.queue.journal import Account, Journal
from qmgrd.core.queue.lease import Lease
from qmgrd.core.queue.positions import Positions
from qmgrd.core.queue.references import References
from qmgrd.core.queue.uncommitted import Uncommitted
from qmgrd.core.queue.waiting import Waiting


class Shared(NamedTuple):
    """What all queues of a queue manager share."""

    ids: Ids  # of long bodies
    schedule: Schedule
    journal: Journal | None


class Queue:
    """A local queue, a subscription, the transmission queue of a link, or that of publications.

    Invariant: ``depth`` counts the entries of the ready lane, ``leases`` are among them.
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
        journal: Journal | None = None,
    ) -> None:
        self.id, self.name = queue_id, name
        self.counters = counters
        self.is_transmission = is_transmission  # also of publications: in one order, not got
        self.is_publications = queue_id == keys.PUBLICATIONS_ID
        self.references = references  # of a subscription: it holds publications, and no records
        self.account: Account | None = None  # if it keeps one
        self.origins = OriginTable(queue_id)
        self.leases: dict[int, Lease] = {}
        self.waiting = Waiting()
        self.uncommitted = Uncommitted()
        self.positions = Positions(queue_id, is_transmission=is_transmission)
        self.groups = Groups(queue_id, name, schedule)
        self.breaker = Breaker()
        self.deleted = self.is_full_reported = False
        self.shared = Shared(ids, schedule, journal)
        # After a crash nobody knows what had been delivered before it.
        if unclean:
            counters.doubt_deliveries()
        self.bounds = bounds

    @property
    def bounds(self) -> Bounds:
        """What the queue is held to."""
        return self._bounds

    @bounds.setter
    def bounds(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.account = None
        journal = self.shared.journal
        if journal is not None and bounds.accounting == "on":
            self.account = journal.account(self.name, self.id)
        self.positions.set_default_priority(bounds.priority_default)

    @property
    def ready(self) -> int:
        """How many messages an ordinary get can have."""
        return self.counters.depth - len(self.leases)

    @property
    def messages(self) -> int:
        """How many messages there are in whatever state, those of open units of work too."""
        return self.counters.depth + self.counters.delayed + self.uncommitted.messages

    @property
    def arrived(self) -> int:
        """Up to which arrival all have come that will: an open unit of work keeps its places."""
        return (self.uncommitted.lowest or self.counters.next_arrival) - 1

    def has_room(self, messages: int, bytes_: int) -> bool:
        """Return whether so many more may be put."""
        bounds = self._bounds
        return (
            self.messages + messages <= bounds.depth_max
            and self.counters.bytes + self.uncommitted.bytes + bytes_ <= bounds.bytes_max
        )

    def has_room_for_held(self, messages: int, bytes_: int) -> bool:
        """Return whether units may hold so many more, where all else makes room for them."""
        bounds = self._bounds
        return (
            self.uncommitted.messages + messages <= bounds.depth_max
            and self.uncommitted.bytes + bytes_ <= bounds.bytes_max
        )

    def is_new(self, tx: Transaction, trailer: bytes, bound_for: bytes) -> bool:
        """Return whether a message of the encoded UID *trailer* may be put."""
        if self.is_uncommitted(trailer, bound_for):
            return False
        return self.origins.judge(tx, trailer, bound_for) is not Verdict.DUPLICATE

    def is_uncommitted(self, trailer: bytes, bound_for: bytes) -> bool:
        """Returns whether an open unit of work holds the message of that encoded UID."""
        arrivals = self.uncommitted.arrivals
        return bool(arrivals) and self.origins.index_key(trailer, bound_for) in arrivals

    def longest(self, message_max_bytes: int) -> int:
        """Return how long a message may be here, where it may be *message_max_bytes* anywhere."""
        return min(message_max_bytes, self._bounds.message_max_bytes or message_max_bytes)

    def priority_of(self, head: records.Head) -> int:
        """Return the priority of a message whose record has that *head*."""
        if head.flags & records.FLAG_PRIORITY_OF_QUEUE:
            return self._bounds.priority_default
        return head.priority

    def key(self, priority: int, arrival: int) -> bytes:
        """Return the key of an entry of the ready lane."""
        return keys.message(self.id, keys.LANE_READY, priority, arrival)

    def find(self, tx: Transaction, priority: int, arrival: int) -> tuple[bytes, bytes] | None:
        """Return key and entry of a message that can be got, or None."""
        for lane in keys.LANES_READY:
            key = keys.message(self.id, lane, priority, arrival)
            if (value := tx.get(key)) is not None:
                return key, value
        return None

    def next_arrival(self) -> int:
        """Return an arrival that nothing else gets."""
        return self.counters.assign_arrival()

    def refresh_groups(self, tx: Transaction, now: Now) -> bool:
        """Bring the chain of groups to where they are; return whether there may be more of one."""
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
        """Makes all consumers look at all messages once more."""
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
        """Keep in the history what happens to the message under *key*, if there is to be one."""
        if self.account is not None:
            self.account.entry(kind, key, entry, peer=peer, target=target, code=code)

    def record_arrival(
        self, kind: int, priority: int, arrival: int, entry: Entry, target: str = ""
    ) -> None:
        """Keep in the history that *entry* came to that place, if there is to be one."""
        if self.account is not None:
            self.account.entry(kind, self.key(priority, arrival), entry, target=target)

    def lower(self, priority: int, arrival: int, lane: int = keys.LANE_READY) -> None:
        """Have a message found that can be got, though it may lie before where others look."""
        if self.is_transmission:
            return
        positions = self.positions
        heads = positions.ready if lane == keys.LANE_READY else positions.grouped
        if arrival < heads[priority]:
            heads[priority] = arrival
        for consumer in self.waiting.selecting:
            consumer.look_again(priority, arrival)

    @property
    def notices_use(self) -> bool:
        """Whether it matters who uses it: subscribers come back, and unused queues are deleted."""
        return self.references is not None or self._bounds.unused_expiry_ms > 0

    def wake_uid_seekers(self, trailer: bytes) -> None:
        """Looks after those who seek the message of that encoded UID."""
        waiting = self.waiting
        if waiting.seeking and (key := self.origins.index_key(trailer)) in waiting.seeking:
            waiting.sought[key] = None

    def wake_seekers(self, front: bytes, trailer: bytes, priority: int, arrival: int) -> None:
        """Looks after those who seek a message that can be got now."""
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
            for prefix in (key, key[:-4]):  # The one member, or whatever the number.
                if prefix in waiting.seeking:
                    waiting.seek_from(prefix, key)

    def index_correlation(self, tx: Transaction, correlation_id: bytes, key: bytes) -> None:
        """Makes the message under *key*, which a put appended, be found by its correlation id."""
        if self.is_transmission:
            return
        waiting, prefix = self.waiting, self.positions.correlation_prefix
        prefix += bytes([len(correlation_id)]) + correlation_id
        index_key = prefix + key[-keys.PLACE.size :]
        tx.put(index_key, b"")
        tx.rows_used += 1
        if prefix in waiting.seeking:
            waiting.seek_from(prefix, index_key)
        for consumer in waiting.selecting:
            if consumer.prefix == prefix:
                consumer.look_again(*keys.place(key))

    def remember(
        self, tx: Transaction, until_ms: int, trailer: bytes, priority: int, arrival: int
    ) -> None:
        """Have the UID of what was consumed there be a duplicate for longer."""
        lane, rank = keys.LANE_REMEMBERED, keys.PRIORITY_TOP - priority
        tx.put(self.origins.index_key(trailer), keys.POSITION.pack(lane, rank, arrival))
        self.shared.schedule.add(tx, until_ms, self.id, lane, priority, arrival, trailer)

    def forget(self, tx: Transaction, position: bytes, trailer: bytes) -> None:
        """Have a UID that was remembered at *position* be new again."""
        index_key = self.origins.index_key(trailer)
        if tx.get(index_key) == position:
            tx.delete(index_key)

    def is_lost(self, entry: Entry, arrival: int) -> bool:
        """Return whether a message is gone with a restart, though not swept yet."""
        return arrival < self.origins.born and entry.volatile

    def lose_volatile(self) -> tuple[int, int] | None:
        """Have what is not persistent be gone, as after a restart.

        Returns:
            From which arrival on and up to which these are to be swept, or None.
        """
        counters = self.counters
        if not counters.lose_volatile():
            return None
        self.origins.born = counters.next_arrival
        return counters.volatile_from, counters.next_arrival

    def end(self, lease: Lease) -> None:
        """Forget a lease, whatever becomes of its message."""
        del self.leases[lease.arrival]
        lease.lessee.leases.pop(lease.arrival, None)
        if self.groups.holds.leased:
            group_id = self.groups.holds.settled(lease.arrival)
            if group_id is not None:
                self.groups.touch(group_id)

    def value_of(self, tx: Transaction, lease: Lease) -> bytes:
        """Return the entry that is leased."""
        value = tx.get(lease.key)
        assert value is not None, f"{self.name}: leased {lease.arrival} is not there"
        return value

    def flush(self, tx: Transaction) -> None:
        """Write what this turn changed beside the messages."""
        assert self.groups.is_fresh, f"{self.name}: groups are not refreshed"
        self.origins.flush(tx)
        self.counters.write(tx, self.id)

    def describe(self) -> dict[str, Any]:
        """Return the counters and what is in memory, for people and scripts."""
        shown: dict[str, Any] = self.counters.as_dict()
        shown |= {
            "ready": self.ready,
            "leased": len(self.leases),
            "held": self.uncommitted.messages,
        }
        shown["consumers"] = self.waiting.consumer_count
        shown["breaker"] = self.breaker.state.value
        if self.references is None:
            del shown["parked"], shown["missed"]
            shown["arrived"] = self.arrived  # A subscription is given what was retained later.
        return shown
