"""A table of batches that are ready: what Spark itself takes for rows that nobody had to decode.

Format "ready" yields the first batch of a snapshot's messages again and again, in as many tasks as
the table itself has. So its time bounds from below what any source in Python can reach.
"""

from collections.abc import Iterator
from itertools import pairwise, repeat

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_qmgr.prompt import be_prompt
from pyspark_qmgr.schema import schema_of
from qmgr_tables.options import ROWS_PER_PARTITION
from qmgr_tools.bench.own.table_source import MESSAGES, batches


class Ready(DataSource):
    """Options: path, a snapshot, and rows, how many it is to have."""

    @classmethod
    def name(cls) -> str:
        """Return what follows `spark.read.format`."""
        return "ready"

    def schema(self) -> StructType:
        """Return the columns of messages."""
        return schema_of(MESSAGES)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads them."""
        return _Reader(self.options["path"], int(self.options["rows"]))


class _Reader(DataSourceReader):
    def __init__(self, path: str, rows: int) -> None:
        self._path = path
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each part of the rows, as the table has them."""
        count = -(-self._rows // ROWS_PER_PARTITION)
        ends = [self._rows * number // count for number in range(count + 1)]
        return [InputPartition(end - start) for start, end in pairwise(ends)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield so many rows."""
        from pyspark.sql.pandas.types import to_arrow_schema

        be_prompt()
        schema = to_arrow_schema(schema_of(MESSAGES), timezone="UTC")
        first = next(batches(self._path, verify="false"))
        ready = pa.RecordBatch.from_arrays(first.columns, schema=schema)
        full, rest = divmod(partition.value, ready.num_rows)
        yield from repeat(ready, full)
        if rest:
            yield ready.slice(0, rest)
