"""The journal: what happened to the messages of queues that keep accounts, for who asks later.

    put, take, settle ... ──Account──▶ sections, in memory ──with the turn──▶ rows 1, 2 ... stored
                                                                  │
                                    export cursors: each says up to which row it has all

A turn that writes stores with it, in its own transaction, what happened in it: so the journal says
what is so. A delivery writes nothing, and is no reason for a turn to: it is stored with the next
turn that does, at most PENDING_MS later, and a crash before that forgets it.

Rows are kept until every export cursor has passed them, or, where there is none, up to a limit in
bytes and age; beyond that the oldest go, whoever still wants them, and operators are told before.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.history import Happening, HistoryMalformed, Open
from qmgr_protocol.messages import DELIVERY
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.queue import journal_rows
from qmgrd.core.queue.lease import Lease

if TYPE_CHECKING:
    from qmgrd.core.context.context import Context

PENDING_MS = 1_000  # until what happened in turns that wrote nothing is stored all the same
PENDING_SECTIONS_MAX = 1_000
TRIM_ROWS = 64  # that leave in a turn, at least; more where more came
MAP_SHARE = 8  # The journal takes this part of the store's map at most.
WARN_PERCENT, CALM_PERCENT = 80, 60  # of a limit: from where operators are told, and once more
TOLD_MS = 60_000  # between two events of what was dropped
TOLD_UNWANTED_MS = 24 * 3_600_000  # the same where there is no cursor
_TRAILER_AT = 5  # in a key of the UID index
_HEAD, _FACTS = "xQ8xHHxQ", 4  # of an item of a delivery: arrival, delivered, failed, put time


class Cursor:
    """How far an export has come, and what it lost."""

    __slots__ = ("committed_us", "created_us", "lost", "position")

    def __init__(
        self, position: int, created_us: int, committed_us: int = 0, lost: int = 0
    ) -> None:
        self.position = position  # the last row that it needs no more
        self.created_us = created_us
        self.committed_us = committed_us
        self.lost = lost  # rows that were dropped before it had them

    def row(self) -> dict[str, int]:
        """Return what is stored and shown of it."""
        return {
            name: getattr(self, name) for name in ("position", "created_us", "committed_us", "lost")
        }


class Row(NamedTuple):
    """A stored row."""

    seq: int
    data: bytes


class Journal:
    """All accounts of a queue manager.

    Invariant: the rows ``first`` up to before ``next`` are stored, and take ``bytes``.
    """

    def __init__(self, bytes_max: int, age_max_ms: int) -> None:
        self.bytes_max, self.age_max_ms = bytes_max, age_max_ms
        self.now = Now(0, 0)
        self.first = self.next = 1
        self.bytes = 0
        self.dropped = 0
        self.cursors: dict[str, Cursor] = {}
        self._pending: list[Open | bytes] = []
        self._since_ms: int | None = None  # when the first of these came
        self._oldest_ms: int | None = None
        self.limit_bytes = bytes_max  # that, or less in a small store
        self._is_cramped = False
        self._warned = False
        self._told_ms = -TOLD_UNWANTED_MS
        self._untold = 0

    def load(self, context: "Context") -> None:
        """Read where it stands; where that cannot be true it is found out from the rows.

        Raises:
            RowDamaged: the checksum of a row is wrong.
        """
        tx, aside = context.tx, context.aside
        self.now = context.now
        self.first, self.next = journal_rows.find(tx)
        with aside.guard(context, keys.HISTORY):
            state = journal_rows.read_state(tx, self.first, self.next)
            self.first, self.next, self.bytes, self.dropped = state
        for key, row in list(rows.scan(tx, keys.SPACE_CURSOR)):
            with aside.guard(context, key):
                facts = {"created_us": 0} | journal_rows.cursor(unpack(row), self.next - 1)
                self.cursors[key[1:].decode()] = Cursor(**facts)

    def begin(self, now: Now, map_bytes: int, *, is_cramped: bool) -> None:
        """Take note of the turn that is opened."""
        self.now = now
        self._is_cramped = is_cramped
        self.limit_bytes = min(self.bytes_max, map_bytes // MAP_SHARE)

    def open(self, head: history.Head) -> list[Happening]:
        """Return where to add what happens, message by message."""
        last = self._pending[-1] if self._pending else None
        if type(last) is not Open or last.head != head:
            last = Open(head, [])
            self._hold([last])
        return last.happenings

    def add(self, head: history.Head, count: int, columns: Sequence[Any]) -> None:
        """Add what happened to *count* messages; see :func:`history.packed`."""
        self._hold(history.packed(head, count, columns))

    def _hold(self, sections: Sequence[Open | bytes]) -> None:
        self._pending += sections
        if self._since_ms is None:
            self._since_ms = self.now.ms

    @property
    def due_ms(self) -> int | None:
        """When what is pending is to be stored at the latest; None where nothing is."""
        return None if self._since_ms is None else self._since_ms + PENDING_MS

    @property
    def is_due(self) -> bool:
        """Whether what is pending is reason enough for a turn to write."""
        due_ms = self.due_ms
        return due_ms is not None and (
            due_ms <= self.now.ms or len(self._pending) >= PENDING_SECTIONS_MAX
        )

    def forget_pending(self) -> None:
        """Forget what happened and is not stored yet."""
        self._pending, self._since_ms = [], None

    def write(self, context: "Context") -> None:
        """Store what is pending with the turn that is open, and let go of what need not stay."""
        tx, written = context.tx, 0
        if self._pending:
            before, self._pending, self._since_ms = self._pending, [], None
            for data in history.encode(context.turn_number, self.now.ms, before):
                rows.put(tx, keys.history(self.next), data)
                self.next += 1
                self.bytes += len(data)
                written += 1
            context.rows += written
        gone = self._trim(context, TRIM_ROWS + 2 * written)
        if written or gone:
            state = keys.HISTORY_ROW.pack(self.first, self.next, self.bytes, self.dropped)
            rows.put(tx, keys.HISTORY, state)
            context.rows += 1

    def _wanted_from(self) -> int:
        """Return the first row that somebody wants."""
        if not self.cursors:
            return self.first
        return min(cursor.position for cursor in self.cursors.values()) + 1

    def _trim(self, context: "Context", count: int) -> int:
        """Remove up to *count* rows from the oldest on that are exported, or over a limit."""
        gone = dropped = 0
        wanted_from = self._wanted_from()
        while self.first < self.next and gone < count:
            is_exported = self.first < wanted_from
            if not is_exported and not self._is_over(context.tx):
                break
            self._remove(context.tx)
            gone += 1
            dropped += not is_exported
        if dropped:
            self._drop(context, dropped)
        self._warn(context)
        context.rows += gone
        return gone

    def _is_over(self, tx: Transaction) -> bool:
        if self.bytes > self.limit_bytes or self._is_cramped:
            return True
        if self._oldest_ms is None:
            self._oldest_ms = self._clock_of(tx, self.first)
        return self.now.ms - self._oldest_ms > self.age_max_ms

    def _clock_of(self, tx: Transaction, seq: int) -> int:
        """Return when a row was written; one that rotted as of now."""
        try:
            data = rows.find(tx, keys.history(seq))
            return self.now.ms if data is None else history.decode(data).clock_ms
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

    def _drop(self, context: "Context", count: int) -> None:
        """Count rows that nobody has, and tell operators, though not each turn."""
        self.dropped += count
        self._untold += count
        for name, cursor in self.cursors.items():
            if cursor.position < self.first - 1:
                cursor.lost += min(count, self.first - 1 - cursor.position)
                cursor.position = self.first - 1
                self.store_cursor(context, name)
        # Where nobody exports, that the oldest goes is how it is to be.
        if self.now.ms - self._told_ms >= (TOLD_MS if self.cursors else TOLD_UNWANTED_MS):
            context.event("history dropped", self._untold, cursors=len(self.cursors))
            self._told_ms, self._untold = self.now.ms, 0

    def _warn(self, context: "Context") -> None:
        """Tell operators once that the oldest is about to be dropped."""
        percent = 100 * self.bytes // max(self.limit_bytes, 1)
        if self._oldest_ms is not None and self.first < self.next:
            age_ms = self.now.ms - self._oldest_ms
            percent = max(percent, 100 * age_ms // max(self.age_max_ms, 1))
        if self._warned and percent < CALM_PERCENT:
            self._warned = False
        if not self._warned and percent >= WARN_PERCENT:
            self._warned = True
            context.event("history nearly full", percent=percent, cursors=len(self.cursors))

    def store_cursor(self, context: "Context", name: str) -> None:
        """Write the row of a cursor, or remove that of one that is gone."""
        key = keys.SPACE_CURSOR + name.encode()
        if name in self.cursors:
            rows.put(context.tx, key, pack(self.cursors[name].row()))
        else:
            context.tx.delete(key)
        context.rows += 1
        context.wrote = True

    def read(self, tx: Transaction, after: int, until: int, bytes_max: int) -> Iterator[Row]:
        """Yield the rows behind *after* up to *until*, at least one, then within *bytes_max*.

        It ends before a row that is damaged: who asks behind the last one hears of it.

        Raises:
            RowDamaged: the first of them.
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
            yield Row(int.from_bytes(key[1:], "big"), data)

    def account(self, queue: str, queue_id: int) -> "Account":
        """Return what takes note for that queue."""
        return Account(self, queue, queue_id)


class Account:
    """Takes note of what happens to the messages of one queue."""

    __slots__ = ("_is_sent", "_journal", "_queue", "_queue_id")

    def __init__(self, journal: Journal, queue: str, queue_id: int) -> None:
        self._journal = journal
        # On a link, and of what is published: kept in one order, whatever the priority.
        self._is_sent = queue.startswith("@") or queue_id == keys.PUBLICATIONS_ID
        self._queue = queue
        self._queue_id = queue_id

    def put(
        self,
        kind: int,
        stored: list[tuple[bytes, bytes]],
        arrival: int,
        origin: bytes,
        timestamp: int,
        front_bytes: int,
        target: str = "",
    ) -> None:
        """Note a batch of new entries, whose arrivals and timestamps rise by one from these on.

        Args:
            stored: their keys and values, in which the record stands behind *front_bytes*.
        """
        count, top, at = len(stored), keys.PRIORITY_TOP, keys.RANK_AT
        priorities: tuple[int | None, ...] = tuple([top - key[at] for key, _ in stored])
        if self._is_sent:
            head = slice(front_bytes, front_bytes + records.HEAD_BYTES)
            priorities = tuple([_priority_of(value[head]) for _, value in stored])
        columns = (
            tuple(range(arrival, arrival + count)),
            priorities,
            origin.decode(),
            tuple(range(timestamp, timestamp + count)),
            tuple([len(value) - front_bytes for _, value in stored]),
            0,
            0,
            0,
        )
        self._journal.add(self._head(kind, "", target), count, columns)

    def _head(self, kind: int, peer: str, target: str = "", code: int = 0) -> history.Head:
        now_us = self._journal.now.wall_us
        return kind, now_us, self._queue, self._queue_id, peer, target, code

    def delivered(self, client: str, items: list[bytes], leases: dict[int, Lease]) -> None:
        """Note that *client* was handed *items*, which are leased."""
        now_us = self._journal.now.wall_us
        for start in range(0, len(items), history.MESSAGES_MAX):
            some = items[start : start + history.MESSAGES_MAX]
            facts = _heads(len(some)).unpack(b"".join([item[: DELIVERY.size] for item in some]))
            delivered, failed = facts[1::_FACTS], facts[2::_FACTS]
            put = facts[3::_FACTS]
            if max(put) > now_us:  # What rotted may say any time.
                put = tuple([min(put_us, now_us) for put_us in put])
            ages = tuple([now_us - put_us for put_us in put])
            leased = map(leases.__getitem__, facts[::_FACTS])
            self._add(history.DELIVERED, client, leased, delivered, failed, ages)

    def settled(self, leases: list[Lease]) -> None:
        """Note that what was leased is consumed."""
        client = leases[0].lessee.client
        for start in range(0, len(leases), history.MESSAGES_MAX):
            self._add(history.SETTLED, client, leases[start : start + history.MESSAGES_MAX])

    def _add(
        self,
        kind: int,
        client: str,
        leases: Iterable[Lease],
        delivered: Any = None,
        failed: Any = None,
        ages: Any = None,
    ) -> None:
        _, _, _, priorities, arrivals, sizes, _, index_keys, _ = zip(*leases, strict=True)
        origins, timestamps = history.uids(index_keys, _TRAILER_AT)
        columns = arrivals, priorities, origins, timestamps, sizes, delivered, failed, ages
        self._journal.add(self._head(kind, client), len(arrivals), columns)

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
        """Note what happens to one message, whose entry lies or lay under *key*."""
        known, arrival = keys.place(key)
        is_read = entry.flags != entries.UNREADABLE
        priority: int | None = known
        if self._is_sent:
            priority = _priority_of(entry.rest) if is_read and not entry.in_rows else None
        self._journal.open(self._head(kind, peer, target, code)).append(
            (
                arrival,
                priority,
                entries.uid_trailer(entry) if is_read else bytes(8),
                entries.record_bytes(entry) if is_read else None,
                entry.delivered if is_read else None,
                entry.failed if is_read else None,
                max(self._journal.now.wall_us - entry.put_us, 0) if is_read else None,
            )
        )


@lru_cache(maxsize=history.MESSAGES_MAX)
def _heads(count: int) -> struct.Struct:
    """Return what reads _FACTS of the heads of *count* items of a delivery."""
    return struct.Struct(">" + _HEAD * count)


def _priority_of(record: bytes) -> int | None:
    """Return the priority that a *record* brings; None where it is left to a queue."""
    return None if record[7] & records.FLAG_PRIORITY_OF_QUEUE else record[6]


def facts_of(journal: Journal) -> dict[str, Any]:
    """Return what is shown of *journal*."""
    return {
        "first": journal.first,
        "next": journal.next,
        "bytes": journal.bytes,
        "bytes_max": journal.limit_bytes,
        "age_max_ms": journal.age_max_ms,
        "dropped": journal.dropped,
    }
