"""Exports tables to Parquet or Delta without Java. Each row is exported exactly once.

An interrupted export continues without duplicates. A queue is not a log, so an increment of
`messages` contains the messages that were put since the last increment and still exist. Each
message is exported once, in the state of the first snapshot that contains it. Later changes are not
exported. With `full`, each snapshot is exported completely.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from qmgr_tables import planning
from qmgr_tables.export.delta import DeltaSink
from qmgr_tables.export.failure import ExportRefused, failure_of
from qmgr_tables.export.feed import BY_QUEUE, Feed, feeds
from qmgr_tables.export.manifest import FILE as MANIFEST
from qmgr_tables.export.manifest import FORMAT, NOTHING, Progress
from qmgr_tables.export.parquet import ParquetSink
from qmgr_tables.export.sink import Sink, Sizes, Written
from qmgr_tables.export.target import open_target
from qmgr_tables.options import Options
from qmgr_tables.table import Table
from qmgr_tables.tables.registry import TABLES
from qmgrd.snapshot.finder import SnapshotUnreadable, verify

FORMATS = ("parquet", "delta")
# The default values. All exports to a directory must have the same options except _NOT_KEPT.
_PLAIN = Options(paths=())
_NOT_KEPT = {
    "paths",
    "rows_per_partition",
    "min_partitions",
    "verify",
    "table",
    "skip_damaged",
    "staging",
}

Bar = Callable[[int], AbstractContextManager[Callable[[int], object]]]


class Exported(NamedTuple):
    """The result of an export."""

    table: str
    path: str
    snapshots: int
    skipped: list[str]  # reasons why snapshots (see onDamaged) or rows were omitted
    written: list[Written]
    # whether files exist, from this run or earlier runs; without files, the table is unreadable
    has_files: bool


def no_bar(rows: int) -> AbstractContextManager[Callable[[int], object]]:
    """Shows no progress."""
    return nullcontext(lambda more: None)


def export(
    options: Options,
    to: str,
    *,
    format: str = "parquet",
    full: bool = False,
    sizes: Sizes | None = None,
    bar: Bar = no_bar,
) -> Exported:
    """Exports the rows of a table that *to* does not contain yet. Returns the result.

    Args:
        options: The table, its snapshots, and its rows.
        to: A directory or a URL.
        format: One of FORMATS.
        full: Whether to export each snapshot completely, and not only its new rows.
        sizes: The sizes at which files end.
        bar: The function that shows progress. Its argument is the approximate number of rows, or 0
            if the number is unknown.

    Raises:
        OptionInvalid: No snapshot has a requested queue.
        SnapshotUnreadable: A snapshot is missing or damaged.
        ExportRefused: *to* has other content or is in use. Nothing was changed.
        ExportFailed: The export was interrupted.
    """
    # The export verifies only snapshots with new data, later in this function.
    found = planning.find(options._replace(verify=False))
    planning.check_queues(found.snapshots, options)
    table = TABLES[options.table]
    wanted = feeds(table, found.snapshots, options, table.schema, full=full)
    done = write(table, lambda sink: wanted, options, to, format, full=full, sizes=sizes, bar=bar)
    skipped = [one.why for one in found.skipped] + done.skipped
    return done._replace(snapshots=len(found.snapshots), skipped=skipped)


def write(
    table: Table,
    begin: Callable[[Sink], list[Feed]],
    options: Options,
    to: str,
    format: str,
    *,
    full: bool = False,
    sizes: Sizes | None = None,
    bar: Bar = no_bar,
) -> Exported:
    """Writes the rows of feeds to *to*.

    *begin* returns the feeds once the progress is known.

    Raises:
        OptionInvalid, SnapshotUnreadable, ExportRefused, ExportFailed: The same cases as in
            export().
    """
    header = {
        "format": FORMAT,
        "table": table.name,
        "version": table.version,
        "full": full,
        "options": _kept(options),
    }
    place = f"{to.removesuffix('/')}/{table.name}"
    try:
        _check_format(place, format)
        sink = _sink(to, format, table.schema, header, sizes or Sizes())
        with closing(sink):
            left_out = _export(begin(sink), options, sink, bar)
            written = sink.finish()
            return Exported(table.name, place, 0, left_out, written, sink.has_files)
    except OSError as error:
        raise failure_of(place, error) from error


def _check_format(place: str, format: str) -> None:
    """Refuses a directory of the other format, because its readers would get the rows of both."""
    other, mark = ("delta", "_delta_log") if format == "parquet" else ("parquet", MANIFEST)
    local = place.removeprefix("file://")
    if "://" not in local and Path(local).expanduser().joinpath(mark).exists():
        raise ExportRefused(
            f"{place}: the format is {format}, but the directory contains {other}; use "
            f"--format {other}, or export to another directory"
        )


def _sink(to: str, format: str, schema: pa.Schema, header: dict[str, Any], sizes: Sizes) -> Sink:
    if format == "delta":
        return DeltaSink(to, schema, header, sizes)
    target = open_target(to, header["table"])
    try:
        return ParquetSink(target, schema, header, sizes)
    except BaseException:
        target.close()
        raise


def _export(found: list[Feed], options: Options, sink: Sink, bar: Bar) -> list[str]:
    """Writes the rows of *found* that *sink* does not have.

    Returns the reasons for omitted rows.
    """
    wanted = [feed for feed in found if not _is_done(feed, sink.progress(feed.key))]
    damaged = _damaged(wanted, options)
    left_out = list(damaged.values())
    wanted = [feed for feed in wanted if feed.snapshot.id not in damaged]
    rows = sum(feed.about(sink.progress(feed.key).last) for feed in wanted)
    with bar(rows) as advance:
        for feed in wanted:
            progress = sink.progress(feed.key)
            if feed.first > progress.last + 1 > NOTHING + 1:
                left_out.append(_gap(feed, progress.last + 1))
            # An earlier snapshot of the same store may have contained all rows.
            if not _is_done(feed, progress):
                sink.write(feed, _counted(_behind(feed, progress), advance))
    return left_out


def _gap(feed: Feed, first: int) -> str:
    return (
        f"{feed.snapshot.directory}: {feed.position} {first} to {feed.first - 1} of "
        f"{feed.snapshot.queue_manager} were deleted before they were exported; take snapshots "
        "more often, or keep the history longer"
    )


def _damaged(wanted: list[Feed], options: Options) -> dict[str, str]:
    """Returns the ids of damaged snapshots, each with the reason.

    Raises:
        SnapshotUnreadable: A snapshot is damaged, and the options do not skip damaged snapshots.
    """
    damaged = {}
    for snapshot in {feed.snapshot.id: feed.snapshot for feed in wanted}.values():
        try:
            if options.verify:
                verify(snapshot)
        except SnapshotUnreadable as error:
            if not options.skip_damaged:
                raise
            damaged[snapshot.id] = str(error)
    return damaged


def _is_done(feed: Feed, progress: Progress) -> bool:
    return progress.last >= feed.last


def _behind(feed: Feed, progress: Progress) -> Iterator[pa.Table]:
    """Yields the rows of *feed* after *progress*.

    Raises:
        ExportRefused: The message at the last position is not the message that was exported.
    """
    after = progress.last
    if after == NOTHING or not progress.last_id or not feed.queue:
        yield from feed.rows(after)
        return
    for table in feed.rows(after - 1):
        if table.num_rows and table.column(feed.position)[0].as_py() == after:
            found = table.column("message_id")[0].as_py()
            if found not in (None, progress.last_id):
                raise ExportRefused(
                    f"{feed.snapshot.directory}: {feed.position} {after} of "
                    f"{feed.queue or feed.snapshot.queue_manager} is {found}, but "
                    f"{progress.last_id} was exported: the store was restored from a backup; "
                    "export to a new directory"
                )
            table = table.slice(1)
        yield table


def _counted(tables: Iterator[pa.Table], advance: Callable[[int], object]) -> Iterator[pa.Table]:
    for table in tables:
        yield table
        advance(table.num_rows)


def _kept(options: Options) -> dict[str, Any]:
    """Returns the options that are fixed for an export, without default values."""
    left_out = set(_NOT_KEPT)
    if options.table in BY_QUEUE:
        left_out |= {"queues", "queues_pattern"}  # Each queue continues from a separate position.
    fields = zip(options._fields, options, _PLAIN, strict=True)
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value, plain in fields
        if name not in left_out and value != plain
    }
