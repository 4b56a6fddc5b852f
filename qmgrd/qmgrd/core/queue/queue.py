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

Positions. For each priority, every message before ``heads[priority]`` is leased or gone. Taking
moves a position forward, what comes back lowers it, and a scan steps over what is leased. So the
next message is found by a seek, whatever the depth. Who selects has positions of its own: before
them is what it does not want, too. All who seek the same in an index share one, in ``reached``.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
from typing import Any

from qmgr_protocol import record as records
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.entry import Entry
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue.breaker import Breaker
from qmgrd.core.queue.dedup import OriginTable, Verdict
from qmgrd.core.queue.group.groups import NEVER, Groups
from qmgrd.core.queue.holders import Holders
from qmgrd.core.queue.journal import Account, Journal
from qmgrd.core.queue.lease import Consumer, Lease
from qmgrd.core.queue.put import Put, put
from qmgrd.core.queue.take import take

_PRIORITIES = range(records.PRIORITY_MAX + 1)


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
        holders: Holders | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.id, self.name = queue_id, name
        self.counters = counters
        self.is_transmission = is_transmission  # also of publications: in one order, not got
        self.is_publications = queue_id == keys.PUBLICATIONS_ID
        self.holders = holders  # of a subscription: it holds publications, and no records
        self.journal = journal
        self.account: Account | None = None  # if it keeps one
        self.origins = OriginTable(queue_id)
        self.leases: dict[int, Lease] = {}
        self.counted, self.consumer_count = [0, 0], 0  # in the totals; consumers without gets
        self.consumers: OrderedDict[Consumer, None] = OrderedDict()  # the next in rotation first
        self.resting: dict[Consumer, None] = {}  # without credit: not in the rotation
        self.unasked = 0  # of the rotation, the first ones, where the others want nothing; 0: all
        self.selecting: OrderedDict[Consumer, None] = OrderedDict()  # of these, the choosy
        self.ending: dict[Consumer, None] = {}  # gets whose wait is over once they have looked
        self.seeking: dict[bytes, OrderedDict[Consumer, None]] = {}  # by index: not in rotation
        self.sought: dict[bytes, None] = {}  # of these, for whom there may be something
        self.reached: dict[bytes, bytes] = {}  # of these, the key of the index to look on from
        self.deleted = self.told_full = False
        self.breaker = Breaker()
        self.held: dict[bytes, int] = {}  # keys of UIDs that open units put: arrivals, if any yet
        self.held_messages = self.held_bytes = 0
        self.sent_id = 0  # of a transmission queue: what is under way, and stays until it is over
        # After a crash nobody knows what had been delivered before it.
        if unclean:
            counters.maybe_before = counters.next_arrival
        self.ids = ids
        self.schedule = schedule
        # Of keys of entries, by priority. Ids order transmission, priority orders queues.
        self.prefixes = [
            keys.entry_prefix(queue_id, keys.PRIORITY_TOP if is_transmission else priority)
            for priority in _PRIORITIES
        ]
        self.heads = [0] * len(_PRIORITIES)
        self.grouped_prefixes = [
            keys.entry_prefix(queue_id, priority, keys.LANE_GROUPED) for priority in _PRIORITIES
        ]
        self.grouped_heads = [0] * len(_PRIORITIES)  # of those in physical order
        # Of what was stepped over before these, though nobody holds it: its group is stopped.
        self.stopped_heads = [NEVER] * len(_PRIORITIES)
        self.groups = Groups(queue_id, name, schedule)
        self._lane = keys.lane(queue_id, keys.LANE_READY)
        self.lane_end = keys.after(self._lane)
        self._correlation_prefix = keys.of_queue(keys.SPACE_CORRELATION, queue_id)
        self.bounds = bounds

    @property
    def bounds(self) -> Bounds:
        """What the queue is held to."""
        return self._bounds

    @bounds.setter
    def bounds(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.account = None
        if self.journal is not None and bounds.accounting == "on":
            self.account = self.journal.account(self.name, self.id)
        # By the four bytes from origin_length to flags of a record that is not stamped yet.
        self.plain_prefixes = {
            bytes([0, records.VERSION, priority, flags]): self.prefixes[
                bounds.priority_default if flags else priority
            ]
            for priority in _PRIORITIES
            for flags in (0, records.FLAG_PRIORITY_OF_QUEUE)
        }
        self.plain_grouped = {
            four: self.grouped_prefixes[keys.PRIORITY_TOP - prefix[-1]]
            for four, prefix in self.plain_prefixes.items()
        }

    @property
    def ready(self) -> int:
        """How many messages an ordinary get can have."""
        return self.counters.depth - len(self.leases)

    @property
    def messages(self) -> int:
        """How many messages there are in whatever state, those of open units of work too."""
        return self.counters.depth + self.counters.delayed + self.held_messages

    @property
    def arrived(self) -> int:
        """Up to which arrival all have come that will: an open unit of work keeps its places."""
        lowest = next(iter(self.held.values()), 0)  # They are given in turn. Of a link, by commit.
        return (lowest or self.counters.next_arrival) - 1

    def has_room(self, messages: int, bytes_: int) -> bool:
        """Return whether so many more may be put."""
        bounds = self._bounds
        return (
            self.messages + messages <= bounds.depth_max
            and self.counters.bytes + self.held_bytes + bytes_ <= bounds.bytes_max
        )

    def has_room_for_held(self, messages: int, bytes_: int) -> bool:
        """Return whether units may hold so many more, where all else makes room for them."""
        bounds = self._bounds
        return (
            self.held_messages + messages <= bounds.depth_max
            and self.held_bytes + bytes_ <= bounds.bytes_max
        )

    def is_new(self, tx: Transaction, trailer: bytes, bound_for: bytes) -> bool:
        """Return whether a message of the encoded UID *trailer* may be put."""
        if self.held and self.origins.index_key(trailer, bound_for) in self.held:
            return False
        return self.origins.judge(tx, trailer, bound_for) is not Verdict.DUPLICATE

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
        arrival = self.counters.next_arrival
        self.counters.next_arrival = arrival + 1
        return arrival

    def put(
        self,
        tx: Transaction,
        now: Now,
        stamper: Stamper,
        batch: list[bytes],
        message_max_bytes: int,
        target: str = "",
        extras: dict[int, Any] | None = None,
    ) -> Put:
        """Append the records of *batch* that can be; tell of the others why not."""
        return put(self, tx, now, stamper, batch, message_max_bytes, target, extras or {})

    def take(self, tx: Transaction, now: Now, consumer: Consumer, count: int) -> list[bytes]:
        """Lease up to *count* of the next messages to *consumer*; return them as delivery items."""
        return take(self, tx, now, consumer, count)

    def refresh_groups(self, tx: Transaction, now: Now) -> bool:
        """Bring the chain of groups to where they are; return whether there may be more of one."""
        turns, whole_from = self.groups.refresh(tx, now, self._bounds)
        for place in turns if self.selecting else ():
            if place:
                rank, arrival = keys.PLACE.unpack(place)
                for consumer in self.selecting:
                    consumer.look_again(keys.PRIORITY_TOP - rank, arrival)
        if whole_from < NEVER:
            for consumer in self.selecting:
                consumer.look_at_group(whole_from)
        return bool(turns)

    def look_anew(self) -> None:
        """Have everybody look at all that can be got once more."""
        self.grouped_heads = [0] * len(_PRIORITIES)
        self.stopped_heads = [NEVER] * len(_PRIORITIES)
        for consumer in self.selecting:
            consumer.heads, consumer.reached = [0] * len(_PRIORITIES), b""
        self.reached.clear()
        self.sought |= dict.fromkeys(self.seeking)

    def happened(
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

    def came(self, kind: int, priority: int, arrival: int, entry: Entry, target: str = "") -> None:
        """Keep in the history that *entry* came to that place, if there is to be one."""
        if self.account is not None:
            self.account.entry(kind, self.key(priority, arrival), entry, target=target)

    def lower(self, priority: int, arrival: int, lane: int = keys.LANE_READY) -> None:
        """Have a message found that can be got, though it may lie before where others look."""
        if self.is_transmission:
            return
        heads = self.heads if lane == keys.LANE_READY else self.grouped_heads
        if arrival < heads[priority]:
            heads[priority] = arrival
        for consumer in self.selecting:
            consumer.look_again(priority, arrival)

    def all_consumers(self) -> Iterator[Consumer]:
        """Yield the consumers and waiting gets, however they are looked after."""
        return chain(self.consumers, self.resting, chain.from_iterable(self.seeking.values()))

    @property
    def has_consumers(self) -> bool:
        """Whether somebody is there for what comes."""
        return bool(self.consumers or self.resting or self.seeking)

    @property
    def notices_use(self) -> bool:
        """Whether it matters who uses it: subscribers come back, and unused queues are deleted."""
        return self.holders is not None or self._bounds.unused_expiry_ms > 0

    def _look_from(self, prefix: bytes, key: bytes) -> None:
        """Have what an index has under *key* found, though it may lie before where they look."""
        self.sought[prefix] = None
        if key < self.reached.get(prefix, prefix):
            self.reached[prefix] = key

    def tell_uid(self, trailer: bytes) -> None:
        """Have those looked after who seek the message of that encoded UID."""
        if self.seeking and (key := self.origins.index_key(trailer)) in self.seeking:
            self.sought[key] = None

    def tell_all(self, front: bytes, trailer: bytes, priority: int, arrival: int) -> None:
        """Have those looked after who seek a message that can be got now."""
        if not self.seeking:
            return
        self.tell_uid(trailer)
        key = index.correlation_key(self.id, front, priority, arrival)
        if (prefix := key[: -keys.PLACE.size]) in self.seeking:
            self._look_from(prefix, key)
        group = index.selected_by(front)[1]
        if group is not None:
            key = keys.group(self.id, *group)
            for prefix in (key, key[:-4]):  # The one member, or whatever the number.
                if prefix in self.seeking:
                    self._look_from(prefix, key)

    def index_correlation(self, tx: Transaction, correlation_id: bytes, key: bytes) -> int:
        """Have what a put appended under *key* found by it; return how many rows that took."""
        if self.is_transmission:
            return 0
        prefix = self._correlation_prefix + bytes([len(correlation_id)]) + correlation_id
        index_key = prefix + key[-keys.PLACE.size :]
        tx.put(index_key, b"")
        if prefix in self.seeking:
            self._look_from(prefix, index_key)
        for consumer in self.selecting:
            if consumer.prefix == prefix:
                consumer.look_again(*keys.place(key))
        return 1

    def remember(
        self, tx: Transaction, until_ms: int, trailer: bytes, priority: int, arrival: int
    ) -> None:
        """Have the UID of what was consumed there be a duplicate for longer."""
        lane, rank = keys.LANE_REMEMBERED, keys.PRIORITY_TOP - priority
        tx.put(self.origins.index_key(trailer), keys.POSITION.pack(lane, rank, arrival))
        self.schedule.add(tx, until_ms, self.id, lane, priority, arrival, trailer)

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
        count = counters.volatile + counters.volatile_delayed
        if not count:
            return None
        self.origins.born = counters.next_arrival
        counters.depth -= counters.volatile
        counters.delayed -= counters.volatile_delayed
        counters.bytes -= min(counters.bytes, counters.volatile_bytes)
        counters.lost += count
        counters.volatile = counters.volatile_delayed = counters.volatile_bytes = 0
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
        shown |= {"ready": self.ready, "leased": len(self.leases), "held": self.held_messages}
        shown["consumers"] = self.consumer_count
        shown["breaker"] = self.breaker.state.value
        if self.holders is None:
            del shown["parked"], shown["missed"]
            shown["arrived"] = self.arrived  # A subscription is given what was retained later.
        return shown
