"""Examines all groups of a queue. Finds work that is due and groups that have to leave.

No other code examines an idle group. The job runs if a change of the queue's settings moves the
deadlines of groups. The job also runs if more groups have to leave than may leave at the same time
(ENDING_MAX).
"""

from collections.abc import Collection

from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import DONE, MORE, SLICE_ROWS, Job, JobStep
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.group.groups import ROWS_OF_A_GROUP
from qmgrd.core.queue.group.row import GroupRow

# Maximum number of groups of all queues that leave at the same time, with one job each.
ENDING_MAX = 100
FULL_MS = 1_000  # time until the next attempt if the maximum number of groups is leaving


def step(
    context: Context, catalogue: Catalogue, job: Job, ending: Collection[tuple[int, bytes]]
) -> JobStep:
    """Examines a slice of the groups.

    *ending* contains the groups that are leaving, by queue id.
    """
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
            continue  # The damage is reported when the group is used next.
        if row.must_end and (queue.id, group_id) not in ending:
            if not free:
                job.row["cursor"] = key
                text = f"{len(ending)} groups are already leaving"
                return JobStep("waiting", text, context.now.ms + FULL_MS)
            free -= 1
        queue.groups.mark_changed(group_id)
        job.row["cursor"] = key + b"\0"
        job.count("examined")
    if not job.row["again"]:
        return DONE
    job.row["again"], job.row["cursor"] = False, b""
    return MORE
