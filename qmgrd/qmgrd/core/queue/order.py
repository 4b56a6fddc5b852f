"""The messages of a queue in physical order: by priority, then arrival, in groups or in none.

They lie in two lanes, which are gone through at once; where nothing is in a group, in one. In the
order of arrival what is delayed is among them, and each priority of each lane is gone through.
"""

from collections.abc import Iterator
from heapq import merge
from typing import TYPE_CHECKING

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction

if TYPE_CHECKING:
    from qmgrd.core.queue.queue import Queue

Rows = Iterator[tuple[bytes, bytes]]


def behind(queue: "Queue", tx: Transaction, priority: int, arrival: int) -> Rows:
    """Yield keys and entries of what can be got, from that place on, down to the least priority."""
    return _merged(
        queue,
        tx,
        *(
            (keys.message(queue.id, lane, priority, arrival), keys.after(keys.lane(queue.id, lane)))
            for lane in keys.LANES_READY
        ),
    )


def of_priority(
    queue: "Queue", tx: Transaction, priority: int, arrival: int, grouped_arrival: int
) -> Rows:
    """Yield the same of one priority, from an arrival on in each lane."""
    ready, grouped = queue.prefixes[priority], queue.grouped_prefixes[priority]
    return _merged(
        queue,
        tx,
        (ready + arrival.to_bytes(8, "big"), keys.after(ready)),
        (grouped + grouped_arrival.to_bytes(8, "big"), keys.after(grouped)),
    )


def by_arrival(queue: "Queue", tx: Transaction, arrival: int) -> Rows:
    """Yield keys and entries of what can be got or is delayed, from an arrival on."""
    scans = (
        tx.scan(prefix + arrival.to_bytes(8, "big"), keys.after(prefix))
        for lane in (*keys.LANES_READY, keys.LANE_DELAYED)
        for priority in range(keys.PRIORITY_TOP + 1)
        if (prefix := keys.entry_prefix(queue.id, priority, lane))
    )
    return merge(*scans, key=_arrival)


def _merged(queue: "Queue", tx: Transaction, *ranges: tuple[bytes, bytes]) -> Rows:
    scans = [tx.scan(start, stop) for start, stop in ranges]
    return merge(*scans, key=_place) if queue.counters.grouped else scans[0]


def _place(row: tuple[bytes, bytes]) -> bytes:
    """Return what decides: 9 - priority and arrival, at the end of a key."""
    return row[0][-keys.PLACE.size :]


def _arrival(row: tuple[bytes, bytes]) -> bytes:
    return row[0][-8:]
