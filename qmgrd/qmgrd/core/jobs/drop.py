"""Removes the rows of a deleted queue, in the order of the keys."""

from typing import Any

from qmgr_protocol import history
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import DONE, MORE, Job, JobStep
from qmgrd.core.jobs.slice import next_rows
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue.queue import Queue

# All rows of a queue except its rows in the schedule. Those refer to no message when they are due.
_OF_A_QUEUE = (
    keys.SPACE_COUNTERS,
    keys.SPACE_MESSAGE,
    keys.SPACE_UID,
    keys.SPACE_ORIGIN,
    keys.SPACE_CORRELATION,
    keys.SPACE_GROUP,
    keys.SPACE_NOTE,
    keys.SPACE_GROUP_ROW,
    keys.SPACE_CHAIN,
    keys.SPACE_COMPLETE,
)


def facts_of(queue: Queue) -> dict[str, Any]:
    """Returns the data about *queue* that the job needs after the queue is deleted."""
    return {"queue": queue.name, "queue_id": queue.id, "accounts": queue.account is not None}


def step(context: Context, catalogue: Catalogue, job: Job) -> JobStep:
    """Removes a slice of the rows."""
    tx, row, code = context.tx, job.row, int(ErrorCode.QUEUE_DELETED)
    accounts = row.get("accounts")
    account = context.history.account(row["queue"], row["queue_id"]) if accounts else None
    for space in _OF_A_QUEUE:
        found, _ = next_rows(context, job, keys.of_queue(space, job.row["queue_id"]))
        for key, value in found:
            if space == keys.SPACE_MESSAGE:
                entry, arrival = entries.decode(value), keys.place(key)[1]
                if job.row.get("holds"):
                    catalogue.references.remove(arrival)
                    if key[keys.POSITION_AT] == keys.LANE_PARKED:
                        tx.delete(keys.parked(arrival, job.row["queue_id"]))
                entries.delete_rows(tx, entry)
                if account is not None:
                    account.entry(history.REMOVED, key, entry, code=code)
                job.count("examined")
                job.count("done")
            tx.delete(key)
        if found:
            return MORE
    return DONE
