"""Runs reports. Writes each part to Parquet, and returns the main results for the page."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells, figure
from pyspark_qmgr.reports.place import Place, first_line
from pyspark_qmgr.reports.report import SHOWN_MAX, Frames, Kind, Part, Plot, Report, Row
from pyspark_qmgr.reports.tables import time_of

POINTS_MAX = 2_000  # maximum number of points of a line in a plot; only the last points are drawn
ERROR_MAX = 500  # maximum number of characters of an error


class Found(NamedTuple):
    """The result of a part."""

    part: Part
    file: str
    rows_total: int
    rows: list[Row]  # first rows of the part, for the page
    title: str
    plot: str  # plot as SVG, or "" if the part has no plot


class Outcome(NamedTuple):
    """The result of a report: its parts, or an error."""

    report: Report
    parts: tuple[Found, ...]
    error: str
    took_ms: int


def run(
    spark: SparkSession,
    reports: Iterable[Report],
    tables: Frames,
    place: Place,
    report_progress: Callable[[str], object] = lambda name: None,
) -> list[Outcome]:
    """Runs *reports* one after another. If one report fails, the others still run.

    Args:
        spark: The session.
        reports: The reports to run.
        tables: The tables that the reports read.
        place: The destination of the rows.
        report_progress: The function that is called with the name of each report before it runs.
    """
    outcomes = []
    for report in reports:
        report_progress(report.name)
        outcomes.append(_run_one(spark, report, tables, place))
    return outcomes


def _run_one(spark: SparkSession, report: Report, tables: Frames, place: Place) -> Outcome:
    start = time.monotonic()
    parts: list[Found] = []
    error = ""
    try:
        frames = report.make(tables)
        for part in report.parts:
            # The rows are not sorted, because sorting distributed rows would read all data twice.
            place.write_frame(report.file_of(part), frames[part.name])
            parts.append(_found(report, part, place))
    except Exception as raised:  # The other reports must run after any error.
        error = why(raised)
        for part in report.parts:
            place.discard(report.file_of(part))
        parts = []
    return Outcome(report, tuple(parts), error, round((time.monotonic() - start) * 1000))


def why(error: BaseException) -> str:
    """Returns the error on one line. A Python error of an executor has precedence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("qmgrd.", "qmgr_tables.", "pyspark_qmgr."))]
    text = named[-1].partition(": ")[2] if named else first_line(error)
    return cells.plain(text or type(error).__name__)[:ERROR_MAX]


def ordered(frame: DataFrame, part: Part) -> DataFrame:
    """Returns *frame* in the order of *part*."""
    by = [
        F.expr(term[1:]).desc_nulls_last() if term.startswith("-") else F.expr(term).asc()
        for term in part.order
    ]
    return frame.orderBy(*by)


def _found(report: Report, part: Part, place: Place) -> Found:
    name = report.file_of(part)
    frame = place.read_frame(name)
    total = frame.count()
    rows = fetched(ordered(frame, part), part, SHOWN_MAX)
    title = part.title(rows) if rows else ""
    plot = ""
    if rows and part.plot is not None:
        points = _points(frame, part, part.plot, rows)
        plot = figure.svg(part, points, f"{report.name}-{part.name}")
    return Found(part, name, total, rows, title, plot)


def fetched(frame: DataFrame, part: Part, rows_max: int) -> list[Row]:
    """Returns the first rows of *frame* on the driver, with times in UTC."""
    times = {column.name for column in part.columns if column.kind is Kind.TIME}
    # Python would silently use the time zone of the machine.
    wanted = [
        F.unix_micros(c.name).alias(c.name) if c.name in times else F.col(c.name)
        for c in part.columns
    ]
    rows: list[dict[str, Any]] = [
        r.asDict() for r in frame.limit(rows_max).select(*wanted).collect()
    ]
    for row in rows:
        row.update({name: time_of(row[name]) for name in times if row[name] is not None})
    return list(rows)


def _points(frame: DataFrame, part: Part, plot: Plot, rows: Sequence[Row]) -> Sequence[Row]:
    """Returns the rows to draw."""
    if plot.in_order:
        return fetched(frame.orderBy(*plot.label), part, plot.labels_max)
    if not plot.x:
        return rows[: plot.labels_max]
    size = F.max(F.abs(F.col(plot.values[0]))).alias("_size")
    labels = list(plot.label)
    most = frame.groupBy(*labels).agg(size).orderBy(F.desc("_size"), *labels)
    lines = frame.join(F.broadcast(most.limit(plot.labels_max)), labels, "left_semi")
    newest = lines.orderBy(F.desc(plot.x), *labels)
    return fetched(newest, part, POINTS_MAX * plot.labels_max)
