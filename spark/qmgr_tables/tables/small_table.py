"""Tables with few rows, which are created one by one.

A task reads the whole table of a snapshot.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import FrameMalformed
from qmgr_tables.image import damaged, image
from qmgr_tables.options import Options
from qmgr_tables.row import TIME_END_US
from qmgr_tables.table import OF_SNAPSHOT, Column, Table
from qmgrd.core.layout import row as rows
from qmgrd.snapshot.finder import QueueInfo, StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction, ReadFailed

BATCH_ROWS = 5_000
Row = dict[str, Any]  # values by column; missing columns are null
# a function that yields the rows of a snapshot, whose queues are the selected queues
RowsOf = Callable[[LmdbTransaction, StoredSnapshot, Options], Iterator[Row]]


class SnapshotPart(NamedTuple):
    """The part of a table in one snapshot."""

    snapshot: StoredSnapshot  # snapshot with the selected queues


def plan(snapshots: list[StoredSnapshot], options: Options) -> list[SnapshotPart]:
    """Returns a part for each snapshot."""
    return [
        SnapshotPart(
            snapshot._replace(queues=tuple(q for q in snapshot.queues if options.wants(q.name)))
        )
        for snapshot in snapshots
    ]


def table(
    name: str,
    text: str,
    columns: tuple[Column, ...],
    rows_of: RowsOf,
    *,
    time: str = "",
    takes: tuple[str, ...] = (),
    pushed: Mapping[str, str] = OF_SNAPSHOT,
) -> Table:
    """Returns a table of version 1 with the rows of *rows_of*."""

    def read(part: SnapshotPart, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return batches(_rows(part.snapshot, options, rows_of, time), schema)

    return Table(name, 1, text, columns, plan, read, time, takes, pushed)


def _rows(snapshot: StoredSnapshot, options: Options, rows_of: RowsOf, time: str) -> Iterator[Row]:
    of = {
        "queue_manager": snapshot.queue_manager,
        "snapshot_id": snapshot.id,
        "turn": snapshot.turn,
    }
    try:
        with image(snapshot).transaction() as tx:
            for row in rows_of(tx, snapshot, options):
                if not time or options.wants_time(row.get(time)):
                    yield row | of
    except ReadFailed as error:
        raise damaged(snapshot, error) from error


def batches(found: Iterator[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields *found* in batches with exactly the columns of *schema*."""
    while held := list(islice(found, BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(held, schema=schema)


def queues_by_id(snapshot: StoredSnapshot) -> dict[int, QueueInfo]:
    """Returns the selected queues of *snapshot* by id."""
    return {queue.id: queue for queue in snapshot.queues}


def unsealed(key: bytes, value: bytes | None) -> tuple[bytes, str]:
    """Returns the content of *value*, the row of *key*, and its damage, or "" if intact."""
    if value is None:
        return b"", "the row is missing"
    try:
        return rows.unseal(key, value), ""
    except rows.RowDamaged as error:
        return b"", error.text.partition("; ")[0]


def unpacked(key: bytes, value: bytes | None) -> tuple[Any, str]:
    """Returns the unpacked row of *key* and its damage. The row is None if it is damaged."""
    row, damage = unsealed(key, value)
    if damage:
        return None, damage
    try:
        return unpack(row), ""
    except FrameMalformed as error:
        return None, f"the row is not a map or list: {error}"


def wall_us(clock_ms: int, snapshot: StoredSnapshot) -> int | None:
    """Returns the wall-clock time at *clock_ms* of the store's clock, or None if it is too late."""
    return time_us(max(snapshot.wall_us + (clock_ms - snapshot.clock_ms) * 1_000, 0))


def time_us(us: object) -> int | None:
    """Returns *us* if a datetime can represent it, otherwise None."""
    return us if type(us) is int and 0 <= us < TIME_END_US else None
