"""The reader of a stream of history or messages.

    initialOffset ─▶ latestOffset ─▶ partitions ─▶ read, on executors ─▶ commit ─┐
                           ▲                                                      │
                           └──────────────────────────────────────────────────────┘

Spark requests the latest offsets, then the data, and then commits the batch. Spark's checkpoint is
authoritative. After a crash, Spark reads a planned batch again from the same offsets. For this
purpose, the stream's cursor keeps the data. The cursor moves only by commit, which Spark calls
after a batch is written. A commit may arrive twice, late or never. Messages have no cursor, so a
message that is consumed before it is read is not in the stream.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_qmgr.tcp_nodelay import disable_tcp_delays

if TYPE_CHECKING:
    import pyarrow as pa

    from qmgr_tables.stream.options import StreamOptions
    from qmgr_tables.stream.source import Offsets, Source


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams the history of queue managers, or their messages, in Arrow batches."""

    def __init__(self, options: "StreamOptions", schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._made: Source | None = None
        # End of the data, for a query that reads only the data available now.
        self._target: Offsets | None = None
        self._latest: Offsets = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (self._options, self._schema)  # Connections cannot be pickled.

    @property
    def _source(self) -> "Source":
        if self._made is None:
            from qmgr_tables.stream.sources import source_of

            self._made = source_of(self._options)
        return self._made

    def initialOffset(self) -> dict[str, int]:
        """Returns the start of a stream without a checkpoint."""
        return _sorted(self._source.begin())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the limit that the options set.

        Spark receives only one of the two limits, but both apply.
        """
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Returns the end of the batch after *start*."""
        from qmgr_tables.stream.limit import admitted

        ends = self._latest = self._source.ends(start, wait=self._target is not None)
        if self._target is not None:
            ends = {
                name: min(end, max(self._target.get(name, 0), start.get(name, 0)))
                for name, end in ends.items()
                if name in self._target or name in start
            }
        return _sorted(admitted(start, ends, self._source.sizes, *self._limits(limit)))

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        """Returns the limits of a batch, in rows and bytes."""
        if isinstance(limit, ReadAllAvailable):
            return None, None
        rows_max, bytes_max = self._options.rows_max, self._options.bytes_max
        if isinstance(limit, ReadMaxRows):
            rows_max = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            bytes_max = limit.max_bytes
        return rows_max, bytes_max

    def prepareForTriggerAvailableNow(self) -> None:
        """Records the current end. The query ends when it has read the data up to this end."""
        self._target = self._source.lasts()

    def reportLatestOffset(self) -> dict[str, int] | None:
        """Returns the end of the data at the last check, for progress reports."""
        return _sorted(self._latest) if self._latest else None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Returns a partition for each task. The same offsets always give the same rows."""
        parts = self._source.parts(start, end, self._options.of)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yields the rows of *partition* in batches of exactly the schema that Spark requests."""
        # Spark uses None as a placeholder for an empty list of partitions.
        if partition.value is None:
            return
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        yield from partition.value.read(self._options.of, schema)

    def commit(self, end: dict[str, int]) -> None:
        """Allows queue managers to delete the data that the stream has stored."""
        self._source.commit(end)

    def stop(self) -> None:
        """Closes the connections."""
        if self._made is not None:
            self._made.close()


def _sorted(offsets: "Offsets") -> dict[str, int]:
    """Returns *offsets* in the order in which Spark compares them as strings."""
    return {name: offsets[name] for name in sorted(offsets)}


def _unpacked(options: "StreamOptions", schema: StructType) -> StreamReader:
    """Returns the unpickled reader in a worker. See pyspark_qmgr.tcp_nodelay."""
    disable_tcp_delays()
    return StreamReader(options, schema)
