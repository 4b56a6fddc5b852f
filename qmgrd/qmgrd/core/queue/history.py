"""The message history of all queues that keep one.

    put, take, settle ... ──Account──▶ sections, in memory ──with the turn──▶ rows 1, 2 ... stored
                                                                  │
                                    export cursors: each has exported all rows up to its position

A turn that writes to the store also stores its events in the same transaction, so the history is
always correct. A delivery does not write. The next turn that writes stores the event of the
delivery, at most PENDING_MS later. A crash in the meantime loses the event.

Rows are kept until every export cursor has passed them. Without cursors, rows are kept up to a
limit on bytes and age. Above the limit, the oldest rows are dropped even if cursors have not passed
them. Operators are warned before the limit is reached.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

from qmgr_protocol import history as wire
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.history import Happening, HistoryMalformed, Open
from qmgr_protocol.messages import DELIVERY
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.queue import history_rows

PENDING_MS = 1_000  # maximum time until events of turns without other writes are stored
PENDING_SECTIONS_MAX = 1_000
TRIM_ROWS = 64  # number of rows removed per turn, in addition to twice the number of rows written
MAP_SHARE = 8  # bytes of the store's map per byte of the history
# Percentages of a limit. The history warns above the first, and may warn again once below the
# second.
WARN_PERCENT, CALM_PERCENT = 80, 60
REPORT_MS = 60_000  # minimum time between two events about dropped rows
REPORT_UNWANTED_MS = 24 * 3_600_000  # minimum time between such events without cursors
_TRAILER_AT = 5  # the offset of the encoded UID in a key of the UID index
# The fields of a lease. This module does not use the lessee.
Leased: TypeAlias = tuple[int, Any, int, int, int, int, bytes, bytes, bool]
# The struct format and the number of the stored fields of a delivery: arrival, delivered, failed,
# put time.
_HEAD, _FACTS = "xQ8xHHxQ", 4


class Cursor:
    """The progress of an export and the number of lost rows."""

    __slots__ = ("committed_us", "created_us", "lost", "position")

    def __init__(
        self, position: int, created_us: int, committed_us: int = 0, lost: int = 0
    ) -> None:
        self.position = position  # the number of the last exported row
        self.created_us = created_us
        self.committed_us = committed_us
        self.lost = lost  # the number of rows that were dropped before their export

    def row(self) -> dict[str, int]:
        """Returns the fields that are stored and displayed."""
        return {
            name: getattr(self, name) for name in ("position", "created_us", "committed_us", "lost")
        }


class OpenTurn(Protocol):
    """The turn in which the history stores pending events."""

    tx: Transaction
    turn_number: int
    wrote: bool

    def event(self, event: str, count: int = 1, **facts: Any) -> None:
        """Reports an event to operators."""


class HistoryRow(NamedTuple):
    """A stored row of the history."""

    seq: int
    data: bytes


class History:
    """The stored history of all queues of a queue manager, and its pending events.

    Invariant: the rows from ``first`` to ``next - 1`` are stored, with a total of ``bytes`` bytes.
    """

    def __init__(self, bytes_max: int, age_max_ms: int) -> None:
        self.bytes_max, self.age_max_ms = bytes_max, age_max_ms
        self.now = Now(0, 0)
        self.first = self.next = 1
        self.bytes = 0
        self.dropped = 0
        self.cursors: dict[str, Cursor] = {}
        self._pending: list[Open | bytes] = []
        self._since_ms: int | None = None  # the time of the first pending event
        self._oldest_ms: int | None = None
        self.limit_bytes = bytes_max  # the current limit in bytes, which is lower in a small store
        self._is_cramped = False
        self._warned = False
        self._reported_ms = -REPORT_UNWANTED_MS
        self._unreported = 0

    def load(
        self, tx: Transaction, now: Now, guard: Callable[[bytes], AbstractContextManager[None]]
    ) -> None:
        """Reads the state of the history. If the state is invalid, derives it from the rows.

        Args:
            tx: The transaction of the turn.
            now: The time of the turn.
            guard: A context manager that sets aside the row under a key if the row is invalid.

        Raises:
            RowDamaged: The checksum of a row is wrong.
        """
        self.now = now
        self.first, self.next = history_rows.find(tx)
        with guard(keys.HISTORY):
            state = history_rows.read_state(tx, self.first, self.next)
            self.first, self.next, self.bytes, self.dropped = state
        for key, row in list(rows.scan(tx, keys.SPACE_CURSOR)):
            with guard(key):
                facts = {"created_us": 0} | history_rows.cursor(unpack(row), self.next - 1)
                self.cursors[key[keys.REST].decode()] = Cursor(**facts)

    def begin(self, now: Now, map_bytes: int, *, is_cramped: bool) -> None:
        """Begins a turn."""
        self.now = now
        self._is_cramped = is_cramped
        self.limit_bytes = min(self.bytes_max, map_bytes // MAP_SHARE)

    def open(self, head: wire.Head) -> list[Happening]:
        """Returns the list for events with the given *head*. Callers append events to the list."""
        last = self._pending[-1] if self._pending else None
        if type(last) is not Open or last.head != head:
            last = Open(head, [])
            self._hold([last])
        return last.happenings

    def add(self, head: wire.Head, count: int, columns: Sequence[Any]) -> None:
        """Adds the events of *count* messages. See :func:`wire.packed` for the columns."""
        self._hold(wire.packed(head, count, columns))

    def _hold(self, sections: Sequence[Open | bytes]) -> None:
        self._pending += sections
        if self._since_ms is None:
            self._since_ms = self.now.ms

    @property
    def due_ms(self) -> int | None:
        """The time by which pending events must be stored, or None if no event is pending."""
        return None if self._since_ms is None else self._since_ms + PENDING_MS

    @property
    def is_due(self) -> bool:
        """Whether a turn must write because of pending events."""
        due_ms = self.due_ms
        return due_ms is not None and (
            due_ms <= self.now.ms or len(self._pending) >= PENDING_SECTIONS_MAX
        )

    def forget_pending(self) -> None:
        """Forgets the pending events."""
        self._pending, self._since_ms = [], None

    def write(self, turn: OpenTurn) -> None:
        """Stores the pending events in the open turn, and removes rows that are no longer
        needed.
        """
        tx, written = turn.tx, 0
        if self._pending:
            before, self._pending, self._since_ms = self._pending, [], None
            for data in wire.encode(turn.turn_number, self.now.ms, before):
                rows.put(tx, keys.history(self.next), data)
                self.next += 1
                self.bytes += len(data)
                written += 1
            tx.rows_used += written
        gone = 0
        if self.first < self.next or self._warned:
            gone = self._trim(turn, TRIM_ROWS + 2 * written)
        if written or gone:
            state = keys.HISTORY_ROW.pack(self.first, self.next, self.bytes, self.dropped)
            rows.put(tx, keys.HISTORY, state)
            tx.rows_used += 1

    def _wanted_from(self) -> int:
        """Returns the number of the first row that some export has not passed."""
        if not self.cursors:
            return self.first
        return min(cursor.position for cursor in self.cursors.values()) + 1

    def _trim(self, turn: OpenTurn, count: int) -> int:
        """Removes up to *count* of the oldest rows that are exported or above a limit."""
        gone = dropped = 0
        wanted_from = self._wanted_from()
        while self.first < self.next and gone < count:
            is_exported = self.first < wanted_from
            if not is_exported and not self._is_over(turn.tx):
                break
            self._remove(turn.tx)
            gone += 1
            dropped += not is_exported
        if dropped:
            self._drop(turn, dropped)
        self._warn(turn)
        turn.tx.rows_used += gone
        return gone

    def _is_over(self, tx: Transaction) -> bool:
        if self.bytes > self.limit_bytes or self._is_cramped:
            return True
        if self._oldest_ms is None:
            self._oldest_ms = self._clock_of(tx, self.first)
        return self.now.ms - self._oldest_ms > self.age_max_ms

    def _clock_of(self, tx: Transaction, seq: int) -> int:
        """Returns the time at which a row was written, or the current time for a damaged row."""
        try:
            data = rows.find(tx, keys.history(seq))
            return self.now.ms if data is None else wire.decode(data).clock_ms
        except (rows.RowDamaged, HistoryMalformed):
            return self.now.ms

    def _remove(self, tx: Transaction) -> None:
        key = keys.history(self.first)
        value = tx.get(key)
        if value is not None:
            tx.delete(key)
            self.bytes -= min(self.bytes, len(value) - rows.SEAL_BYTES)
        self.first += 1
        self._oldest_ms = None
        if self.first == self.next:
            self.bytes = 0

    def _drop(self, turn: OpenTurn, count: int) -> None:
        """Counts dropped rows, and reports them to operators at intervals."""
        self.dropped += count
        self._unreported += count
        for name, cursor in self.cursors.items():
            if cursor.position < self.first - 1:
                cursor.lost += min(count, self.first - 1 - cursor.position)
                cursor.position = self.first - 1
                self.store_cursor(turn, name)
        # Without exports, dropping the oldest rows is normal. Such reports are therefore rare.
        if self.now.ms - self._reported_ms >= (REPORT_MS if self.cursors else REPORT_UNWANTED_MS):
            turn.event("history dropped", self._unreported, cursors=len(self.cursors))
            self._reported_ms, self._unreported = self.now.ms, 0

    def _warn(self, turn: OpenTurn) -> None:
        """Warns operators once when the history approaches a limit."""
        percent = 100 * self.bytes // max(self.limit_bytes, 1)
        if self._oldest_ms is not None and self.first < self.next:
            age_ms = self.now.ms - self._oldest_ms
            percent = max(percent, 100 * age_ms // max(self.age_max_ms, 1))
        if self._warned and percent < CALM_PERCENT:
            self._warned = False
        if not self._warned and percent >= WARN_PERCENT:
            self._warned = True
            turn.event("history nearly full", percent=percent, cursors=len(self.cursors))

    def store_cursor(self, turn: OpenTurn, name: str) -> None:
        """Stores the row of a cursor, or deletes the row of a deleted cursor."""
        key = keys.SPACE_CURSOR + name.encode()
        if name in self.cursors:
            rows.put(turn.tx, key, pack(self.cursors[name].row()))
        else:
            turn.tx.delete(key)
        turn.tx.rows_used += 1
        turn.wrote = True

    def read(self, tx: Transaction, after: int, until: int, bytes_max: int) -> Iterator[HistoryRow]:
        """Yields the rows after *after* up to *until*, with a total of up to *bytes_max* bytes.

        The first row is yielded even if it exceeds *bytes_max*. The function stops before the first
        damaged row. The next call, which starts with the damaged row, raises the error.

        Raises:
            RowDamaged: The first row is damaged.
        """
        size = 0
        stop = min(until + 1, self.next)
        for key, value in tx.scan(keys.history(after + 1), keys.history(stop)):
            try:
                data = rows.unseal(key, value)
            except rows.RowDamaged:
                if size:
                    return
                raise
            if size and size + len(data) > bytes_max:
                return
            size += len(data)
            yield HistoryRow(int.from_bytes(key[keys.REST], "big"), data)

    def account(self, queue: str, queue_id: int) -> "Account":
        """Returns the account of the queue."""
        return Account(self, queue, queue_id)


class Account:
    """The recorder of the events of one queue."""

    __slots__ = ("_history", "_is_sent", "_queue", "_queue_id")

    def __init__(self, history: History, queue: str, queue_id: int) -> None:
        self._history = history
        # The keys of transmission queues and publications do not contain a priority.
        self._is_sent = queue.startswith("@") or queue_id == keys.PUBLICATIONS_ID
        self._queue = queue
        self._queue_id = queue_id

    def put(
        self,
        kind: int,
        stored: list[tuple[bytes, bytes]],
        arrival: int,
        origin: bytes,
        timestamps: Sequence[int],
        front_bytes: int,
        target: str = "",
    ) -> None:
        """Records a batch of puts with consecutive arrivals.

        Args:
            kind: The kind of the event.
            stored: The keys and values of the stored entries.
            arrival: The first arrival.
            origin: The origin of all messages.
            timestamps: The timestamps of the messages.
            front_bytes: The number of bytes before the record in each value.
            target: The destination queue on a transmission queue.
        """
        count, top, at = len(stored), keys.PRIORITY_TOP, keys.RANK_AT
        priorities: tuple[int | None, ...] = tuple([top - key[at] for key, _ in stored])
        if self._is_sent:
            front = slice(front_bytes, front_bytes + records.HEAD_BYTES)
            priorities = tuple([records.own_priority(value[front]) for _, value in stored])
        sizes = tuple([len(value) - front_bytes for _, value in stored])
        head = self._head(kind, "", target)
        if count == 1:  # Single puts of a turn share a section.
            trailer = origin + timestamps[0].to_bytes(8, "big")
            self._history.open(head).append((arrival, priorities[0], trailer, sizes[0], 0, 0, 0))
            return
        arrivals, us = tuple(range(arrival, arrival + count)), tuple(timestamps)
        columns = (arrivals, priorities, origin.decode(), us, sizes, 0, 0, 0)
        self._history.add(head, count, columns)

    def _head(self, kind: int, peer: str, target: str = "", code: int = 0) -> wire.Head:
        now_us = self._history.now.wall_us
        return kind, now_us, self._queue, self._queue_id, peer, target, code

    def delivered(self, client: str, items: list[bytes], leases: Mapping[int, Leased]) -> None:
        """Records the delivery of the leased *items* to *client*."""
        now_us = self._history.now.wall_us
        for start in range(0, len(items), wire.MESSAGES_MAX):
            some = items[start : start + wire.MESSAGES_MAX]
            facts = _heads(len(some)).unpack(b"".join([item[: DELIVERY.size] for item in some]))
            delivered, failed = facts[1::_FACTS], facts[2::_FACTS]
            put = facts[3::_FACTS]
            if max(put) > now_us:  # The time in a damaged entry may have any value.
                put = tuple([min(put_us, now_us) for put_us in put])
            ages = tuple([now_us - put_us for put_us in put])
            leased = map(leases.__getitem__, facts[::_FACTS])
            self._add(wire.DELIVERED, client, leased, delivered, failed, ages)

    def settled(self, client: str, leases: Sequence[Leased]) -> None:
        """Records that *client* has consumed the leased messages."""
        for start in range(0, len(leases), wire.MESSAGES_MAX):
            self._add(wire.SETTLED, client, leases[start : start + wire.MESSAGES_MAX])

    def _add(
        self,
        kind: int,
        client: str,
        leases: Iterable[Leased],
        delivered: Any = None,
        failed: Any = None,
        ages: Any = None,
    ) -> None:
        _, _, _, priorities, arrivals, sizes, _, index_keys, _ = zip(*leases, strict=True)
        origins, timestamps = wire.uids(index_keys, _TRAILER_AT)
        columns = arrivals, priorities, origins, timestamps, sizes, delivered, failed, ages
        self._history.add(self._head(kind, client), len(arrivals), columns)

    def entry(
        self,
        kind: int,
        key: bytes,
        entry: entries.Entry,
        *,
        peer: str = "",
        target: str = "",
        code: int = 0,
    ) -> None:
        """Records an event of the message whose entry is or was stored under *key*."""
        known, arrival = keys.place(key)
        is_read = entry.flags != entries.UNREADABLE
        priority: int | None = known
        if self._is_sent:
            priority = records.own_priority(entry.rest) if is_read and not entry.in_rows else None
        self._history.open(self._head(kind, peer, target, code)).append(
            (
                arrival,
                priority,
                entries.uid_trailer(entry) if is_read else bytes(8),
                entries.record_bytes(entry) if is_read else None,
                entry.delivered if is_read else None,
                entry.failed if is_read else None,
                max(self._history.now.wall_us - entry.put_us, 0) if is_read else None,
            )
        )


@lru_cache(maxsize=wire.MESSAGES_MAX)
def _heads(count: int) -> struct.Struct:
    """Returns a struct that reads the fields from the heads of *count* delivery items."""
    return struct.Struct(">" + _HEAD * count)


def facts_of(history: History) -> dict[str, Any]:
    """Returns the fields of *history* that operators see."""
    return {
        "first": history.first,
        "next": history.next,
        "bytes": history.bytes,
        "bytes_max": history.limit_bytes,
        "age_max_ms": history.age_max_ms,
        "dropped": history.dropped,
    }
