"""Puts of clients, and puts that the daemon makes for a client, such as reports.

Both use the same function, so the daemon does nothing for a client that the client could not do.
"""

from typing import TypeAlias

from qmgr_protocol.errors import RequestError
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context import overflow
from qmgrd.core.context.context import Context
from qmgrd.core.puts.refused_puts import count_refused, tell_full
from qmgrd.core.queue.put import Put
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters

# The queue, the topic of a publication, and the result for each record.
Stored: TypeAlias = tuple[Queue, str, Put]


def store(
    context: Context, catalogue: Catalogue, dead_letters: DeadLetters, name: str, batch: list[bytes]
) -> Stored:
    """Puts *batch* on the queue or topic *name*; counts refusals and reports them to operators.

    Raises:
        RequestError: why none of *batch* could be put: STORE_FULL, or a code of
            :meth:`Catalogue.destination`.
    """
    count = len(batch)
    try:
        queue, target = catalogue.destination(name)
        fitting = context.fitting(batch, evicts=queue.bounds.overflow != "refuse")
        if fitting < count:
            batch = batch[:fitting]
        context.reserve(batch)
        if queue.is_publications:  # The whole batch, and the copies that go over links.
            context.reserve(batch * len(catalogue.topics.proxies_of(target)))
    except RequestError as error:
        count_refused(context, catalogue, name, error, count)
        raise
    done = overflow.put(context, dead_letters, queue, batch, target)
    if fitting < count:
        done.refused.extend((index, context.no_pages()) for index in range(fitting, count))
    if done.refused or queue.told_full:
        tell_full(context, queue, done.refused, count)
    context.rows += done.rows
    context.touch(queue)
    return queue, target, done
