"""Rows of history as Arrow batches, for snapshots, streams and exports.

A row of history describes many messages in few bytes, and is expanded column by column. Values that
all messages of a section share are repeated, and ascending values are computed. Only values that
differ between messages are decoded one by one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from qmgr_protocol import history
from qmgr_protocol.errors import name_of
from qmgr_protocol.history import HistoryMalformed, Section
from qmgr_tables.row import TIME_END_US
from qmgr_tables.table import TIME, Column

BATCH_ROWS = 32_768  # about 6 MiB of Arrow data; a batch may exceed it by one row

COLUMNS = (
    Column(
        "event",
        pa.string(),
        "put, available (a delay ended), delivered, returned (after a delivery), settled "
        "(consumed), expired, dead-lettered, transferred (the peer of a link has stored it), "
        "published, republished, parked, moved, removed (by a purge or an overflow, or with its "
        "queue), lost (in a restart, because it was not persistent), damaged",
    ),
    Column("at", TIME, "the wall-clock time of the event"),
    Column(
        "queue",
        pa.string(),
        "the queue of the event; for a subscription or a link, the name of its queue",
    ),
    Column("arrival", pa.int64(), "the position of the message on that queue within its priority"),
    Column("priority", pa.int32(), "0 to 9; 9 is delivered first"),
    Column("message_id", pa.string(), "the message id: ORIGIN.TIMESTAMP; null if it is damaged"),
    Column("origin", pa.string(), "the creator of the message"),
    Column(
        "created_at",
        TIME,
        "the time of creation by the creator's clock, which is the timestamp in message_id",
    ),
    Column("put_at", TIME, "the time of the put on this queue, if known"),
    Column("record_bytes", pa.int64(), "the size of the record"),
    Column("delivered", pa.int32(), "the number of earlier returns after a delivery, if known"),
    Column(
        "failed",
        pa.int32(),
        "the number of these returns because of a release or the end of a lease",
    ),
    Column("peer", pa.string(), "the client or the queue manager that received the message"),
    Column(
        "target", pa.string(), "the queue to which the message went; for a publication, its topic"
    ),
    Column("code", pa.string(), "the reason, such as MESSAGE_EXPIRED; null if there is no reason"),
    Column("seq", pa.int64(), "the number of the history row, ascending in each store"),
    Column("turn", pa.int64(), "the turn of the queue manager that wrote the row"),
    Column("queue_manager", pa.string(), "the queue manager that wrote the history"),
    Column(
        "store_id", pa.string(), "the id of the store; store_id, seq and number identify the event"
    ),
    Column(
        "snapshot_id", pa.string(), "the snapshot from which the row was read; null in a stream"
    ),
    Column(
        "queue_id",
        pa.int64(),
        "the id of the queue, which differs from all other queues of the same name; queue_id and "
        "arrival identify one stay of a message on a queue",
    ),
    Column("number", pa.int32(), "the number of the event within the history row, from 1"),
)
SCHEMA = pa.schema([(column.name, column.type) for column in COLUMNS])


class HistorySource(NamedTuple):
    """The store of the history, and the snapshot from which it was read."""

    queue_manager: str
    store_id: str
    snapshot_id: str | None = None


class _Part(NamedTuple):
    """A selected section and its position."""

    seq: int
    turn: int
    before: int  # number of messages in earlier sections of the row
    section: Section


Wants = Callable[[Section], bool]
_Numbers = tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]


def batches(
    rows: Iterable[tuple[int, bytes]],
    source: HistorySource,
    schema: pa.Schema = SCHEMA,
    wants: Wants | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the events of stored *rows*, in their order, about BATCH_ROWS at a time.

    Args:
        rows: The number and the stored bytes of each row.
        schema: Some of COLUMNS, in any order.
        wants: The function that selects sections. Default: all sections.

    Raises:
        HistoryMalformed: A row cannot be read.
    """
    held: list[_Part] = []
    count = 0
    for seq, data in rows:
        for part in _parts(seq, data):
            if wants is None or wants(part.section):
                held.append(part)
                count += part.section.messages
        if count >= BATCH_ROWS:
            yield _batch(held, source, schema)
            held, count = [], 0
    if held:
        yield _batch(held, source, schema)


def events_in(data: bytes) -> int:
    """Returns the number of events in a stored row.

    Raises:
        HistoryMalformed: The row cannot be read.
    """
    return sum(section.messages for section in history.decode(data).sections)


def _parts(seq: int, data: bytes) -> Iterator[_Part]:
    try:
        row = history.decode(data)
    except HistoryMalformed as error:
        raise HistoryMalformed(f"row {seq} of history: {error}") from error
    before = 0
    for section in row.sections:
        yield _Part(seq, row.turn, before, section)
        before += section.messages


def _batch(parts: list[_Part], source: HistorySource, schema: pa.Schema) -> pa.RecordBatch:
    expansion = _Expansion(parts, source)
    try:
        # The cast raises an error if a value does not fit.
        arrays = [_MAKERS[field.name](expansion).cast(field.type) for field in schema]
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        first, last = parts[0].seq, parts[-1].seq
        raise HistoryMalformed(f"rows {first} to {last} of history: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Expansion:
    """Sections that are expanded into the columns of the table."""

    def __init__(self, parts: list[_Part], source: HistorySource) -> None:
        self.parts = parts
        self.sections = [part.section for part in parts]
        self.source = source
        self.counts = np.array([section.messages for section in self.sections], np.int64)
        self.rows = int(self.counts.sum())
        ends = np.cumsum(self.counts)
        self.starts = (ends - self.counts).tolist()
        self.offsets = np.arange(self.rows) - np.repeat(ends - self.counts, self.counts)

    def constant(self, value: str | None) -> pa.Array:
        """Returns a column with *value* for all messages."""
        return pa.repeat(pa.scalar(value, pa.string()), self.rows)

    def texts(self, values: Sequence[str | None]) -> pa.Array:
        """Returns a column of strings. Each message has the string of its section."""
        known: dict[str | None, int] = {}
        codes = [known.setdefault(value, len(known)) for value in values]
        return _looked_up(known, np.repeat(np.array(codes, np.int32), self.counts))

    def shared(self, values: Sequence[int]) -> npt.NDArray[Any]:
        """Returns an array of numbers. Each message has the number of its section."""
        return np.repeat(np.array(values, np.int64), self.counts)

    def numbers(self, name: str) -> pa.Array:
        """Returns the column of numbers *name*, with one number for each message."""
        numbers, mask = self.spread([getattr(section, name) for section in self.sections])
        return pa.array(numbers, mask=mask)

    def spread(self, columns: Sequence[Any], kind: Any = np.int64) -> _Numbers:
        """Returns the value of *columns* for each message, and a mask of missing values.

        Single values and runs are expanded for all sections together.
        """
        firsts = [_first(column) for column in columns]
        found = np.repeat(np.array(firsts, kind), self.counts)
        is_run = [type(column) is list and len(column) == 1 for column in columns]
        if any(is_run):
            found += np.repeat(np.array(is_run, kind), self.counts) * self.offsets.astype(kind)
        mask = None
        if None in columns:
            mask = np.repeat(np.array([column is None for column in columns]), self.counts)
        for column, start in zip(columns, self.starts, strict=True):
            if type(column) is not list or len(column) == 1:
                continue
            stop = start + len(column)
            if None in column:
                mask = np.zeros(self.rows, np.bool_) if mask is None else mask
                mask[start:stop] = [value is None for value in column]
                column = [0 if value is None else value for value in column]
            found[start:stop] = column
        return found, mask

    def origins(self) -> pa.Array:
        """Returns the creator of each message."""
        known: dict[str | None, int] = {}
        codes: list[Any] = []
        for section in self.sections:
            origins = section.origins
            if type(origins) is list:
                codes.append([known.setdefault(origin, len(known)) for origin in origins])
            else:
                codes.append(known.setdefault(origins, len(known)))
        return _looked_up(known, self.spread(codes, np.int32)[0])

    def timestamps(self) -> pa.Array:
        """Returns the timestamps of the UIDs."""
        numbers, mask = self.spread([section.timestamps for section in self.sections], np.uint64)
        return pa.array(numbers, mask=mask)

    def message_ids(self) -> pa.Array:
        """Returns the UIDs as text. Damaged UIDs are null."""
        text = self.timestamps().cast(pa.string())
        return pc.binary_join_element_wise(self.origins(), text, ".")

    def created(self) -> pa.Array:
        """Returns the timestamps of the UIDs as times. A time that is too late is null."""
        numbers, mask = self.spread([section.timestamps for section in self.sections], np.uint64)
        is_none = pc.is_null(self.origins()).to_numpy(zero_copy_only=False)
        is_none |= numbers >= TIME_END_US
        if mask is not None:
            is_none |= mask
        numbers[is_none] = 0
        return pa.array(numbers.astype(np.int64), mask=is_none).cast(TIME)

    def put(self) -> pa.Array:
        """Returns the time of each message's put on its queue."""
        ages, mask = self.spread([section.ages_us for section in self.sections])
        return pa.array(self.shared([part.at_us for part in self.sections]) - ages, mask=mask).cast(
            TIME
        )

    def within_row(self) -> pa.Array:
        """Returns the number of each event within its row of history."""
        return pa.array(self.shared([part.before + 1 for part in self.parts]) + self.offsets)


def _first(column: Any) -> Any:
    """Returns the first value of *column*, or 0 if its values are decoded one by one."""
    if type(column) is list:
        return column[0] if len(column) == 1 else 0
    return 0 if column is None else column


def _looked_up(known: dict[str | None, int], codes: npt.NDArray[Any]) -> pa.Array:
    return pa.array(list(known), pa.string()).take(pa.array(codes))


def _name(name: str) -> Callable[[_Expansion], pa.Array]:
    """Returns the function for a text column of sections. An empty string becomes null."""
    return lambda of: of.texts([getattr(section, name) or None for section in of.sections])


def _number(name: str) -> Callable[[_Expansion], pa.Array]:
    return lambda of: of.numbers(name)


_MAKERS: dict[str, Callable[[_Expansion], pa.Array]] = {
    "event": lambda of: of.texts([history.EVENTS[section.kind] for section in of.sections]),
    "at": lambda of: pa.array(of.shared([section.at_us for section in of.sections])).cast(TIME),
    "queue": _name("queue"),
    "arrival": _number("arrivals"),
    "priority": _number("priorities"),
    "message_id": _Expansion.message_ids,
    "origin": _Expansion.origins,
    "created_at": _Expansion.created,
    "put_at": _Expansion.put,
    "record_bytes": _number("sizes"),
    "delivered": _number("delivered"),
    "failed": _number("failed"),
    "peer": _name("peer"),
    "target": _name("target"),
    "code": lambda of: of.texts([name_of(x.code) if x.code else None for x in of.sections]),
    "seq": lambda of: pa.array(of.shared([part.seq for part in of.parts])),
    "turn": lambda of: pa.array(of.shared([part.turn for part in of.parts])),
    "queue_manager": lambda of: of.constant(of.source.queue_manager),
    "store_id": lambda of: of.constant(of.source.store_id),
    "snapshot_id": lambda of: of.constant(of.source.snapshot_id),
    "queue_id": lambda of: pa.array(of.shared([section.queue_id for section in of.sections])),
    "number": _Expansion.within_row,
}
