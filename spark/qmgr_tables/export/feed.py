"""The rows to export, as feeds. The rows of a feed have ascending positions.

    table      a feed for each         position   rows that a later export skips
    messages   store and queue         arrival    messages up to the last exported arrival
    history    store                   seq        rows up to the last exported row
    others     snapshot                (none)     the snapshot, which is exported in one piece
    messages   snapshot and queue      arrival    the snapshot, if the export is full
    history    snapshot                (none)     the snapshot, if the export is full

Rows with the same position are exported together. A row of the history can describe many messages.

In this module, the rows of a feed come from snapshots. In live.py, they come from a running queue
manager, and `taken` moves its cursor.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from qmgr_tables.export.order import in_order, whole_positions
from qmgr_tables.options import Options
from qmgr_tables.partition import Run, Share
from qmgr_tables.table import Table
from qmgrd.snapshot.finder import StoredSnapshot

# position columns of the tables to which rows are only added
POSITIONS = {"messages": "arrival", "history": "seq"}
BY_QUEUE = {"messages"}  # tables with separate positions for each queue


Read = Callable[[Any], Iterator[pa.RecordBatch]]


def _nobody(position: int) -> None:
    pass


class Feed(NamedTuple):
    """Rows that are exported in order. An interrupted export of the feed can be continued."""

    key: str  # identifier of the positions
    stem: str  # first part of the file names
    queue: str  # name of the queue; "" if the feed has rows of several queues
    snapshot: StoredSnapshot  # snapshot with the rows; its list of queues is empty
    position: str  # name of the position column; "" if all rows are one piece
    last: int  # highest position; the export is complete at this position
    # function that returns the rows after a position, in order
    rows: Callable[[int], Iterator[pa.Table]]
    # function that returns the approximate number of rows after a position; 0 if unknown
    about: Callable[[int], int]
    first: int = 0  # lowest position; earlier rows are lost; 0 if gaps are normal
    # function that is called with the position up to which rows are on disk
    taken: Callable[[int], None] = _nobody


def feeds(
    table: Table,
    snapshots: list[StoredSnapshot],
    options: Options,
    schema: pa.Schema,
    *,
    full: bool,
) -> list[Feed]:
    """Returns the feeds of *table* in *snapshots*, by store, older snapshots first."""
    ordered = {one.id: one for one in sorted(snapshots, key=lambda one: (one.store_id, one.turn))}

    def read(share: Any) -> Iterator[pa.RecordBatch]:
        return table.read(share, options, schema)

    found: list[Feed] = []
    for snapshot in ordered.values():
        shares = _shares(table, snapshot, options)
        if table.name in BY_QUEUE:
            found += _by_queue(read, snapshot, shares, schema, table.name, full=full)
        else:
            found.append(_whole(read, snapshot, shares, table.name, full=full))
    return found


def _shares(table: Table, snapshot: StoredSnapshot, options: Options) -> list[Any]:
    """Returns the shares of *table* in *snapshot*, which may lack some of the requested queues."""
    if not options.queues:
        return table.plan([snapshot], options)
    known = options.queues.intersection(queue.name for queue in snapshot.queues)
    return table.plan([snapshot], options._replace(queues=known)) if known else []


def _by_queue(
    read: Read,
    snapshot: StoredSnapshot,
    shares: list[Share],
    schema: pa.Schema,
    table: str,
    *,
    full: bool,
) -> Iterator[Feed]:
    """Yields a feed for each queue that has runs."""
    column = POSITIONS[table]
    # The pieces of the plan are joined again by queue, lane and priority.
    whole: dict[int, dict[tuple[int, int], Run]] = {}
    for run in chain.from_iterable(share.runs for share in shares):
        runs = whole.setdefault(run.queue_id, {})
        place = run.lane, run.priority
        before = runs.get(place, run)
        first, stop = min(before.first, run.first), max(before.stop, run.stop)
        runs[place] = run._replace(first=first, stop=stop)
    of = snapshot._replace(queues=())
    counts = {
        queue.id: [(one.first_arrival, one.last_arrival, one.messages) for one in queue.ranges]
        for queue in snapshot.queues
    }
    start = f"{snapshot.id}-" if full else f"{snapshot.store_id[:8]}-"
    for queue_id, runs in whole.items():
        several = list(runs.values())
        yield Feed(
            f"{snapshot.id if full else snapshot.store_id}/{queue_id}",
            f"{start}{queue_id}",
            several[0].queue,
            of,
            column,
            max(run.stop for run in several) - 1,
            partial(_rows_of_runs, read, of, several, column, schema),
            partial(_about, counts.get(queue_id, [])),
        )


def _rows_of_runs(
    read: Read,
    snapshot: StoredSnapshot,
    runs: list[Run],
    column: str,
    schema: pa.Schema,
    after: int,
) -> Iterator[pa.Table]:
    parts = [
        read(Share(snapshot, (run._replace(first=max(run.first, after + 1)),)))
        for run in runs
        if run.stop > after + 1
    ]
    return in_order(parts, column, schema)


def _about(ranges: list[tuple[int, int, int]], after: int) -> int:
    """Returns the estimated number of messages after *after*, assuming an even distribution."""
    return sum(
        messages * min(last - after, last - first + 1) // (last - first + 1)
        for first, last, messages in ranges
        if last > after
    )


def _whole(
    read: Read, snapshot: StoredSnapshot, shares: list[Any], table: str, *, full: bool
) -> Feed:
    """Returns the feed of a whole table, either of one snapshot or with positions."""
    of = snapshot._replace(queues=())
    column = "" if full else POSITIONS.get(table, "")
    if not column:
        rows = partial(_rows_of_shares, read, shares)
        return Feed(snapshot.id, snapshot.id, "", of, "", 0, rows, lambda after: 0)
    return Feed(
        snapshot.store_id,
        snapshot.store_id[:8],
        "",
        of,
        column,
        max((share.stop for share in shares), default=0) - 1,
        partial(_rows_of_spans, read, shares, column),
        lambda after: 0,
        min((share.first for share in shares), default=0),
    )


def _rows_of_shares(read: Read, shares: list[Any], after: int) -> Iterator[pa.Table]:
    del after
    for batch in chain.from_iterable(map(read, shares)):
        yield pa.Table.from_batches([batch])


def _rows_of_spans(read: Read, spans: list[Any], column: str, after: int) -> Iterator[pa.Table]:
    """Yields the rows of *spans*.

    The positions of a span start at its first row and end before its stop.
    """
    left = [
        span._replace(first=max(span.first, after + 1)) for span in spans if span.stop > after + 1
    ]
    batches = chain.from_iterable(map(read, left))
    return whole_positions((pa.Table.from_batches([batch]) for batch in batches), column)
