"""Adds a batch of publications to a subscription, as references under the publications' numbers.

Plain publications pass through one tight loop if the subscription has room for all of them. Other
publications are checked one by one for selection, room, expiry, delay and group.
"""

from typing import NamedTuple

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from qmgr_protocol.topic import levels_of
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.subscription import Subscription
from qmgrd.core.context.context import Context
from qmgrd.core.context.eviction import make_room
from qmgrd.core.layout import entry as entries
from qmgrd.core.queue import lane
from qmgrd.core.queue.facts import MessageFacts
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import ROW_STEPS
from qmgrd.core.returns.dead_letters import DeadLetters

_ROWS_EACH = 2
_PLAIN_FLAGS = entries.INLINE | entries.IN_ROWS | entries.NOTED


class Publication(NamedTuple):
    """A publication that is being sent to subscriptions."""

    arrival: int
    entry: entries.Entry
    front: bytes  # the first bytes of the record
    trailer: bytes  # encoded UID of the record
    size: int  # size of the record in bytes
    reference: bytes  # the entry that a plain publication has on a subscription
    is_plain: bool


def publication_of(context: Context, arrival: int, value: bytes) -> Publication | None:
    """Returns a stored publication for the fan-out, or None if it is damaged or has no topic."""
    entry = entries.decode(value)
    if entry.flags == entries.UNREADABLE:
        return None
    try:
        levels_of(entry.target)  # The results of this function are cached.
    except RequestError:
        return None
    front, trailer = entries.front(context.tx, entry), entries.uid_trailer(entry)
    if len(front) < records.HEAD_BYTES:
        return None
    size = entries.record_bytes(entry)
    is_plain = (
        not entry.flags & ~_PLAIN_FLAGS
        and not (entry.expires_ms or entry.due_ms)
        and not (front[records.CORRELATION_LENGTH_AT] or front[records.GROUP_FLAGS_AT])
        and not front[records.FLAGS_AT] & records.FLAG_NOT_PERSISTENT
    )
    reference = entries.reference(entry.put_us, size, trailer)
    return Publication(arrival, entry, front, trailer, size, reference, is_plain)


def put_publications(
    context: Context,
    catalogue: Catalogue,
    dead_letters: DeadLetters,
    subscription: Subscription,
    part: list[Publication],
    *,
    is_late: bool = False,
) -> None:
    """Adds references to the matching publications in *part* to *subscription*.

    Args:
        is_late: Whether the publications were retained, and published before the subscription
            began.
    """
    queue, first = subscription.queue, 0 if is_late else subscription.first
    assert queue is not None, "proxies have no queue"
    if part[0].arrival < first:
        part = [publication for publication in part if publication.arrival >= first]
    if subscription.selector is not None:
        part = [one for one in part if is_selected(context, subscription, one)]
    if not part:
        return
    context.dirty_queues[queue.id] = queue
    if queue.waiting:
        context.wake(queue)
    if subscription.is_suspended or subscription.is_refused:
        why = "suspended" if subscription.is_suspended else "its owner may not subscribe"
        queue.counters.count_missed(len(part))
        context.event("publication missed", len(part), subscription=queue.name, why=why)
        return
    size = sum(publication.size for publication in part)
    is_plain = not (queue.bounds.expiry_max_ms or is_late) and all(one.is_plain for one in part)
    if is_plain and queue.has_room(len(part), size):
        _put_plain_publications(context, catalogue, queue, part, size)
        return
    _put_each(context, catalogue, dead_letters, subscription, part)


def _put_each(
    context: Context,
    catalogue: Catalogue,
    dead_letters: DeadLetters,
    subscription: Subscription,
    part: list[Publication],
) -> None:
    """Adds those publications of *part* for which *subscription* has room, one by one."""
    queue = subscription.queue
    assert queue is not None, "proxies have no queue"
    for at, publication in enumerate(part):
        is_volatile = publication.front[records.FLAGS_AT] & records.FLAG_NOT_PERSISTENT
        if is_volatile and publication.arrival < queue.origins.born:
            # The restart lost the publication and the references that were added before it.
            continue
        if not _has_room(context, dead_letters, queue, publication):
            if queue.bounds.overflow == "suspend":
                _suspend(context, catalogue, subscription, len(part) - at)
                return
            queue.counters.count_missed()
            context.event("publication missed", subscription=queue.name, why="full")
            continue
        add(context, catalogue, queue, publication)


def _put_plain_publications(
    context: Context, catalogue: Catalogue, queue: Queue, part: list[Publication], size: int
) -> None:
    prefixes, default = queue.positions.prefixes, queue.bounds.priority_default
    changes = catalogue.references.changes
    pairs = []
    for arrival, _, front, _, _, reference, _ in part:
        priority = (
            default
            if front[records.FLAGS_AT] & records.FLAG_PRIORITY_OF_QUEUE
            else front[records.PRIORITY_AT]
        )
        pairs.append((prefixes[priority] + arrival.to_bytes(8, "big"), reference))
        changes[arrival] = changes.get(arrival, 0) + 1
    context.tx.put_all(pairs)
    if queue.account is not None:
        for key, reference in pairs:
            queue.account.entry(history.PUT, key, entries.decode(reference))
    queue.counters.skip_arrivals(part[-1].arrival + 1)
    queue.counters.put_batch(len(part), size)
    context.count_read(len(part), 0)


def add(context: Context, catalogue: Catalogue, queue: Queue, publication: Publication) -> None:
    """Stores a reference to *publication* on the subscription whose queue is *queue*."""
    arrival, entry, front, trailer, size, _, _ = publication
    expires_ms, cap_ms = entry.expires_ms, queue.bounds.expiry_max_ms
    if cap_ms:
        expires_ms = min(expires_ms or records.EXPIRY_END, context.now.ms + cap_ms)
    flags = entries.SHARED
    if front[records.FLAGS_AT] & records.FLAG_NOT_PERSISTENT:
        flags |= entries.VOLATILE
    reference = entries.Entry(
        flags,
        0,
        0,
        0,
        entry.put_us,
        expires_ms,
        entry.due_ms,
        "",
        entries.rest_of_reference(size, trailer),
    )
    priority = front[records.PRIORITY_AT]
    if front[records.FLAGS_AT] & records.FLAG_PRIORITY_OF_QUEUE:
        priority = queue.bounds.priority_default
    lane.add(queue, context.tx, reference, front, trailer, priority, arrival)
    queue.record_arrival(history.PUT, priority, arrival, reference)
    queue.counters.skip_arrivals(arrival + 1)
    queue.counters.count_put(is_fast=True)
    catalogue.references.add(arrival)
    context.count_read(_ROWS_EACH, 0)
    context.mark_changed(queue)


def _has_room(
    context: Context, dead_letters: DeadLetters, queue: Queue, publication: Publication
) -> bool:
    """Returns whether *queue* has room for *publication*, after evictions if they are allowed."""
    if queue.has_room(1, publication.size):
        return True
    if queue.bounds.overflow in ("discard-newest", "suspend"):
        return False
    make_room(context, dead_letters.make_dead_letter, queue, 1, publication.size)
    return queue.has_room(1, publication.size)


def _suspend(
    context: Context, catalogue: Catalogue, subscription: Subscription, missed: int
) -> None:
    """Suspends the full *subscription* until it is reported to be healthy."""
    assert subscription.queue is not None, "proxies are not suspended"
    subscription.queue.counters.count_missed(missed)
    catalogue.store_row(subscription.name, subscription.row | {"suspended": True})
    context.event("subscription suspended", subscription=subscription.name)
    context.note("warning", "subscription suspended", subscription=subscription.name, why="full")


def is_selected(context: Context, subscription: Subscription, publication: Publication) -> bool:
    """Returns whether the selector of *subscription* matches *publication*."""
    selector, entry, queue = subscription.selector, publication.entry, subscription.queue
    assert selector is not None, "only subscriptions with a selector get here"
    priority = publication.front[records.PRIORITY_AT]
    if queue is not None and publication.front[records.FLAGS_AT] & records.FLAG_PRIORITY_OF_QUEUE:
        priority = queue.bounds.priority_default
    extra = {"topic": entry.target, "subscription": subscription.name}
    record = entries.outlined(context.tx, entry, entries.OUTLINE_ABOVE_BYTES)
    steps = selector.steps(publication.size, records.envelope_bytes(publication.front))
    context.count_read(1 + entries.body_rows(entry) + steps // ROW_STEPS, 0)
    return selector.matches(MessageFacts(record, priority, 0, 0, entry.put_us, extra).value_of)
