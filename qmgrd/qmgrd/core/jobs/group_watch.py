"""Looks at all groups of a queue: what is due of each, and which of them have to leave it.

Nothing else looks at an idle group. This job does if a change of the queue's settings moves the
groups' deadlines. It also runs if more groups have to leave than may at once (ENDING_MAX).
"""

from collections.abc import Collection

from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import DONE, MORE, SLICE_ROWS, Job, JobStep
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.group.groups import ROWS_OF_A_GROUP
from qmgrd.core.queue.group.row import GroupRow

ENDING_MAX = 100  # groups of all queues that may leave at the same time, each by a job
FULL_MS = 1_000  # until the next try if as many leave already


def step(
    context: Context, catalogue: Catalogue, job: Job, ending: Collection[tuple[int, bytes]]
) -> JobStep:
    """Looks at a slice of the groups. *ending* are the groups that leave, by queue id."""
    queue = catalogue.by_id.get(job.row["queue_id"])
    if queue is None:
        return DONE
    prefix = keys.of_queue(keys.SPACE_GROUP_ROW, queue.id)
    left = min(SLICE_ROWS, context.turn_rows) // ROWS_OF_A_GROUP + 1
    free = ENDING_MAX - len(ending)
    context.mark_changed(queue)
    for key, value in context.tx.scan(max(job.row["cursor"], prefix), keys.after(prefix)):
        if not left:
            return MORE
        left -= 1
        context.count_read(1, 0)
        group_id = key[keys.GROUP_ID_AT :]
        try:
            row = GroupRow.decode(rows.unseal(key, value, queue.name))
        except rows.NONSENSE:
            continue  # Its next use reports the damage.
        if row.must_end and (queue.id, group_id) not in ending:
            if not free:
                job.row["cursor"] = key
                text = f"{len(ending)} groups leave already"
                return JobStep("waiting", text, context.now.ms + FULL_MS)
            free -= 1
        queue.groups.mark_changed(group_id)
        job.row["cursor"] = key + b"\0"
        job.count("examined")
    if not job.row["again"]:
        return DONE
    job.row["again"], job.row["cursor"] = False, b""
    return MORE
