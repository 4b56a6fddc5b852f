"""The table of history: the events of messages, from the histories in snapshots.

Snapshots of one store overlap, because each snapshot contains all rows that the history had at that
time. A query reads each row of history once, from the newest snapshot that contains it.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from qmgr_protocol.history import HistoryMalformed, Section
from qmgr_tables.image import damaged, image
from qmgr_tables.options import PARTITIONS_MAX, Options
from qmgr_tables.table import QUEUES, TIMES, Table
from qmgr_tables.tables.history_batch import COLUMNS, HistorySource, batches
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.snapshot.finder import StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction, ReadFailed

# The approximate number of events per row of history under load. An idle queue manager writes fewer
# events per row. In this case, the partitions are short and cost little.
EVENTS_PER_ROW = 100
_SEQ_BYTES = 8


class HistoryExtent(NamedTuple):
    """The range of rows of history in a snapshot, from first up to next (exclusive)."""

    store_id: str
    first: int
    next: int


class Span(NamedTuple):
    """Rows of history of one snapshot, from first up to stop (exclusive)."""

    snapshot: StoredSnapshot  # snapshot to read; its list of queues is empty
    store_id: str
    first: int
    stop: int

    @property
    def events(self) -> int:
        """Returns the approximate number of events in the rows."""
        return (self.stop - self.first) * EVENTS_PER_ROW


def extent(snapshot: StoredSnapshot) -> HistoryExtent:
    """Returns the rows of history in *snapshot*.

    The data file is opened only if the manifest does not have these numbers.

    Raises:
        SnapshotUnreadable: The snapshot is missing or damaged.
    """
    if snapshot.history is not None:
        return HistoryExtent(snapshot.store_id, *snapshot.history)
    try:
        with image(snapshot).transaction() as tx:
            store_id, _, _ = keys.STORE_ROW.unpack_from(rows.get(tx, keys.STORE))
            state = rows.find(tx, keys.HISTORY)
    except (ReadFailed, rows.RowDamaged) as error:
        raise damaged(snapshot, error) from error
    if state is None:
        return HistoryExtent(store_id.hex(), 1, 1)
    first, next_, _, _ = keys.HISTORY_ROW.unpack(state)
    return HistoryExtent(store_id.hex(), first, next_)


def spans(snapshots: Iterable[StoredSnapshot]) -> list[Span]:
    """Returns spans that cover each row of history in *snapshots* once, by store and number."""
    found: list[Span] = []
    ends: dict[str, int] = {}
    newest_first = sorted(snapshots, key=lambda one: (one.wall_us, one.turn), reverse=True)
    for snapshot in newest_first:
        store_id, first, next_ = extent(snapshot)
        # If an older snapshot has later rows than the newest snapshot, the store was restored in
        # between.
        next_ = min(next_, ends.setdefault(store_id, next_))
        taken = [span for span in found if span.store_id == store_id]
        for start, stop in _without(first, next_, sorted((one.first, one.stop) for one in taken)):
            found.append(Span(snapshot._replace(queues=()), store_id, start, stop))
    return sorted(found, key=lambda span: (span.store_id, span.first))


def _without(first: int, stop: int, taken: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yields the parts of the range outside the ascending ranges *taken*."""
    for start, end in taken:
        if first < min(start, stop):
            yield first, min(start, stop)
        first = max(first, end)
    if first < stop:
        yield first, stop


def cut(first: int, stop: int, length: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of at most *length* numbers, with about equal lengths."""
    pieces = -(-(stop - first) // length)
    for piece in range(pieces):
        yield (
            first + (stop - first) * piece // pieces,
            first + (stop - first) * (piece + 1) // pieces,
        )


def rows_per_partition(count: int, options: Options) -> int:
    """Returns the number of rows of history in a partition, out of *count* rows."""
    length = max(options.rows_per_partition // EVENTS_PER_ROW, 1)
    length = min(length, count // options.min_partitions)
    return max(length, -(-count // PARTITIONS_MAX), 1)


def plan(snapshots: list[StoredSnapshot], options: Options) -> list[Span]:
    """Returns a span for each task. Together, the spans cover each row of history once."""
    found = spans(snapshots)
    length = rows_per_partition(sum(span.stop - span.first for span in found), options)
    return [
        span._replace(first=first, stop=stop)
        for span in found
        for first, stop in cut(span.first, span.stop, length)
    ]


def read(span: Span, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the events of *span*."""
    snapshot = span.snapshot
    source = HistorySource(snapshot.queue_manager, span.store_id, snapshot.id)
    yield from batches_of(span, source, options, schema)


def batches_of(
    span: Span, source: HistorySource, options: Options, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yields the events of *span* with the columns of *source*.

    Raises:
        SnapshotUnreadable: The snapshot is missing or damaged.
    """
    try:
        yield from batches(data_rows(span), source, schema, partial(wants, options))
    except HistoryMalformed as error:
        raise damaged(span.snapshot, error) from error


def data_rows(span: Span) -> Iterator[tuple[int, bytes]]:
    """Yields the number and the bytes of each row of *span*.

    Raises:
        SnapshotUnreadable: The snapshot is missing or damaged.
    """
    try:
        with image(span.snapshot).transaction() as tx:
            yield from _rows(tx, span)
    except (ReadFailed, rows.RowDamaged) as error:
        raise damaged(span.snapshot, error) from error


def wants(options: Options, section: Section) -> bool:
    """Returns whether the events of *section* are selected."""
    return options.wants(section.queue) and options.wants_time(section.at_us)


def _rows(tx: LmdbTransaction, span: Span) -> Iterator[tuple[int, bytes]]:
    expected = span.first
    for key, value in tx.scan(keys.history(span.first), keys.history(span.stop)):
        seq = int.from_bytes(key[-_SEQ_BYTES:], "big")
        if seq != expected:
            break
        yield seq, rows.unseal(key, value)
        expected += 1
    if expected < span.stop:
        raise ReadFailed(f"row {expected} of history is missing")


HISTORY = Table(
    "history",
    1,
    "one row per event in the life of a message",
    COLUMNS,
    plan,
    read,
    "at",
    (*QUEUES, *TIMES),
    {"queue_manager": "managers", "queue": "queues", "at": "us"},
    is_past=True,
)
