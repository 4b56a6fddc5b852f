"""Puts of clients, and puts on behalf of clients, such as reports.

Both use the same function. Therefore, the daemon cannot do for a client what the client may not do.
"""

from typing import TypeAlias

from qmgr_protocol.errors import RequestError
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.context.put_records import put_records
from qmgrd.core.puts.refusal_reports import count_refused, report_full
from qmgrd.core.queue.put import PutOutcome
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters

# The queue, the topic of a publication, and the result of each record.
Stored: TypeAlias = tuple[Queue, str, PutOutcome]


def store(
    context: Context, catalogue: Catalogue, dead_letters: DeadLetters, name: str, batch: list[bytes]
) -> Stored:
    """Puts *batch* on the queue or topic *name*. Counts refused puts and reports them to operators.

    Raises:
        RequestError: No message of *batch* can be put. The codes are those of
            :meth:`Catalogue.destination` and STORE_FULL.
    """
    try:
        queue, target = catalogue.destination(name)
    except RequestError as error:
        count_refused(context, catalogue, name, error, len(batch))
        raise
    return queue, target, store_on(context, catalogue, dead_letters, queue, target, batch)


def store_on(
    context: Context,
    catalogue: Catalogue,
    dead_letters: DeadLetters,
    queue: Queue,
    target: str,
    batch: list[bytes],
) -> PutOutcome:
    """Puts *batch* on *queue*, a result of :meth:`Catalogue.destination`, like :func:`store`.

    Args:
        context: The context of the current turn.
        catalogue: The definitions.
        dead_letters: The dead letters of the queue manager.
        queue: The queue that stores the records.
        target: The destination behind a transmission queue, or the topic.
        batch: The records, with or without UIDs.

    Raises:
        RequestError: STORE_FULL.
    """
    count = len(batch)
    fitting = context.count_fitting(batch, evicts=queue.bounds.overflow != "refuse")
    if fitting < count:
        batch = batch[:fitting]
    try:
        context.reserve(batch)
        if queue.is_publications:  # The reservation includes all copies that links forward.
            context.reserve(batch * len(catalogue.topics.proxies_of(target)))
    except RequestError:
        queue.counters.count_refused(count)
        context.dirty_queues[queue.id] = queue
        raise
    done = put_records(context, dead_letters.make_dead_letter, queue, batch, target)
    if fitting < count:
        done.refused.extend(
            (index, context.too_few_pages_error()) for index in range(fitting, count)
        )
    if done.refused or queue.is_full_reported:
        report_full(context, queue, done.refused, count)
    context.mark_changed(queue)
    return done
