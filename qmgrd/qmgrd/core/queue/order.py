"""Scans the messages of a queue, grouped or not, in physical order: by priority, then by arrival.

A scan merges the ready and the grouped lane. If the queue has no groups, the scan reads only the
ready lane. A scan in order of arrival includes delayed messages, and merges all priorities of all
lanes.
"""

from collections.abc import Iterator
from heapq import merge

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.queue import Queue

Rows = Iterator[tuple[bytes, bytes]]


def behind(queue: Queue, tx: Transaction, priority: int, arrival: int) -> Rows:
    """Yields keys and entries of available and leased messages, starting at a place."""
    return _merged(
        queue,
        tx,
        *(
            (keys.message(queue.id, lane, priority, arrival), keys.after(keys.lane(queue.id, lane)))
            for lane in keys.LANES_READY
        ),
    )


def of_priority(
    queue: Queue, tx: Transaction, priority: int, arrival: int, grouped_arrival: int
) -> Rows:
    """Yields keys and entries of one priority, starting at a given arrival number in each lane."""
    ready, grouped = queue.positions.prefixes[priority], queue.positions.grouped_prefixes[priority]
    return _merged(
        queue,
        tx,
        (ready + arrival.to_bytes(8, "big"), keys.after(ready)),
        (grouped + grouped_arrival.to_bytes(8, "big"), keys.after(grouped)),
    )


def by_arrival(queue: Queue, tx: Transaction, arrival: int) -> Rows:
    """Yields keys and entries in order of arrival, including delayed messages."""
    scans = (
        tx.scan(prefix + arrival.to_bytes(8, "big"), keys.after(prefix))
        for lane in (*keys.LANES_READY, keys.LANE_DELAYED)
        for priority in range(keys.PRIORITY_TOP + 1)
        if (prefix := keys.entry_prefix(queue.id, priority, lane))
    )
    return merge(*scans, key=_arrival)


def _merged(queue: Queue, tx: Transaction, *ranges: tuple[bytes, bytes]) -> Rows:
    scans = [tx.scan(start, stop) for start, stop in ranges]
    return merge(*scans, key=_place) if queue.counters.grouped else scans[0]


def _place(row: tuple[bytes, bytes]) -> bytes:
    """Returns the part of a key that determines the order: 9 - priority, then the arrival."""
    return row[0][-keys.PLACE.size :]


def _arrival(row: tuple[bytes, bytes]) -> bytes:
    return row[0][keys.ENTRY_ARRIVAL]
