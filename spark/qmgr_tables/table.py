"""What a table is: its columns, how its rows are shared out over tasks, and who reads them.

A table has a version. A column is never renamed, retyped or given another meaning within one; new
ones are added at the end, which raises nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from qmgr_tables.options import Options
from qmgrd.ops.snapshots import Snapshot

TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.map_(pa.string(), pa.string())


class Column(NamedTuple):
    """A column. Each may be null, as in Spark's file sources."""

    name: str
    type: pa.DataType
    text: str  # what it says, for the documentation


class Table(NamedTuple):
    """A table that is read from snapshots."""

    name: str
    version: int
    text: str  # what a row is, for the documentation
    columns: tuple[Column, ...]
    # What a task reads is whatever *read* understands; it travels to the task by pickle.
    plan: Callable[[list[Snapshot], Options], list[Any]]
    # Yields batches of the columns that the schema names, in its order.
    read: Callable[[Any, Options, pa.Schema], Iterator[pa.RecordBatch]]

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return pa.schema([(column.name, column.type) for column in self.columns])
