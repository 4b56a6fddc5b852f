"""The reader of a table. The driver plans, and the tasks open the snapshots."""

import gc
import logging
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pyspark_qmgr.pushdown import Pushed, push
from pyspark_qmgr.tcp_nodelay import disable_tcp_delays
from qmgr_tables.options import Options
from qmgrd.snapshot.finder import SnapshotUnreadable

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class TableReader(DataSourceReader):
    """Reads a table of snapshots in Arrow batches."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Sets the state in a worker, and disables delays for the rest of the task."""
        self.__dict__.update(state)
        disable_tcp_delays()

    @property
    def pushFilters(self) -> Pushed:
        """Returns a function that records filters and returns the filters that Spark must apply."""
        return Pushed(self._take)

    def _take(self, filters: list[Filter]) -> Iterable[Filter]:
        from qmgr_tables.tables.registry import TABLES

        known, left = push(TABLES[self._options.table], filters, self._options.filters)
        self._options = self._options._replace(filters=known)
        return left

    def partitions(self) -> list[InputPartition]:
        """Returns a partition for each task, or an empty list if the table has no rows."""
        from qmgr_tables.planning import plan
        from qmgr_tables.tables.registry import TABLES

        bundles = plan(TABLES[self._options.table], self._options)
        return [InputPartition(bundle) for bundle in bundles]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yields the rows of *partition* in batches of exactly the schema that Spark requests."""
        # Spark uses None as a placeholder for an empty list of partitions.
        if partition.value is None:
            return
        from pyspark.sql.pandas.types import to_arrow_schema

        from qmgr_tables.tables.registry import TABLES

        _spare_collector()
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for share in partition.value:
            try:
                yield from TABLES[self._options.table].read(share, self._options, schema)
            except SnapshotUnreadable as error:
                if not self._options.skip_damaged:
                    raise
                log.warning("qmgr: skipped the rest of a snapshot (onDamaged=skip): %s", error)


@cache
def _spare_collector() -> None:
    """Excludes all loaded objects from garbage collection, once per process.

    A worker runs the garbage collector after each task, which takes 35 ms because of all loaded
    modules.
    """
    gc.freeze()
