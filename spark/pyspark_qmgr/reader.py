"""Reads a table: what to read is planned on the driver, the snapshots are opened by the tasks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from qmgr_tables.options import Options
from qmgrd.ops.snapshots import find, verify

if TYPE_CHECKING:
    import pyarrow as pa


class TableReader(DataSourceReader):
    """Reads a table of snapshots in Arrow batches."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return what each task reads; nothing where there are no rows."""
        from qmgr_tables.tables import TABLES

        snapshots = find(self._options.paths, self._options.staging)
        shares = TABLES[self._options.table].plan(snapshots, self._options)
        if self._options.verify:
            for snapshot in snapshots:
                verify(snapshot)
        return [InputPartition(share) for share in shares]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of *partition* in batches of the very schema that Spark wants."""
        if partition.value is None:  # Spark's stand-in for an empty list of partitions.
            return
        from pyspark.sql.pandas.types import to_arrow_schema

        from qmgr_tables.tables import TABLES

        schema = to_arrow_schema(self._schema, timezone="UTC")
        yield from TABLES[self._options.table].read(partition.value, self._options, schema)
