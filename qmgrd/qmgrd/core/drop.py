"""What a deleted queue left is removed, in the order of keys, as the cursor goes."""

from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.job import DONE, MORE, Job, Step
from qmgrd.core.job_slice import next_rows

# All that a queue has, but for its rows in the schedule, which find nothing when they are due.
_OF_A_QUEUE = (
    keys.SPACE_COUNTERS, keys.SPACE_MESSAGE, keys.SPACE_UID, keys.SPACE_ORIGIN,
    keys.SPACE_CORRELATION, keys.SPACE_GROUP, keys.SPACE_NOTE, keys.SPACE_GROUP_ROW,
    keys.SPACE_CHAIN,
)  # fmt: skip


def step(context: Context, catalogue: Catalogue, job: Job) -> Step:
    """Remove a slice."""
    tx = context.tx
    for space in _OF_A_QUEUE:
        found, _ = next_rows(context, job, keys.of_queue(space, job.row["queue_id"]))
        for key, value in found:
            if space == keys.SPACE_MESSAGE:
                entry, arrival = entries.decode(value), keys.place(key)[1]
                if job.row.get("holds"):
                    catalogue.holders.release(arrival)
                    if key[keys.POSITION_AT] == keys.LANE_PARKED:
                        tx.delete(keys.parked(arrival, job.row["queue_id"]))
                entries.delete_rows(tx, entry)
                job.count("examined")
                job.count("done")
            tx.delete(key)
        if found:
            return MORE
    return DONE
