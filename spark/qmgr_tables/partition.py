"""Packs runs of arrivals into partitions of about equal size.

A partition contains everything that its task needs, because tasks share no memory with the planner.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple

from qmgr_tables.options import (
    DAMAGED,
    DELAYED,
    PARKED,
    PARTITIONS_MAX,
    PUBLICATION,
    READY,
    TRANSMISSION,
    OptionInvalid,
    Options,
)
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import LaneRange, Lost, QueueInfo, StoredSnapshot


class Run(NamedTuple):
    """Messages of one queue, lane and priority. Arrivals are from first up to stop (exclusive)."""

    queue: str
    queue_id: int
    kind: str
    lane: int
    priority: int
    first: int
    stop: int
    lost: Lost = ()

    @property
    def state(self) -> str:
        """Returns the state of the run's messages, if they are valid."""
        return state_of(self.kind, self.lane)


class Share(NamedTuple):
    """The part of a snapshot that one task reads."""

    snapshot: StoredSnapshot  # snapshot to read; its list of queues is empty
    runs: tuple[Run, ...]


def plan(snapshots: list[StoredSnapshot], options: Options) -> list[Share]:
    """Returns shares that cover each selected message of *snapshots* exactly once.

    Raises:
        OptionInvalid: No snapshot has a queue that the options name.
    """
    _check_queues(snapshots, options)
    messages = sum(
        found.messages
        for snapshot in snapshots
        for queue in snapshot.queues
        if options.wants(queue.name)
        for found in _wanted(queue, options)
    )
    rows = min(options.rows_per_partition, messages // options.min_partitions)
    rows = max(rows, -(-messages // PARTITIONS_MAX), 1)
    return [share for snapshot in snapshots for share in _shares(snapshot, options, rows)]


def state_of(kind: str, lane: int) -> str:
    """Returns the state of a valid message in *lane* of a queue of *kind*."""
    if lane in (keys.LANE_READY, keys.LANE_GROUPED):
        return {"transmission": TRANSMISSION, "publications": PUBLICATION}.get(kind, READY)
    if lane == keys.LANE_PARKED:
        return PARKED
    return DELAYED if lane == keys.LANE_DELAYED else DAMAGED


def _wanted(queue: QueueInfo, options: Options) -> Iterator[LaneRange]:
    """Yields the ranges of *queue* that may have selected messages."""
    for found in queue.ranges:
        # A damaged message can be in any lane, because the daemon moves it only when it reads the
        # message.
        if options.wants_state(DAMAGED) or options.wants_state(state_of(queue.kind, found.lane)):
            yield found


def _check_queues(snapshots: list[StoredSnapshot], options: Options) -> None:
    known = sorted({queue.name for snapshot in snapshots for queue in snapshot.queues})
    for name in sorted(options.queues.difference(known)):
        near = get_close_matches(name, known, 1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"the queues are {', '.join(known[:20]) or 'none'}"
        )
        raise OptionInvalid(
            f"option queues: queue {name[:80]} not found in {', '.join(options.paths)}; {hint}"
        )


def _shares(snapshot: StoredSnapshot, options: Options, rows: int) -> Iterator[Share]:
    """Yields the shares of one snapshot. Long runs are divided, and short runs are joined."""
    of = snapshot._replace(queues=())
    runs: list[Run] = []
    held = 0
    for queue in snapshot.queues:
        if not options.wants(queue.name):
            continue
        for found in _wanted(queue, options):
            lane, priority = found.lane, found.priority
            start = Run(queue.name, queue.id, queue.kind, lane, priority, 0, 0, queue.lost)
            for first, stop, messages in _cut(found, rows):
                if runs and held + messages > rows:
                    yield Share(of, tuple(runs))
                    runs, held = [], 0
                runs.append(start._replace(first=first, stop=stop))
                held += messages
    if runs:
        yield Share(of, tuple(runs))


def _cut(found: LaneRange, rows: int) -> Iterator[tuple[int, int, int]]:
    """Yields (first, stop, messages) for each piece of about *rows* messages.

    If the arrivals have gaps, the pieces have different sizes.
    """
    pieces = -(-found.messages // rows)
    length = found.last_arrival + 1 - found.first_arrival
    for piece in range(pieces):
        first = found.first_arrival + length * piece // pieces
        stop = found.first_arrival + length * (piece + 1) // pieces
        yield first, stop, -(-found.messages // pieces)
