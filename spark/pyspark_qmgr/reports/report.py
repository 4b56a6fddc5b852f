"""The definition of a report: its tables, its frames, and how they are shown.

A report has one or more parts. Each part is one DataFrame, whose columns are documented here. A
column is not renamed and does not change its meaning. Times are timestamps, durations milliseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

Row = Mapping[str, Any]
Frames = Mapping[str, DataFrame]
SHOWN_MAX = 50  # rows of a table on the page; Parquet has all


class Kind(StrEnum):
    """The kind of a column's values, which determines how they are shown."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    MS = "ms"
    RATE = "rate"  # per second
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
    """The plot of a part: the values of each label, or for each label a line over time."""

    label: tuple[str, ...]  # columns that identify a bar or a line
    values: tuple[str, ...]
    axis: str  # title of the axis of values, with its unit
    x: str = ""  # a time: the plot has lines over it instead of bars
    is_log: bool = False  # for values over several powers of ten
    in_order: bool = False  # bars from low to high labels, as in a histogram
    labels_max: int = 15


class Part(NamedTuple):
    """One frame of a report."""

    name: str  # "" for the first part: its files are those of the report
    text: str  # the meaning of a row
    columns: tuple[Column, ...]
    order: tuple[str, ...]  # columns by which the page sorts rows; -NAME: descending
    # Returns the main result in a sentence, from at most SHOWN_MAX rows in that order.
    title: Callable[[Sequence[Row]], str]
    plot: Plot | None = None


class Report(NamedTuple):
    """A report."""

    name: str
    text: str  # its content, in a line
    tables: tuple[str, ...]
    parts: tuple[Part, ...]
    make: Callable[[Frames], Frames]  # makes the frame of each part from the tables

    def file_of(self, part: Part) -> str:
        """Returns the name of the directory with the rows of *part*."""
        return f"{self.name}-{part.name}.parquet" if part.name else f"{self.name}.parquet"
