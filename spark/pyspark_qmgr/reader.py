"""Reads messages: what to read is planned on the driver, the snapshots are opened by the tasks."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_qmgr import row as rows
from pyspark_qmgr.image import image
from pyspark_qmgr.manifest import DATA, SnapshotUnreadable, find, verify
from pyspark_qmgr.options import Options
from pyspark_qmgr.partition import Run, Share, plan
from pyspark_qmgr.schema import COLUMNS
from qmgrd.core import keys
from qmgrd.store.lmdb_store import ReadFailed

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES = 4 << 20  # Spark's own batches count rows: ten thousand long messages exhaust a task.
BATCH_ROWS = 10_000
KEY_BYTES = len(keys.message(0, 0, 0, 0))
ROW_BYTES = 200  # about what a row takes beside its body and its headers


class MessageReader(DataSourceReader):
    """Reads the messages of snapshots in Arrow batches."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return what each task reads; nothing where there are no messages."""
        snapshots = find(self._options.paths)
        shares = plan(snapshots, self._options)
        if self._options.verify:
            for snapshot in snapshots:
                verify(snapshot)
        return [InputPartition(share) for share in shares]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the messages of *partition*, about BATCH_BYTES at a time."""
        if partition.value is None:  # Spark's stand-in for an empty list of partitions.
            return
        make = _maker(self._schema)
        held: list[rows.Row] = []
        size = 0
        for row in self._rows(partition.value):
            held.append(row)
            size += ROW_BYTES + len(row.body or b"") + _header_bytes(row)
            if size >= BATCH_BYTES or len(held) == BATCH_ROWS:
                yield make(held)
                held, size = [], 0
        if held:
            yield make(held)

    def _rows(self, share: Share) -> Iterator[rows.Row]:
        snapshot = share.snapshot
        try:
            with image(snapshot).transaction() as tx:
                for run in share.runs:
                    for key, value in tx.scan(*_bounds(run)):
                        if len(key) != KEY_BYTES:
                            raise ReadFailed(f"a key of {len(key)} bytes, not {KEY_BYTES}")
                        row = rows.read(tx, key, value, run, snapshot, self._options)
                        if row is not None and self._options.wants_state(row.state):
                            yield row
        except ReadFailed as error:
            raise SnapshotUnreadable(
                f"{snapshot.directory}/{DATA}: damaged: {error}; copy or take the snapshot anew"
            ) from error


def _bounds(run: Run) -> tuple[bytes, bytes]:
    return (
        keys.message(run.queue_id, run.lane, run.priority, run.first),
        keys.message(run.queue_id, run.lane, run.priority, run.stop),
    )


def _header_bytes(row: rows.Row) -> int:
    return sum(len(key) + len(value or "") for key, value in row.headers or ())


def _maker(schema: StructType) -> Any:
    """Return what makes a batch of rows: each with the very schema that Spark compares it with."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")
    places = [COLUMNS.index(name) for name in arrow.names]

    def make(held: Iterable[rows.Row]) -> "pa.RecordBatch":
        columns = list(zip(*held, strict=True))
        arrays = [
            pa.array(columns[place], type=field.type)
            for place, field in zip(places, arrow, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow)

    return make
