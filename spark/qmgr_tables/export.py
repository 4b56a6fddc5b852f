"""Exports tables to Parquet or Delta with no Java: once each row, however often it is stopped.

A queue is no log. An increment of `messages` has what was put since the one before and is still
there: each message once, as it was in the first snapshot that showed it. What became of it later
is in no increment; `full` exports each snapshot as a whole.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, NamedTuple

import pyarrow as pa

from qmgr_tables.export_delta import DeltaSink
from qmgr_tables.export_failure import ExportRefused, failure_of
from qmgr_tables.export_feed import BY_QUEUE, Feed, feeds
from qmgr_tables.export_manifest import FORMAT, NOTHING, Progress
from qmgr_tables.export_parquet import ParquetSink
from qmgr_tables.export_sink import Sink, Sizes, Written
from qmgr_tables.export_target import open_target
from qmgr_tables.options import Options
from qmgr_tables.tables import TABLES
from qmgrd.ops.snapshots import find, verify

FORMATS = ("parquet", "delta")
# Of options, those that say which rows and columns there are; a directory has one set of them.
_PLAIN = Options(paths=())
_NOT_KEPT = {
    "paths", "rows_per_partition", "min_partitions", "verify", "table",
}  # fmt: skip

Bar = Callable[[int], AbstractContextManager[Callable[[int], object]]]


class Exported(NamedTuple):
    """What an export did."""

    table: str
    path: str
    snapshots: int
    written: list[Written]


def no_bar(rows: int) -> AbstractContextManager[Callable[[int], object]]:
    """Show nothing."""
    return nullcontext(lambda more: None)


def export(
    options: Options, to: str, *, format: str = "parquet", full: bool = False,
    sizes: Sizes | None = None, bar: Bar = no_bar,
) -> Exported:  # fmt: skip
    """Export the rows of a table that are not below *to* yet; return what was written.

    Args:
        options: which table, of which snapshots, and what of it.
        to: a directory, or a URL.
        format: one of FORMATS.
        full: each snapshot whole, in place of what is new in it.
        sizes: how files are cut.
        bar: shows progress: called with about how many rows are to come (0: not known).

    Raises:
        OptionInvalid: a queue that was asked for is in none of the snapshots.
        SnapshotUnreadable: one is missing or damaged.
        ExportRefused: *to* holds something else, or is in use; nothing was changed.
        ExportFailed: it stopped on the way.
    """
    snapshots = find(options.paths)
    table = TABLES[options.table]
    found = feeds(table, snapshots, options, table.schema, full=full)
    header = {
        "format": FORMAT, "table": table.name, "version": table.version, "full": full,
        "options": _kept(options, full=full),
    }  # fmt: skip
    place = f"{to.removesuffix('/')}/{table.name}"
    try:
        sink = _sink(to, format, table.schema, header, sizes or Sizes())
        with closing(sink):
            _export(found, options, sink, bar)
            return Exported(table.name, place, len(snapshots), sink.finish())
    except OSError as error:
        raise failure_of(place, error) from error


def _sink(to: str, format: str, schema: pa.Schema, header: dict[str, Any], sizes: Sizes) -> Sink:
    if format == "delta":
        return DeltaSink(to, schema, header, sizes)
    target = open_target(to, header["table"])
    try:
        return ParquetSink(target, schema, header, sizes)
    except BaseException:
        target.close()
        raise


def _export(found: list[Feed], options: Options, sink: Sink, bar: Bar) -> None:
    """Write what *found* has and *sink* has not."""
    wanted = [feed for feed in found if not _is_done(feed, sink.progress(feed.key))]
    for snapshot in {feed.snapshot.id: feed.snapshot for feed in wanted}.values():
        if options.verify:
            verify(snapshot)
    rows = sum(feed.about(sink.progress(feed.key).last) for feed in wanted)
    with bar(rows) as advance:
        for feed in wanted:
            progress = sink.progress(feed.key)
            if not _is_done(feed, progress):  # Another snapshot of that store may have had all.
                sink.write(feed, _told(_behind(feed, progress), advance))


def _is_done(feed: Feed, progress: Progress) -> bool:
    return progress.last >= feed.last or feed.snapshot.id in progress.done


def _behind(feed: Feed, progress: Progress) -> Iterator[pa.Table]:
    """Yield the rows of *feed* behind *progress*.

    Raises:
        ExportRefused: at that position there is another message than was exported.
    """
    after = progress.last
    if after == NOTHING or not progress.last_id or not feed.position:
        yield from feed.rows(after)
        return
    for table in feed.rows(after - 1):
        if table.num_rows and table.column(feed.position)[0].as_py() == after:
            found = table.column("message_id")[0].as_py()
            if found not in (None, progress.last_id):
                raise ExportRefused(
                    f"{feed.snapshot.directory}: {feed.position} {after} of "
                    f"{feed.queue or feed.snapshot.queue_manager} is {found}, but "
                    f"{progress.last_id} was exported: the store was put back to a backup; "
                    "export to a new directory"
                )
            table = table.slice(1)
        yield table


def _told(tables: Iterator[pa.Table], advance: Callable[[int], object]) -> Iterator[pa.Table]:
    for table in tables:
        yield table
        advance(table.num_rows)


def _kept(options: Options, *, full: bool) -> dict[str, Any]:
    """Return the options that an export is held to: by what they are, where not the default."""
    left_out = set(_NOT_KEPT)
    if options.table in BY_QUEUE:
        left_out |= {"queues", "queues_pattern"}  # Each queue goes on from its own position.
    told = zip(options._fields, options, _PLAIN, strict=True)
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value, plain in told
        if name not in left_out and value != plain
    }
