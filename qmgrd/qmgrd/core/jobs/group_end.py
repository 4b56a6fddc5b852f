"""Removes from its queue a group that cannot be consumed, member by member in order.

    a member failed too often ──▶ parked ──▶ the group is complete or was closed ──▶ backout queue
    incomplete for too long ─────────────────────────────────────────▶ discarded, or dead letters

The removal is a job because a group may have any number of members. The job waits for leased
members.
"""

from itertools import islice

from qmgr_protocol import history
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import DONE, MORE, SLICE_ROWS, Job, JobStep
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue import lane
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.core.queue.notes import Cause
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters

LEASED_MS = 1_000  # time until the next attempt if a member is leased
NO_PLACE_MS = 10_000  # time until the next attempt if no queue accepts the members
ROWS_EACH = 8


def step(context: Context, catalogue: Catalogue, job: Job) -> JobStep:
    """Removes a slice of a group from its queue."""
    queue = catalogue.by_id.get(job.row["queue_id"])
    if queue is None:
        return DONE
    group_id = job.row["group"]
    row = queue.groups.row(context.tx, group_id)
    if row is None or not row.parked_number:
        return DONE._replace(text="the group was removed, or continues")
    prefix = group_index.prefix_of(queue.id, group_id)
    is_first = not job.row["cursor"]
    found = group_index.under(context.tx, prefix, job.row["cursor"])
    count = min(SLICE_ROWS, context.turn_rows) // ROWS_EACH + 1
    members = list(islice(found, count))
    context.mark_changed(queue)
    for key, position in members:
        why = _end(context, catalogue, job, queue, row, key, position)
        if why is not None:
            return why
        job.count("examined")
        job.count("done")
        job.row["cursor"] = key + b"\0"
    if len(members) == count:
        return MORE
    if not row.is_empty and (members or not is_first):
        job.row["cursor"] = b""  # More members with lower numbers arrived.
        return MORE
    queue.groups.end(context.tx, group_id, row)
    return DONE


def _end(
    context: Context,
    catalogue: Catalogue,
    job: Job,
    queue: Queue,
    row: GroupRow,
    key: bytes,
    position: bytes,
) -> JobStep | None:
    """Removes a member from its queue. Returns the job's state if the job must retry, else None."""
    number, arrival = keys.number_of(key), keys.arrival_of(position)
    if arrival in queue.leases:
        text = f"number {number} is leased"
        return JobStep("waiting", text, context.now.ms + LEASED_MS)
    entry_key = keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position
    value = context.tx.get(entry_key)
    context.count_read(1, 0)
    if value is None:  # The store is damaged. Only this call corrects the numbers.
        member = Member(key[keys.GROUP_ID], number)
        queue.groups.leave(context.tx, member, position, for_good=False)
        return None
    entry, is_expired = entries.decode(value), row.parked_code == ErrorCode.GROUP_EXPIRED
    if is_expired and queue.bounds.expiry_action == "discard":
        is_lost = queue.is_lost(entry, arrival)  # The message was counted when it was lost.
        lane.remove(queue, context.tx, entry_key, value)
        if is_lost:
            queue.record_history(history.LOST, entry_key, entry)
        else:
            queue.record_history(history.EXPIRED, entry_key, entry, code=row.parked_code)
            queue.counters.count_expired()
        return None
    # A failed member may have become unreadable since then, and its number may have been put again.
    is_cause = is_expired or (number == row.parked_number and entry.delivered)
    cause = Cause(row.parked_code if is_cause else int(ErrorCode.GROUP_FAILED))
    # All members go to one queue. The others follow the first member for which a queue has room.
    to = DeadLetters(context, catalogue).make_dead_letter(
        queue, entry_key, value, cause, job.row["target"]
    )
    if to:
        job.row["target"] = to
        return None
    return JobStep("waiting", "no queue accepts its members", context.now.ms + NO_PLACE_MS)
