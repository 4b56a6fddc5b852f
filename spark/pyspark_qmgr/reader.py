"""Reads a table: what to read is planned on the driver, the snapshots are opened by the tasks."""

import gc
import logging
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pyspark_qmgr.prompt import be_prompt
from pyspark_qmgr.pushdown import Pushed, push
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
        """Be what came to a worker with a task, while the rest of the task is still on its way."""
        self.__dict__.update(state)
        be_prompt()

    @property
    def pushFilters(self) -> Pushed:
        """Takes note of what the query asks, and return of that what is Spark's to apply."""
        return Pushed(self._take)

    def _take(self, filters: list[Filter]) -> Iterable[Filter]:
        from qmgr_tables.tables.registry import TABLES

        known, left = push(TABLES[self._options.table], filters, self._options.filters)
        self._options = self._options._replace(filters=known)
        return left

    def partitions(self) -> list[InputPartition]:
        """Returns what each task reads; nothing where there are no rows."""
        from qmgr_tables.planning import plan
        from qmgr_tables.tables.registry import TABLES

        bundles = plan(TABLES[self._options.table], self._options)
        return [InputPartition(bundle) for bundle in bundles]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yields the rows of *partition* in batches of the very schema that Spark wants."""
        if partition.value is None:  # Spark's stand-in for an empty list of partitions.
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
                log.warning("qmgr: rest of a snapshot left out (onDamaged=skip): %s", error)


@cache
def _spare_collector() -> None:
    """Keeps all that is loaded by now from collections of garbage, once in a process.

    A worker collects after each task, and looks through all modules for 35 ms.
    """
    gc.freeze()
