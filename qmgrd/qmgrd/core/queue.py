"""A queue: messages by priority, then arrival, each identified by its UID.

    put ──▶ entry under (queue, lane, 9 - priority, arrival) ──take──▶ leased ──ack──▶ gone
                        ▲                                                 │
                        └──────────────── come back ◀─────────────────────┘

Everything in memory is a cache of the store, but for the leases and the positions, which die with
a restart. A delivery writes nothing.

Positions. For each priority, every message before ``heads[priority]`` is leased or gone. Taking
moves a position forward, what comes back lowers it, and a scan steps over what is leased. So the
next message is found by a seek, whatever the depth.
"""

from collections import OrderedDict
from typing import Any

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.messages import (
    DELIVERY,
    HANDLE,
    STATE_LEASED,
)
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core.bounds import Bounds
from qmgrd.core.counters import Counters
from qmgrd.core.dedup import OriginTable
from qmgrd.core.ids import Ids, is_lease_of
from qmgrd.core.kv import Now, Transaction
from qmgrd.core.lease import Consumer, Lease
from qmgrd.core.put import Put, put
from qmgrd.core.stamp import Stamper
from qmgrd.core.take import DELIVER_MAX_BYTES, state_of, take


class Queue:
    """A local queue or the transmission queue of a link.

    Invariant: ``depth`` counts the entries of the ready lane, ``leases`` are among them.
    """

    def __init__(
        self, queue_id: int, name: str, bounds: Bounds, counters: Counters, ids: Ids,
        *, is_transmission: bool = False, unclean: bool = False,
    ) -> None:  # fmt: skip
        self.id = queue_id
        self.name = name
        self.bounds = bounds
        self.counters = counters
        self.is_transmission = is_transmission
        self.origins = OriginTable(queue_id)
        self.leases: dict[int, Lease] = {}
        self.consumers: OrderedDict[Consumer, None] = OrderedDict()  # the next in rotation first
        self.deleted = False
        # After a crash nobody knows what had been delivered before it.
        if unclean:
            counters.maybe_before = counters.next_arrival
        self.ids = ids
        # Of keys of entries, by priority. Ids order transmission, priority orders queues.
        self.prefixes = [
            keys.entry_prefix(queue_id, keys.PRIORITY_TOP if is_transmission else priority)
            for priority in range(records.PRIORITY_MAX + 1)
        ]
        self.heads = [0] * (records.PRIORITY_MAX + 1)
        self._lane = keys.lane(queue_id, keys.LANE_READY)
        self.lane_end = keys.after(self._lane)

    @property
    def ready(self) -> int:
        """How many messages an ordinary get can have."""
        return self.counters.depth - len(self.leases)

    def key(self, priority: int, arrival: int) -> bytes:
        """Return the key of an entry of the ready lane."""
        return keys.message(self.id, keys.LANE_READY, priority, arrival)

    def put(
        self, tx: Transaction, now: Now, stamper: Stamper, batch: list[bytes],
        message_max_bytes: int, target: str = "",
    ) -> Put:  # fmt: skip
        """Append the records of *batch* that can be; tell of the others why not."""
        return put(self, tx, now, stamper, batch, message_max_bytes, target)

    def take(self, tx: Transaction, now: Now, consumer: Consumer, count: int) -> list[bytes]:
        """Lease up to *count* of the next messages to *consumer*; return them as delivery items."""
        return take(self, tx, now, consumer, count)

    def ack_all(self, tx: Transaction, handles: bytes) -> list[tuple[int, int]]:
        """Remove for good what *handles* name; return the index of each that could not, and why."""
        leases, delete, exceptions = self.leases, tx.delete, []
        count = size = 0
        for index, (priority, arrival, number) in enumerate(HANDLE.iter_unpack(handles)):
            lease = leases.get(arrival)
            if lease is None or lease.number != number or lease.in_rows:
                if code := self._ack(tx, lease, priority, arrival, number):
                    exceptions.append((index, int(code)))
                continue
            del leases[arrival]
            lease.lessee.leases.pop(arrival, None)
            delete(lease.key)
            delete(lease.index_key)
            count += 1
            size += lease.size
        self._count_acked(count, size)
        return exceptions

    def _ack(
        self, tx: Transaction, lease: Lease | None, priority: int, arrival: int, number: int
    ) -> int:
        """Remove a message for good; return 0, or the code that says why not.

        A handle whose message is gone is an ack sent again: success. One whose lease is over
        settles now, if nobody else holds the message; but never another message that has its place,
        as in a store that was put back to an earlier state.
        """
        if lease is not None:
            if lease.number != number:
                return ErrorCode.LEASE_LOST
            self._end(lease)
            value = tx.get(lease.key)
            assert value is not None, f"{self.name}: {arrival} is not there"
            entries.delete_rows(tx, entries.decode(value))
            tx.delete(lease.key)
            tx.delete(lease.index_key)
            self._count_acked(1, lease.size)
            return 0
        value = tx.get(self.key(min(priority, 9), arrival))
        if value is not None:
            record = entries.record(tx, entries.decode(value))
            if not is_lease_of(number, entries.checksum_of(record)):
                return ErrorCode.LEASE_LOST
            self.remove_entry(tx, min(priority, 9), arrival, value)
            self.counters.acked += 1
        return 0

    def _count_acked(self, count: int, size: int) -> None:
        counters = self.counters
        counters.acked += count
        counters.depth -= count
        counters.bytes = max(counters.bytes - size, 0)  # Rot may have miscounted it.

    def release_all(self, tx: Transaction, handles: bytes) -> list[tuple[int, int]]:
        """Give back what *handles* name, as failed; return the index of each that could not."""
        exceptions = []
        for index, (_, arrival, number) in enumerate(HANDLE.iter_unpack(handles)):
            lease = self.leases.get(arrival)
            if lease is None:
                continue  # It came back, or was settled, before.
            if lease.number == number:
                self.come_back(tx, lease, failed=True)
            else:
                exceptions.append((index, int(ErrorCode.LEASE_LOST)))
        return exceptions

    def come_back(self, tx: Transaction, lease: Lease, *, failed: bool) -> None:
        """End *lease* and let its message be had again in its old place, its counts raised."""
        self._end(lease)
        value = tx.get(lease.key)
        assert value is not None, f"{self.name}: leased {lease.arrival} is not there"
        tx.put(lease.key, entries.came_back(value, failed))
        self.counters.returned += 1
        self.heads[lease.priority] = min(self.heads[lease.priority], lease.arrival)

    def _end(self, lease: Lease) -> None:
        del self.leases[lease.arrival]
        lease.lessee.leases.pop(lease.arrival, None)

    def remove_entry(self, tx: Transaction, priority: int, arrival: int, value: bytes) -> None:
        """Remove a message that nobody leases, given its entry, sound or not."""
        entry = entries.decode(value)
        entries.delete_rows(tx, entry)
        self._forget(tx, self.key(priority, arrival), entry)

    def set_aside(self, tx: Transaction, key: bytes, value: bytes) -> None:
        """Move an entry that failed its checksum where nobody gets it, and count it."""
        priority, arrival = keys.place(key)
        self._forget(tx, key, entries.decode(value))
        tx.put(keys.message(self.id, keys.LANE_DAMAGED, priority, arrival), value)
        self.counters.damaged += 1

    def _forget(self, tx: Transaction, key: bytes, entry: entries.Entry) -> None:
        """Take what may be damaged off the queue: it may name another message's UID, or no size."""
        tx.delete(key)
        index_key = self.origins.index_key(entries.uid_trailer(entry), entry.target.encode())
        if tx.get(index_key) == key[5:]:
            tx.delete(index_key)
        self.counters.depth -= 1
        self.counters.bytes -= min(self.counters.bytes, entries.record_bytes(entry))

    def browse(
        self, tx: Transaction, after: tuple[int, int] | None, count: int, bytes_max: int
    ) -> tuple[list[bytes], tuple[int, int] | None]:
        """Return up to *count* messages behind *after*, as delivery items, and where to go on."""
        priority, arrival = (keys.PRIORITY_TOP, -1) if after is None else after
        start = self.key(min(priority, 9), arrival + 1)
        items: list[bytes] = []
        size = 0
        bytes_max = min(bytes_max, DELIVER_MAX_BYTES)
        for key, value in tx.scan(start, self.lane_end):
            entry = entries.decode(value)
            size += entries.record_bytes(entry)
            if len(items) == count or (items and size > bytes_max):
                return items, (priority, arrival)
            priority, arrival = keys.place(key)
            # No lease number: who browses must not be able to settle for others.
            state = state_of(entry.delivered, arrival, self.counters.maybe_before)
            if arrival in self.leases:
                state |= STATE_LEASED
            item = DELIVERY.pack(
                priority, arrival, 0, entry.delivered, entry.failed, state, entry.put_us
            )
            items.append(item + entries.record(tx, entry))
        return items, None

    def flush(self, tx: Transaction) -> None:
        """Write what this turn changed beside the messages."""
        self.origins.flush(tx)
        self.counters.write(tx, self.id)

    def describe(self) -> dict[str, Any]:
        """Return the counters and what is in memory, for people and scripts."""
        shown: dict[str, Any] = self.counters.as_dict()
        shown |= {"ready": self.ready, "leased": len(self.leases)}
        shown["consumers"] = sum(not consumer.is_get for consumer in self.consumers)
        return shown
