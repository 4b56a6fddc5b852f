"""A table of ready batches, to measure Spark's own cost for rows that need no decoding.

Format "ready" yields the first batch of a snapshot's messages repeatedly, in as many tasks as the
messages table has. Its time is therefore a lower bound for any source in Python.
"""

import gc
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, repeat
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_qmgr.schema import schema_of
from pyspark_qmgr.tcp_nodelay import disable_tcp_delays
from qmgr_bench.own.table_source import MESSAGES, batches
from qmgr_tables.options import ROWS_PER_PARTITION


class Ready(DataSource):
    """A data source. Its options are *path* (a snapshot) and *rows* (the number of rows)."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `spark.read.format`."""
        return "ready"

    def schema(self) -> StructType:
        """Returns the columns of table messages."""
        return schema_of(MESSAGES)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of the ready batches."""
        return _Reader(self.options["path"], int(self.options["rows"]))


class _Reader(DataSourceReader):
    def __init__(self, path: str, rows: int) -> None:
        self._path = path
        self._rows = rows

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        disable_tcp_delays()

    def partitions(self) -> list[InputPartition]:
        """Returns the same partitions as the messages table has for this number of rows."""
        count = -(-self._rows // ROWS_PER_PARTITION)
        ends = [self._rows * number // count for number in range(count + 1)]
        return [InputPartition(end - start) for start, end in pairwise(ends)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields batches with the partition's number of rows."""
        ready = _first(self._path)
        full, rest = divmod(partition.value, ready.num_rows)
        yield from repeat(ready, full)
        if rest:
            yield ready.slice(0, rest)


@cache
def _first(path: str) -> pa.RecordBatch:
    """Returns the first batch of the snapshot. Each process makes the batch once."""
    from pyspark.sql.pandas.types import to_arrow_schema

    gc.freeze()  # The reader of the messages table also freezes its objects.
    schema = to_arrow_schema(schema_of(MESSAGES), timezone="UTC")
    return pa.RecordBatch.from_arrays(next(batches(path, verify="false")).columns, schema=schema)
