"""A purge: what arrived before it and is not leased is removed, or what a selector says of that."""

from qmgrd.core import entry as entries
from qmgrd.core import keys, lane
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.job import DONE, MORE, Job, Step
from qmgrd.core.job_slice import next_rows
from qmgrd.core.kv import Now, Transaction
from qmgrd.core.queue import Queue
from qmgrd.core.selection import Selection, selection, value_of
from qmgrd.core.take import is_there


def step(context: Context, catalogue: Catalogue, job: Job) -> Step:
    """Remove a slice; a queue that is deleted meanwhile has nothing left to purge."""
    row, queue = job.row, catalogue.by_id.get(job.row["queue_id"])
    if queue is None:
        return DONE
    wanted = selection(queue, row["where"], b"", b"")
    found, last = next_rows(context, job, keys.lane(queue.id, keys.LANE_READY))
    context.touch(queue)
    for key, value in found:
        arrival = keys.place(key)[1]
        if arrival >= row["before"] or queue.is_lost(entries.decode(value), arrival):
            continue
        job.count("examined")
        if arrival in queue.leases:
            job.count("skipped")
        elif wanted.selector is None or _matches(
            queue, context.tx, context.now, wanted, key, value
        ):
            lane.remove(queue, context.tx, key, value)
            queue.counters.purged += 1
            job.count("done")
            if row["done"] == row["messages_max"]:
                return DONE
    return DONE if last else MORE


def _matches(
    queue: Queue, tx: Transaction, now: Now, wanted: Selection, key: bytes, value: bytes
) -> bool:
    """Return whether the message under *key* is selected; what rotted says nothing, and is not."""
    sound, (priority, arrival) = entries.open_sound(tx, value), keys.place(key)
    if sound is None or not is_there(queue, sound.entry, arrival, now):
        return False
    assert wanted.selector is not None
    return wanted.selector.matches(
        value_of(queue, tx, sound.entry, sound.record, priority, arrival)
    )
