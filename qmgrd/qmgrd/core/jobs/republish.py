"""Republishes parked publications: delivers them again to the subscribers that failed on them.

    selected, its subscriber is connected  sent, counted as done: one transaction adds the copy
                                           and removes the subscriber from the list
    its subscriber is away                 stays on the list until the subscriber returns: counted
                                           as skipped (one that polls returns with its next get)
    its subscription is full               stays, counted as stayed

A republish job works like a move. Its cursor is a row of the index of parked messages, so the cost
of a slice depends only on the messages found. A job ignores publications that were parked after it
began. Therefore, a copy that fails again is not sent endlessly.
"""

from collections.abc import Iterator
from itertools import islice

from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.republish_intervals import SCHEDULED
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import DONE, MORE, SLICE_ROWS, Job, JobStep
from qmgrd.core.jobs.move import paced
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue import notes
from qmgrd.core.queue.facts import MessageFacts
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import compiled
from qmgrd.core.returns import parked
from qmgrd.core.returns.parked import Parked
from qmgrd.core.selector.selector import Selector

RATE_SLICES = 10  # number of slices per second of a job with a rate
# The reasons why the daemon starts a job, in addition to SCHEDULED.
HEALTHY, RETURNED = "healthy", "returned"


def step(context: Context, catalogue: Catalogue, job: Job) -> JobStep:
    """Republishes or drops a slice of the parked messages."""
    if job.paced_ms > context.now.ms:
        return JobStep(wake_ms=-int(-job.paced_ms // 1))
    before = job.row["done"]
    return paced(context, job, _slice(context, catalogue, job), job.row["done"] - before)


def _slice(context: Context, catalogue: Catalogue, job: Job) -> JobStep:
    row, rate = job.row, job.row["rate"]
    left = max(rate // RATE_SLICES, 1) if rate else context.turn_rows
    looked_at = min(SLICE_ROWS, context.slice_rows)
    selector = selector_of(job.row["where"])
    for found in list(_next(context, catalogue, job, looked_at)):
        row["cursor"] = found.row + b"\0"
        looked_at -= 1
        queue = catalogue.by_id.get(found.queue_id)
        if queue is None or not _is_in_scope(context, catalogue, job, queue, found):
            continue
        left -= _one(context, catalogue, job, queue, found, selector)
        if row["done"] and row["done"] == row["messages_max"]:
            return DONE._replace(text=job.stayed_text())
        if left <= 0 or not job.may_put_more:
            return MORE
    return DONE._replace(text=job.stayed_text()) if looked_at > 0 else MORE


def _next(context: Context, catalogue: Catalogue, job: Job, count: int) -> Iterator[Parked]:
    """Yields the next *count* parked messages that may be in the scope of the job."""
    context.count_read(1, 0)
    for found in islice(_from_cursor(context, catalogue, job), count):
        context.count_read(1, 0)
        yield found


def _from_cursor(context: Context, catalogue: Catalogue, job: Job) -> Iterator[Parked]:
    """Yields parked messages from the cursor of *job*, for one subscription or for all."""
    row, cursor = job.row, job.row["cursor"]
    names = row.get("subscriptions", ())
    if len(names) == 1 and not row.get("arrival"):
        found = catalogue.topics.subscriptions.get(names[0])
        if found is None or found.queue is None:
            return iter(())
        after = keys.PARKED.unpack_from(cursor)[1] + 1 if cursor else 0
        return parked.of_subscription(context.tx, found.queue.id, after)
    start, stop = bounds_of(row.get("arrival", 0))
    return parked.index(context.tx, max(start, cursor), stop)


def bounds_of(arrival: int) -> tuple[bytes, bytes]:
    """Returns the bounds of a publication's rows in the index.

    Publication 0 means all publications.
    """
    start = keys.SPACE_PARKED + (arrival.to_bytes(8, "big") if arrival else b"")
    return start, keys.after(start)


def _is_in_scope(
    context: Context, catalogue: Catalogue, job: Job, queue: Queue, found: Parked
) -> bool:
    """Returns whether *found* is in the scope of *job*, before the selector is applied."""
    row = job.row
    if row.get("subscriptions") and queue.name not in row["subscriptions"]:
        return False
    if row["target"] in (SCHEDULED, HEALTHY):
        value = context.tx.get(keys.publication(found.arrival))
        topic = "" if value is None else entries.decode(value).target
        in_force, interval = catalogue.topics.in_force(topic), row.get("interval")
        if interval and in_force["republish_interval_ms"] != interval:
            return False
        return bool(in_force["republish"] == row["target"])
    return True


def _one(
    context: Context,
    catalogue: Catalogue,
    job: Job,
    queue: Queue,
    found: Parked,
    selector: Selector | None,
) -> bool:
    """Sends, drops or keeps a parked message. Returns whether the message left."""
    value = context.tx.get(found.key)
    if value is None:
        return False
    entry, note = entries.decode(value), notes.read(context.tx, queue.id, found.arrival)
    turn = note.get("turn")
    if type(turn) is int and turn > job.row["before"]:
        return False
    if job.row["target"] == RETURNED and not entry.flags & entries.AWAITED:
        return False
    job.count("examined")
    if selector is not None and not selector.matches(
        facts_of(context, queue, found, entry, note).value_of
    ):
        return False
    if job.row["kind"] == "republish-drop":
        parked.drop(context, queue, found.key, value)
    elif not queue.waiting and job.row["target"] not in (RETURNED, HEALTHY):
        parked.await_(context, found.key, value)
        catalogue.topics.awaited.add(queue.id)
        job.count("skipped")
        return False
    elif not parked.send(context, queue, found.key, value):
        if entry.flags & entries.AWAITED:
            # The subscription may have room once the subscriber returns.
            catalogue.topics.awaited.add(queue.id)
        job.count_stayed(f"subscription {queue.name} is full")
        return False
    else:
        job.count_put(entries.record_bytes(entry))
    job.count("done")
    what = "parked publication dropped" if "drop" in job.row["kind"] else "republished"
    context.event(what, subscription=queue.name, job=job.id, by=job.row["by"])
    return True


def facts_of(
    context: Context, queue: Queue, found: Parked, entry: entries.Entry, note: notes.Note
) -> MessageFacts:
    """Returns the properties of a parked message that a selector may use."""
    held = entries.publication(context.tx, entry)
    extra = parked.facts_of(note, held.target, queue.name)
    record = entries.outlined(context.tx, held, entries.OUTLINE_ABOVE_BYTES)
    context.count_read(1 + entries.body_rows(held), 0)
    priority = keys.place(found.key)[0]
    return MessageFacts(record, priority, entry.delivered, entry.failed, entry.put_us, extra)


def selector_of(where: str) -> Selector | None:
    """Returns the compiled selector *where*, or None if *where* is empty and selects all messages.

    Raises:
        RequestError: SELECTOR_INVALID.
    """
    return compiled(where) if where else None
