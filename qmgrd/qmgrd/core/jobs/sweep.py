"""The job that removes the messages that a restart lost because they were not persistent.

The arrival numbers of lost messages form a range. Members of groups are removed first, because the
complete groups are unknown until then.
"""

from itertools import islice

from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import DONE, MORE, SLICE_ROWS, Job, JobStep
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue import lane

LANES = (keys.LANE_GROUPED, keys.LANE_READY, keys.LANE_DELAYED)


def step(context: Context, catalogue: Catalogue, job: Job) -> JobStep:
    """Removes a slice of the messages.

    The cursor has a byte for each finished lane and priority.
    """
    queue = catalogue.by_id.get(job.row["queue_id"])
    if queue is None:
        return DONE
    context.mark_changed(queue)  # Removing lost members changes their groups.
    left = min(SLICE_ROWS, context.slice_rows)
    rows_max = context.rows + 4 * left
    tx, first, before = context.tx, job.row["first"], job.row["before"]
    for number in range(len(job.row["cursor"]), len(LANES) * (keys.PRIORITY_TOP + 1)):
        at, priority = divmod(number, keys.PRIORITY_TOP + 1)
        lane_ = LANES[at]
        start = keys.message(queue.id, lane_, priority, max(first, job.row.get("at", 0)))
        found = list(islice(tx.scan(start, keys.message(queue.id, lane_, priority, before)), left))
        for key, value in found:
            job.count("examined")
            if entries.decode(value).volatile:
                lane.lose(queue, tx, key, value)
                context.mark_changed(queue)
                job.count("done")
            context.count_read(1, 0)
            job.row["at"] = keys.place(key)[1] + 1
            if context.rows >= rows_max:
                return MORE  # Long messages have many rows.
        left -= len(found)
        if not left:
            return MORE
        job.row["cursor"], job.row["at"] = bytes(number + 1), 0
    queue.groups.end_sweep()
    return DONE
