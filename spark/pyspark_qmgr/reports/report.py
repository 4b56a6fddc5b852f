"""The definition of a report: its tables, its frames, and their presentation.

A report has one or more parts. Each part is one DataFrame, whose columns are documented here. The
name and the meaning of a column do not change. Times are timestamps, and durations are in
milliseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

Row = Mapping[str, Any]
Frames = Mapping[str, DataFrame]
SHOWN_MAX = 50  # maximum number of rows of a table on the page; the Parquet files have all rows


class Kind(StrEnum):
    """The kind of a column's values, which determines their format."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    MS = "ms"
    RATE = "rate"  # rate per second
    SHARE = "share"  # fraction from 0 to 1
    NUMBER = "number"
    TIME = "time"
    FLAG = "flag"


class Column(NamedTuple):
    """A column of a part."""

    name: str
    kind: Kind
    text: str


class Plot(NamedTuple):
    """The plot of a part: the values of each label, or a line over time for each label."""

    label: tuple[str, ...]  # columns that identify a bar or a line
    values: tuple[str, ...]
    axis: str  # title of the axis of values, with the unit
    x: str = ""  # name of the time column, for lines over time instead of bars
    # whether the axis may be logarithmic, for values over several powers of ten
    is_log: bool = False
    in_order: bool = False  # whether bars are ordered by ascending label, as in a histogram
    labels_max: int = 15


class Part(NamedTuple):
    """A part of a report, which is one frame."""

    name: str  # name of the part; "" for the first part, whose file has the name of the report
    text: str  # meaning of a row
    columns: tuple[Column, ...]
    order: tuple[str, ...]  # columns by which the page sorts rows; -NAME sorts in descending order
    # Returns a sentence with the main result of the first rows (at most SHOWN_MAX) in that order.
    title: Callable[[Sequence[Row]], str]
    plot: Plot | None = None


class Report(NamedTuple):
    """A report."""

    name: str
    text: str  # content of the report, on one line
    tables: tuple[str, ...]
    parts: tuple[Part, ...]
    make: Callable[[Frames], Frames]  # function that makes the frame of each part from the tables

    def file_of(self, part: Part) -> str:
        """Returns the name of the directory with the rows of *part*."""
        return f"{self.name}-{part.name}.parquet" if part.name else f"{self.name}.parquet"
