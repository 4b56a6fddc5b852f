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

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import (
    DELIVERY,
    STATE_LEASED,
    STATE_MAYBE_REDELIVERED,
    STATE_REDELIVERED,
)
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core.counters import Counters
from qmgrd.core.dedup import OriginTable, Verdict
from qmgrd.core.ids import Ids, is_lease_of
from qmgrd.core.kv import Now, Transaction
from qmgrd.core.lease import Consumer, Lease
from qmgrd.core.stamp import Stamper

DELIVER_MAX_BYTES = 1024 * 1024
ROWS_OF_A_PUT = 2  # the entry and its UID


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a queue is held to."""

    depth_max: int
    bytes_max: int
    lease_ms: int
    leases_max: int
    put_inhibit: bool = False  # held to by who puts here, and who hands out
    get_inhibit: bool = False


class Put(NamedTuple):
    """What became of the records of one put."""

    refused: list[tuple[int, RequestError]]  # index and why
    stamped: list[list[int]]  # runs: index of the first, its timestamp, how many
    rows: int


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
        self.consumers: deque[Consumer] = deque()
        self.deleted = False
        # After a crash nobody knows what had been delivered before it.
        if unclean:
            counters.maybe_before = counters.next_arrival
        self._ids = ids
        self._heads = [0] * (records.PRIORITY_MAX + 1)
        self._lane = keys.lane(queue_id, keys.LANE_READY)
        self._lane_end = keys.after(self._lane)

    @property
    def ready(self) -> int:
        """How many messages an ordinary get can have."""
        return self.counters.depth - len(self.leases)

    def put(
        self, tx: Transaction, now: Now, stamper: Stamper, batch: list[bytes],
        message_max_bytes: int, target: str = "",
    ) -> Put:  # fmt: skip
        """Append the records of *batch* that can be; tell of the others why not."""
        refused: list[tuple[int, RequestError]] = []
        stamped: list[list[int]] = []
        bound_for = target.encode()
        head = entries.encode_head(now.wall_us, bound_for)
        rows = 0
        for index, record in enumerate(batch):
            try:
                found = records.check(record)
                if len(record) > message_max_bytes:
                    raise _too_large(len(record), message_max_bytes)
                trailer, verdict = self._identify(tx, now, stamper, record, found, bound_for)
                if self.counters.depth >= self.bounds.depth_max:
                    raise self._full()
                if self.counters.bytes + len(record) > self.bounds.bytes_max:
                    raise self._bytes_full(len(record))
            except RequestError as error:
                self.counters.refused += error.code != ErrorCode.DUPLICATE_MESSAGE
                refused.append((index, error))
                continue
            if not found.origin_length:
                record = records.stamp_encoded(record, trailer)
                _note_stamp(stamped, index, stamper.last_us)
            index_key = self.origins.index_key(trailer, bound_for)
            rows += self._append(tx, head, record, trailer, index_key, found.priority)
            self.counters.fast += verdict is Verdict.FAST
            self.counters.slow += verdict is Verdict.SLOW
        return Put(refused, stamped, rows)

    def _identify(
        self, tx: Transaction, now: Now, stamper: Stamper, record: bytes, head: records.Head,
        target: bytes,
    ) -> tuple[bytes, Verdict]:  # fmt: skip
        """Return the encoded UID under which *record* may be put, and how that was found out.

        Raises:
            RequestError: DUPLICATE_MESSAGE, or what is wrong with the UID that it brings.
        """
        if head.origin_length:
            records.uid_of(record, head.origin_length)
            trailer = record[-8 - head.origin_length :]
            stamper.observe(trailer, now.wall_us)
        else:
            trailer = stamper.next(now.wall_us)
        verdict = self.origins.judge(tx, trailer, target)
        if verdict is Verdict.DUPLICATE:
            self.counters.duplicates += 1
            uid = f"{trailer[:-8].decode()}.{int.from_bytes(trailer[-8:], 'big')}"
            raise RequestError(
                ErrorCode.DUPLICATE_MESSAGE, f"message {uid} is on queue {self.name} already"
            )
        return trailer, verdict

    def _append(
        self, tx: Transaction, head: bytes, record: bytes, trailer: bytes, index_key: bytes,
        priority: int,
    ) -> int:  # fmt: skip
        """Write entry and index; return how many rows that took."""
        counters = self.counters
        arrival = counters.next_arrival
        if self.is_transmission:
            priority = keys.PRIORITY_TOP  # Ids order transmission, priority orders queues.
        long = entries.rows_of(len(record))
        if long:
            # The kind is the second byte of the head.
            head = head[:1] + bytes([entries.IN_ROWS]) + head[2:]
            value = head + entries.write_rows(tx, self._ids.next(), record, trailer)
        else:
            value = head + record
        key = keys.message(self.id, keys.LANE_READY, priority, arrival)
        tx.put(key, value)
        tx.put(index_key, key[5:])
        self.origins.enter(trailer)
        counters.next_arrival = arrival + 1
        counters.depth += 1
        counters.bytes += len(record)
        counters.puts += 1
        return ROWS_OF_A_PUT + long

    def take(self, tx: Transaction, now: Now, consumer: Consumer, count: int) -> list[bytes]:
        """Lease up to *count* of the next messages to *consumer*; return them as delivery items.

        Stops at the consumer's credit, at the queue's limit of leases, and before a second
        message that would make a frame of over DELIVER_MAX_BYTES.
        """
        count = min(count, consumer.credit_messages, self.bounds.leases_max - len(self.leases))
        items: list[bytes] = []
        damaged: list[tuple[bytes, bytes]] = []
        if count <= 0:
            return items
        deadline_ms, lessee = now.ms + consumer.lease_ms, consumer.lessee
        size = 0
        for priority, arrival, value in self._ready(tx):
            entry = entries.decode(value)
            record = entries.record(tx, entry)
            if not entries.sound(record):
                damaged.append((keys.message(self.id, keys.LANE_READY, priority, arrival), value))
                continue
            if items and size + len(record) > DELIVER_MAX_BYTES:
                self._heads[priority] = arrival  # It is the first of the next frame.
                break
            uid = entries.uid_trailer(entry)
            lease = Lease(
                self._ids.lease(uid), lessee, deadline_ms, priority, arrival, len(record), uid,
                entry.kind == entries.IN_ROWS,
            )  # fmt: skip
            self.leases[arrival] = lessee.leases[arrival] = lease
            items.append(self._item(priority, arrival, lease.number, entry) + record)
            size += len(record)
            if len(items) == count or size >= consumer.credit_bytes:
                break
        consumer.credit_messages -= len(items)
        consumer.credit_bytes -= size
        self.counters.delivered += len(items)
        for key, value in damaged:
            self.set_aside(tx, key, value)
        return items

    def _ready(self, tx: Transaction) -> Any:
        """Yield (priority, arrival, entry) of what can be had, next first, moving the positions."""
        heads, leases = self._heads, self.leases
        priority = keys.PRIORITY_TOP
        while priority >= 0:
            start = keys.message(self.id, keys.LANE_READY, priority, heads[priority])
            for key, value in tx.scan(start, self._lane_end):
                found, arrival = keys.place(key)
                if found != priority:
                    priority = found
                    if arrival < heads[found]:
                        break  # Behind are leased ones that a seek steps over at once.
                heads[priority] = arrival + 1
                if arrival not in leases:
                    yield priority, arrival, value
            else:
                return

    def _item(self, priority: int, arrival: int, number: int, entry: entries.Entry) -> bytes:
        state = 0
        if entry.delivered:
            state = STATE_REDELIVERED
        elif arrival < self.counters.maybe_before:
            state = STATE_MAYBE_REDELIVERED
        return DELIVERY.pack(
            priority, arrival, number, entry.delivered, entry.failed, state, entry.put_us
        )

    def ack(self, tx: Transaction, priority: int, arrival: int, number: int) -> int:
        """Remove a message for good; return 0, or the code that says why not.

        A handle whose message is gone is an ack sent again: success. One whose lease is over
        settles now, if nobody else holds the message; but never another message that has its place,
        as in a store that was put back to an earlier state.
        """
        lease = self.leases.get(arrival)
        if lease is not None:
            if lease.number != number:
                return ErrorCode.LEASE_LOST
            self._end(lease)
            in_rows = lease.in_rows
            self._remove(tx, lease.priority, arrival, lease.trailer, lease.size, in_rows)
            self.counters.acked += 1
            return 0
        value = tx.get(keys.message(self.id, keys.LANE_READY, min(priority, 9), arrival))
        if value is not None:
            if not is_lease_of(number, entries.uid_trailer(entries.decode(value))):
                return ErrorCode.LEASE_LOST
            self.remove_entry(tx, min(priority, 9), arrival, value)
            self.counters.acked += 1
        return 0

    def release(self, tx: Transaction, arrival: int, number: int) -> int:
        """Give a leased message back, as failed; return 0, or the code that says why not."""
        lease = self.leases.get(arrival)
        if lease is None:
            return 0  # It came back, or was settled, before.
        if lease.number != number:
            return ErrorCode.LEASE_LOST
        self.come_back(tx, lease, failed=True)
        return 0

    def come_back(self, tx: Transaction, lease: Lease, *, failed: bool) -> None:
        """End *lease* and let its message be had again in its old place, its counts raised."""
        self._end(lease)
        key = keys.message(self.id, keys.LANE_READY, lease.priority, lease.arrival)
        value = tx.get(key)
        assert value is not None, f"{self.name}: leased {lease.arrival} is not there"
        tx.put(key, entries.came_back(value, failed))
        self.counters.returned += 1
        self._heads[lease.priority] = min(self._heads[lease.priority], lease.arrival)

    def _end(self, lease: Lease) -> None:
        del self.leases[lease.arrival]
        lease.lessee.leases.pop(lease.arrival, None)

    def remove_entry(self, tx: Transaction, priority: int, arrival: int, value: bytes) -> None:
        """Remove a message that nobody leases, given its entry, sound or not."""
        entry = entries.decode(value)
        entries.delete_rows(tx, entry)
        self._forget(tx, keys.message(self.id, keys.LANE_READY, priority, arrival), entry)

    def _remove(
        self, tx: Transaction, priority: int, arrival: int, trailer: bytes, size: int, in_rows: bool
    ) -> None:
        key = keys.message(self.id, keys.LANE_READY, priority, arrival)
        if in_rows:
            value = tx.get(key)
            assert value is not None, f"{self.name}: {arrival} is not there"
            entries.delete_rows(tx, entries.decode(value))
        tx.delete(key)
        tx.delete(self.origins.index_key(trailer))
        self.counters.depth -= 1
        self.counters.bytes = max(self.counters.bytes - size, 0)  # Rot may have miscounted it.

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
        start = keys.message(self.id, keys.LANE_READY, min(priority, 9), arrival + 1)
        items: list[bytes] = []
        size = 0
        bytes_max = min(bytes_max, DELIVER_MAX_BYTES)
        for key, value in tx.scan(start, self._lane_end):
            entry = entries.decode(value)
            size += entries.record_bytes(entry)
            if len(items) == count or (items and size > bytes_max):
                return items, (priority, arrival)
            priority, arrival = keys.place(key)
            # No lease number: who browses must not be able to settle for others.
            item = bytearray(self._item(priority, arrival, 0, entry))
            if arrival in self.leases:
                item[DELIVERY.size - 9] |= STATE_LEASED
            items.append(bytes(item) + entries.record(tx, entry))
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

    def _full(self) -> RequestError:
        return RequestError(
            ErrorCode.QUEUE_FULL,
            f"queue {self.name} holds {self.counters.depth} messages, "
            f"at most {self.bounds.depth_max}",
            retry_after_ms=1_000,
        )

    def _bytes_full(self, size: int) -> RequestError:
        return RequestError(
            ErrorCode.QUEUE_BYTES_FULL,
            f"queue {self.name} holds {self.counters.bytes} bytes, {size} more are beyond "
            f"its {self.bounds.bytes_max}",
            retry_after_ms=1_000,
        )


def _too_large(size: int, limit: int) -> RequestError:
    return RequestError(ErrorCode.MESSAGE_TOO_LARGE, f"message of {size} bytes, at most {limit}")


def _note_stamp(runs: list[list[int]], index: int, timestamp: int) -> None:
    """Add a stamp to *runs* of consecutive records with consecutive timestamps."""
    if runs:
        first, stamp, count = runs[-1]
        if first + count == index and stamp + count == timestamp:
            runs[-1][2] = count + 1
            return
    runs.append([index, timestamp, 1])
