"""The definition of a table: its columns, its distribution over tasks, and its reader.

A table has a version. Within a version, no column is renamed or retyped or changes its meaning. New
columns are added at the end without a new version. tests/qmgr_tables/data/schemas.json enforces
that.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from qmgr_tables.options import Options
from qmgrd.snapshot.finder import StoredSnapshot

TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.map_(pa.string(), pa.string())
# Options that not every table supports: an unsupported one is an error.
QUEUES, STATES, TIMES = ("queues", "queuesPattern"), ("states",), ("since", "until")
# The conditions on columns, by their names in qmgr_tables.filters.
OF_SNAPSHOT = MappingProxyType({"queue_manager": "managers", "snapshot_id": "snapshots"})
OF_QUEUE = MappingProxyType({**OF_SNAPSHOT, "queue": "queues"})


class Column(NamedTuple):
    """A column. Each may be null, as in Spark's file sources."""

    name: str
    type: pa.DataType
    text: str  # its meaning, for the documentation


class Table(NamedTuple):
    """A table that is read from snapshots."""

    name: str
    version: int
    text: str  # the meaning of a row, for the documentation
    columns: tuple[Column, ...]
    # A task's part is whatever *read* understands; it is sent to the task by pickle.
    plan: Callable[[list[StoredSnapshot], Options], list[Any]]
    # Yields batches of the schema's columns, in its order.
    read: Callable[[Any, Options, pa.Schema], Iterator[pa.RecordBatch]]
    time: str = ""  # the column for since and until
    takes: tuple[str, ...] = ()  # of QUEUES, STATES and TIMES
    pushed: Mapping[str, str] = OF_SNAPSHOT  # columns whose conditions reduce what is read
    is_past: bool = False  # It also has rows of deleted queues.

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return pa.schema([(column.name, column.type) for column in self.columns])


def texts(*columns: tuple[str, str]) -> tuple[Column, ...]:
    """Returns columns of text, each of name and meaning."""
    return tuple(Column(name, pa.string(), text) for name, text in columns)


def longs(*columns: tuple[str, str]) -> tuple[Column, ...]:
    """Returns columns of integers."""
    return tuple(Column(name, pa.int64(), text) for name, text in columns)


def flags(*columns: tuple[str, str]) -> tuple[Column, ...]:
    """Returns columns of true and false."""
    return tuple(Column(name, pa.bool_(), text) for name, text in columns)


def times(*columns: tuple[str, str]) -> tuple[Column, ...]:
    """Returns columns of points in time."""
    return tuple(Column(name, TIME, text) for name, text in columns)


# The last columns of every table that is read from the rows of a store.
DAMAGE = texts(("damage", "what is wrong with the stored row; null if it is sound"))
SNAPSHOT = (
    *texts(
        ("queue_manager", "the queue manager of the snapshot"),
        ("snapshot_id", "the id of the snapshot"),
    ),
    *longs(("turn", "the queue manager's turn that the snapshot shows")),
)
