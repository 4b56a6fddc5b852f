"""The definition of a table: its columns, its distribution over tasks, and its reader.

A table has a version. Within a version, the names, the types and the meanings of columns do not
change. New columns are added at the end without a new version. tests/qmgr_tables/data/schemas.json
enforces this rule.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from qmgr_tables.options import Options
from qmgrd.snapshot.finder import StoredSnapshot

TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.map_(pa.string(), pa.string())
# Options that some tables do not support. A table rejects options that it does not support.
QUEUES, STATES, TIMES = ("queues", "queuesPattern"), ("states",), ("since", "until")
# Parts of qmgr_tables.filters, by the column that they restrict.
OF_SNAPSHOT = MappingProxyType({"queue_manager": "managers", "snapshot_id": "snapshots"})
OF_QUEUE = MappingProxyType({**OF_SNAPSHOT, "queue": "queues"})


class Column(NamedTuple):
    """A column. Every column may be null, as in Spark's file sources."""

    name: str
    type: pa.DataType
    text: str  # meaning of the column, for the documentation


class Table(NamedTuple):
    """A table that is read from snapshots."""

    name: str
    version: int
    text: str  # meaning of a row, for the documentation
    columns: tuple[Column, ...]
    # A function that returns the shares of the tasks. *read* defines the type of a share. Pickle
    # must support this type.
    plan: Callable[[list[StoredSnapshot], Options], list[Any]]
    # A function that yields batches with the columns of the schema, in the order of the schema.
    read: Callable[[Any, Options, pa.Schema], Iterator[pa.RecordBatch]]
    time: str = ""  # name of the column that since and until refer to
    takes: tuple[str, ...] = ()  # supported options of QUEUES, STATES and TIMES
    pushed: Mapping[str, str] = OF_SNAPSHOT  # columns by which a condition limits the data to read
    is_past: bool = False  # whether the table also has rows of deleted queues

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema with all columns."""
        return pa.schema([(column.name, column.type) for column in self.columns])


def texts(*columns: tuple[str, str]) -> tuple[Column, ...]:
    """Returns columns of strings from pairs of name and meaning."""
    return tuple(Column(name, pa.string(), text) for name, text in columns)


def longs(*columns: tuple[str, str]) -> tuple[Column, ...]:
    """Returns columns of integers from pairs of name and meaning."""
    return tuple(Column(name, pa.int64(), text) for name, text in columns)


def flags(*columns: tuple[str, str]) -> tuple[Column, ...]:
    """Returns columns of booleans from pairs of name and meaning."""
    return tuple(Column(name, pa.bool_(), text) for name, text in columns)


def times(*columns: tuple[str, str]) -> tuple[Column, ...]:
    """Returns columns of times from pairs of name and meaning."""
    return tuple(Column(name, TIME, text) for name, text in columns)


# The last columns of every table that is read from the rows of a store.
DAMAGE = texts(("damage", "the damage of the stored row; null if the row is intact"))
SNAPSHOT = (
    *texts(
        ("queue_manager", "the queue manager of the snapshot"),
        ("snapshot_id", "the id of the snapshot"),
    ),
    *longs(("turn", "the turn of the queue manager that the snapshot shows")),
)
