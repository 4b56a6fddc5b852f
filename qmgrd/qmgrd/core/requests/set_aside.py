"""Sets aside work that failed twice, and retries or drops it at an operator's request."""

from itertools import islice

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.context.aside import Item, queue_id_of
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.limits.work import WorkId
from qmgrd.core.queue import lane
from qmgrd.core.queue.queue import Queue
from qmgrd.core.requests.services import Services

LOOKED_AT_MAX = 10_000  # maximum number of messages of a queue that are searched for damaged ones
RESTART = "read at the next start"  # the time of the retry for a row that only a start reads


def set_aside(parts: Services, work: WorkId, why: str, *, is_mark: bool) -> None:
    """Sets *work* aside in a turn that does no other work.

    Args:
        parts: The parts of the queue manager whose turn is open.
        work: The work that failed too often.
        why: The reason for its last failure.
        is_mark: Whether to only mark the work, so that later turns skip it.
    """
    context = parts.context
    if work.kind == "due" and isinstance(work.key, bytes):
        context.aside.move(context, "due", work.key, why)
        context.schedule.load(context.tx)
        return
    if not is_mark and _remove_cause(parts, work, why):
        return
    context.aside.add(context, work, described(parts, work), why)


def _remove_cause(parts: Services, work: WorkId, why: str) -> bool:
    """Sets aside the message or job that makes *work* fail.

    Returns whether that makes a mark needless.
    """
    if work.kind == "job" and isinstance(work.key, int):
        parts.jobs.set_aside(work.key, why)
    elif work.kind == "message" and isinstance(work.key, bytes):
        queue = _queue_of(parts, work.key)
        value = parts.context.tx.get(work.key)
        if queue is not None and value is not None:
            lane.set_aside(queue, parts.context.tx, work.key, value)
            parts.context.mark_changed(queue)
    elif work.kind == "queue" and (queue := parts.catalogue.by_id.get(int(work.key))):
        return _set_aside_damaged(parts, queue)
    return False


def _set_aside_damaged(parts: Services, queue: Queue) -> bool:
    """Sets aside the unreadable messages of *queue*. Returns whether any were found."""
    context, count, left = parts.context, 0, LOOKED_AT_MAX
    for lane_ in keys.LANES_READY:
        prefix = keys.lane(queue.id, lane_)
        found = list(islice(context.tx.scan(prefix, keys.after(prefix)), left))
        left -= len(found)
        for key, value in found:
            if not _is_readable(parts, value):
                lane.set_aside(queue, context.tx, key, value)
                count += 1
    if count:
        context.mark_changed(queue)
        context.note("error", "damaged messages set aside", queue=queue.name, count=count)
    return count > 0


def _is_readable(parts: Services, value: bytes) -> bool:
    try:
        return entries.open_sound(parts.context.tx, value) is not None
    except rows.NONSENSE:
        return False


def _queue_of(parts: Services, key: bytes) -> Queue | None:
    return parts.catalogue.by_id.get(int.from_bytes(key[keys.QUEUE_ID], "big"))


def described(parts: Services, work: WorkId) -> str:
    """Returns a description of *work*."""
    by_id = parts.catalogue.by_id
    if work.kind in ("queue", "groups"):
        queue = by_id.get(int(work.key))
        what = "delivery from" if work.kind == "queue" else "the groups of"
        return f"{what} queue {queue.name if queue else int(work.key)}"
    if work.kind == "message" and isinstance(work.key, bytes):
        queue = _queue_of(parts, work.key)
        return f"message {keys.place(work.key)[1]} of queue {queue.name if queue else '?'}"
    if work.kind == "job":
        job = parts.jobs.running.get(int(work.key))
        return f"job {int(work.key)}" + (
            f", {job.row['kind']} of {job.row['queue']}" if job else ""
        )
    return _PHRASES.get(work.kind, "{}").format(work.shown_key or work.kind)


_PHRASES = {
    "link": "sending over link {}",
    "subscription": "the end of subscription {}",
    "unused": "the end of unused {}",
    "fan-out": "distributing publications, batch and queue id {}",
    "publication": "publication {}",
    "timer": "timer {}",
    "events": "writing {}",
    "history": "writing {}",
}


def retry(parts: Services, number: int) -> tuple[Item, str]:
    """Retries the work of an item. Returns the item and the time of the retry.

    Raises:
        RequestError: ASIDE_UNKNOWN, or VALUE_INVALID if the item cannot be retried.
    """
    context = parts.context
    item = context.aside.find(number)
    if item.work.kind == "message":
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"item {number}: {item.what} is one of the damaged messages of its queue and cannot be "
            f"retried; delete the item instead",
        )
    context.aside.restore(context, number)
    if item.work.kind == "job":
        parts.jobs.resume(int(item.work.key))
    context.schedule.load(context.tx)
    for queue in parts.catalogue.by_id.values():
        context.wake(queue)
    return item, RESTART if item.work.kind == "row" else "at once"


def drop(parts: Services, number: int) -> Item:
    """Deletes an item with its row or job, and returns the item.

    Raises:
        RequestError: ASIDE_UNKNOWN, or VALUE_INVALID if the queue manager needs the work.
    """
    context, item = parts.context, parts.context.aside.find(number)
    kind, key = item.work
    if kind == "job":
        parts.jobs.give_up(int(key))
    elif kind not in ("row", "due", "message"):
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"item {number}, {item.what}, has no row or job to delete; leave it "
            "set aside, or retry it",
        )
    elif isinstance(key, bytes):
        _drop_messages(parts, item, key)
    return context.aside.remove(context, number)


def _drop_messages(parts: Services, item: Item, key: bytes) -> None:
    """Deletes the messages of a queue whose definition or counters are dropped."""
    queue_id = 0
    if key[keys.SPACE] == keys.SPACE_COUNTERS:
        queue_id = int.from_bytes(key[keys.REST], "big")
    elif key[keys.SPACE] == keys.SPACE_QUEUE:
        queue_id = queue_id_of(item)
    counters = keys.of_queue(keys.SPACE_COUNTERS, queue_id)
    is_counted = parts.context.tx.get(counters) is not None or key == counters
    if queue_id and is_counted and queue_id not in parts.catalogue.by_id:
        parts.jobs.start("drop", queue=item.what, queue_id=queue_id)
