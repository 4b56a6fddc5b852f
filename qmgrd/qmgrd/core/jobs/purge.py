"""Deletes the messages of a queue that arrived before the job began and that a selector selects.

Leased messages stay.
"""

from qmgr_protocol import history
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import DONE, MORE, Job, JobStep
from qmgrd.core.jobs.slice import next_rows, selector_of
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.queue import lane
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import is_selected
from qmgrd.core.queue.take import is_available
from qmgrd.core.selector.selector import Selector


def step(context: Context, catalogue: Catalogue, job: Job) -> JobStep:
    """Deletes a slice of the messages. If the queue has been deleted, the job is done."""
    row, queue = job.row, catalogue.by_id.get(job.row["queue_id"])
    if queue is None:
        return DONE
    selector = selector_of(context, job, queue)
    lane_ = row.setdefault("lane", keys.LANE_READY)
    found, last = next_rows(context, job, keys.lane(queue.id, lane_), selector)
    context.mark_changed(queue)
    for key, value in found:
        arrival = keys.place(key)[1]
        if arrival >= row["before"] or queue.is_lost(entries.decode(value), arrival):
            continue
        job.count("examined")
        if arrival in queue.leases:
            job.count("skipped")
        elif selector is None or _matches(queue, context.tx, context.now, selector, key, value):
            entry = lane.remove(queue, context.tx, key, value)
            queue.record_history(history.REMOVED, key, entry)
            queue.counters.count_purged()
            job.count("done")
            if row["done"] == row["messages_max"]:
                return DONE
    if not last:
        return MORE
    for other, count in _others(queue):
        if other > lane_ and count:
            row["lane"] = other
            return MORE
    return DONE


def _others(queue: Queue) -> tuple[tuple[int, int], ...]:
    """Returns the other lanes in the order of the cursor, with the number of messages in each.

    Delayed messages also belong to the queue.
    """
    counters = queue.counters
    return (keys.LANE_DELAYED, counters.delayed), (keys.LANE_GROUPED, counters.grouped)


def _matches(
    queue: Queue, tx: Transaction, now: Now, selector: Selector, key: bytes, value: bytes
) -> bool:
    """Returns whether the message under *key* is selected.

    An unreadable message is not selected.
    """
    sound = entries.open_sound(tx, value, entries.OUTLINE_ABOVE_BYTES)
    if sound is None or not is_available(queue, sound.entry, keys.place(key)[1], now):
        return False
    return is_selected(selector, queue, tx, key, sound.entry, sound.record)
