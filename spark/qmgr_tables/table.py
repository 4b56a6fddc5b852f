"""What a table is: its columns, how its rows are shared out over tasks, and who reads them.

A table has a version. A column is never renamed, retyped or given another meaning within one; new
ones are added at the end, which raises nothing. tests/qmgr_tables/data/schemas.json holds that.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from qmgr_tables.options import Options
from qmgrd.snapshot.finder import Snapshot

TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.map_(pa.string(), pa.string())
# Options that a table may have no use for: who asks for what it has not gets an error, not rows.
QUEUES, STATES, TIMES = ("queues", "queuesPattern"), ("states",), ("since", "until")
# What is asked of a column, as qmgr_tables.filters names it.
OF_SNAPSHOT = MappingProxyType({"queue_manager": "managers", "snapshot_id": "snapshots"})
OF_QUEUE = MappingProxyType({**OF_SNAPSHOT, "queue": "queues"})


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
    time: str = ""  # the column that since and until are held against
    takes: tuple[str, ...] = ()  # of QUEUES, STATES and TIMES
    pushed: Mapping[str, str] = OF_SNAPSHOT  # columns of which less is read where they are asked
    is_past: bool = False  # It tells of queues that are gone as well.

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


# What the rows of every table end with that is read from the rows of a store.
DAMAGE = texts(("damage", "what is wrong with the stored row; null if it is sound"))
SNAPSHOT = (
    *texts(
        ("queue_manager", "the queue manager of the snapshot"),
        ("snapshot_id", "the id of the snapshot"),
    ),
    *longs(("turn", "the queue manager's turn that the snapshot shows")),
)
