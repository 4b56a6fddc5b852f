"""What a report is: which tables it reads, which frames it makes, how they are shown.

A report has one part or more. Each part is one DataFrame, whose columns are documented here; a
column is not renamed or given another meaning. Times are timestamps, durations milliseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

Row = Mapping[str, Any]
Frames = Mapping[str, DataFrame]
SHOWN_MAX = 50  # rows of a table on the page; Parquet has them all


class Kind(StrEnum):
    """What a column holds, and so how it is shown."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    MS = "ms"
    RATE = "rate"  # a second
    SHARE = "share"  # 0 to 1
    NUMBER = "number"
    TIME = "time"
    FLAG = "flag"


class Column(NamedTuple):
    """A column of a part."""

    name: str
    kind: Kind
    text: str


class Plot(NamedTuple):
    """What is drawn of a part: of each label its values, or of each label a line over time."""

    label: tuple[str, ...]  # columns that name a bar, or a line
    values: tuple[str, ...]
    axis: str  # what is on the axis of values, with its unit
    x: str = ""  # a time: lines over it, not bars
    is_log: bool = False  # values over several powers of ten
    in_order: bool = False  # of the label, from low to high, as of a histogram
    labels_max: int = 15


class Part(NamedTuple):
    """One frame of a report."""

    name: str  # "" of the first: its files are those of the report
    text: str  # what a row is
    columns: tuple[Column, ...]
    order: tuple[str, ...]  # columns by which the page has rows in order; -NAME: falling
    # What one sees, in a sentence, from at most SHOWN_MAX rows in that order.
    title: Callable[[Sequence[Row]], str]
    plot: Plot | None = None


class Report(NamedTuple):
    """A report."""

    name: str
    text: str  # what it tells, in a line
    tables: tuple[str, ...]
    parts: tuple[Part, ...]
    make: Callable[[Frames], Frames]  # from the tables, a frame of each part

    def file_of(self, part: Part) -> str:
        """Returns the name of the directory that holds the rows of *part*."""
        return f"{self.name}-{part.name}.parquet" if part.name else f"{self.name}.parquet"
