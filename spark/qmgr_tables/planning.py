"""Plans a query: finds and checks the snapshots, and distributes them over tasks.

    paths ─▶ directories ─▶ manifests ─▶ verified ─▶ selected ones ─▶ shares ─▶ bundles
                 └── missing ──┴─ damaged ─┴──▶ an error, or skipped with a warning

Planning does not open any data file. Verification reads the files only to compute their checksums.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from qmgr_tables.filters import earlier, later
from qmgr_tables.options import OptionInvalid, Options
from qmgr_tables.table import QUEUES, Table
from qmgrd.snapshot.finder import SnapshotUnreadable, StoredSnapshot, directories, read, verify

# maximum number of threads that read manifests and checksums; one disk cannot serve more threads
THREADS_MAX = 8
# Minimum number of partitions, if the query has enough shares. Small shares of many snapshots are
# joined, because a task costs about 20 ms regardless of its size.
BUNDLES_MIN = 16
log = logging.getLogger(__name__)


class Skipped(NamedTuple):
    """A snapshot or a path that was skipped."""

    directory: str
    why: str


class Found(NamedTuple):
    """The snapshots of a query, and the snapshots that were skipped."""

    snapshots: list[StoredSnapshot]
    skipped: list[Skipped]


def find(options: Options) -> Found:
    """Returns the selected snapshots, verified if the options request it.

    Raises:
        SnapshotUnreadable: A snapshot is missing or damaged and the options do not skip it, or all
            snapshots were skipped.
    """
    skipped: list[Skipped] = []

    def leave_out(directory: str, error: SnapshotUnreadable) -> None:
        if not options.skip_damaged:
            raise error
        log.warning("qmgr: skipped snapshot (onDamaged=skip): %s", error)
        skipped.append(Skipped(directory, str(error)))

    named = _named(options.paths, leave_out)
    with ThreadPoolExecutor(min(THREADS_MAX, max(len(named), 1))) as pool:
        look = partial(_look, is_verified=options.verify)
        answers = list(pool.map(_or_error(look), named))
    snapshots = []
    for directory, answer in zip(named, answers, strict=True):
        if isinstance(answer, SnapshotUnreadable):
            leave_out(directory, answer)
        else:
            snapshots.append(answer._replace(staging=options.staging))
    if not snapshots and options.table != "snapshots":
        raise SnapshotUnreadable(
            f"{', '.join(options.paths)}: all {len(skipped)} snapshots were skipped; "
            f"the first: {skipped[0].why}"
        )
    return Found(snapshots, skipped)


def _named(paths: Iterable[str], leave_out: Callable[[str, SnapshotUnreadable], None]) -> list[str]:
    """Returns the directories that *paths* name. Calls *leave_out* for paths without a snapshot."""
    try:
        return directories(paths)
    except SnapshotUnreadable as error:
        parts = [part.strip() for path in paths for part in path.split(",")]
        if len(parts) == 1:
            leave_out(parts[0], error)
            return []
        there = [found for part in parts for found in _named([part], leave_out)]
        return directories(there)  # This call removes duplicates.


def _look(directory: str, *, is_verified: bool) -> StoredSnapshot:
    snapshot = read(directory)
    if is_verified:
        verify(snapshot)
    return snapshot


def _or_error(
    look: Callable[[str], StoredSnapshot],
) -> Callable[[str], StoredSnapshot | SnapshotUnreadable]:
    def tried(directory: str) -> StoredSnapshot | SnapshotUnreadable:
        try:
            return look(directory)
        except SnapshotUnreadable as error:
            return error

    return tried


def plan(table: Table, options: Options) -> list[list[Any]]:
    """Returns bundles of shares of *table*. Each task reads one bundle.

    Raises:
        SnapshotUnreadable: The same cases as in :func:`find`.
        OptionInvalid: No snapshot has a queue that the options name.
    """
    found = find(options)
    if not table.is_past:
        check_queues(found.snapshots, options)
    wanted = [snapshot for snapshot in found.snapshots if _is_wanted(snapshot, options)]
    known = {queue.name for snapshot in wanted for queue in snapshot.queues}
    if options.queues and QUEUES[0] in table.takes and not table.is_past:
        options = options._replace(queues=options.queues & known)
        if not options.queues:
            return []  # The queues exist only in snapshots that the query excludes.
    shares = [cut for share in table.plan(wanted, options) for cut in _within(share, options)]
    if table.name == "snapshots":
        shares = [*shares, *found.skipped]
    return list(bundles(shares, options))


def _is_wanted(snapshot: StoredSnapshot, options: Options) -> bool:
    filters = options.filters
    return filters.allows("managers", snapshot.queue_manager) and filters.allows(
        "snapshots", snapshot.id
    )


def check_queues(snapshots: list[StoredSnapshot], options: Options) -> None:
    """Raises OptionInvalid if no snapshot contains a named queue. Proxies have no queues."""
    known = sorted({queue.name for snapshot in snapshots for queue in snapshot.queues})
    for name in sorted(options.queues.difference(known)):
        near = get_close_matches(name, known, 1)
        listed = ", ".join(known[:20]) or "none"
        hint = f"did you mean {near[0]}?" if near else f"the queues are {listed}"
        raise OptionInvalid(
            f"option queues: queue {name[:80]} not found in {', '.join(options.paths)}; {hint}"
        )


def _within(share: Any, options: Options) -> Iterator[Any]:
    """Yields *share* without the excluded arrivals, or nothing if no arrivals remain."""
    since, until = options.filters.since_arrival, options.filters.until_arrival
    if (since is None and until is None) or not hasattr(share, "runs"):
        yield share
        return
    cut = [
        run._replace(first=later(run.first, since), stop=earlier(run.stop, until))
        for run in share.runs
    ]
    runs = tuple(run for run in cut if run.first < run.stop)
    if runs:
        yield share._replace(runs=runs)


def _about(share: Any) -> int:
    """Returns the approximate number of rows in *share*, or 0 if the number is small."""
    rows: int = sum(run.stop - run.first for run in getattr(share, "runs", ()))
    return rows or int(getattr(share, "events", 0))


def bundles(shares: Iterable[Any], options: Options) -> Iterator[list[Any]]:
    """Yields *shares* in lists. Each list takes about as long to read as one partition."""
    all_of_them = list(shares)
    many = -(-len(all_of_them) // max(BUNDLES_MIN, options.min_partitions))
    held: list[Any] = []
    rows = 0
    for share in all_of_them:
        more = _about(share)
        if held and (len(held) >= many or rows + more > options.rows_per_partition):
            yield held
            held, rows = [], 0
        held.append(share)
        rows += more
    if held:
        yield held
