"""What operators are told of puts that are refused."""

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.queue import Queue


def tell_full(
    context: Context, queue: Queue, refused: list[tuple[int, RequestError]], count: int
) -> None:
    """Have operators know of a queue that is full, once until there is room again."""
    is_full = any(
        error.code in (ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_BYTES_FULL) for _, error in refused
    )
    if is_full and not queue.told_full:
        context.event("queue full", queue=queue.name)
    if is_full or len(refused) < count:
        queue.told_full = is_full


def count_refused(
    context: Context, catalogue: Catalogue, name: str, error: RequestError, count: int
) -> None:
    """Count puts that are refused before their queue has seen them, though it is there.

    Args:
        context: of this turn.
        catalogue: what is defined here.
        name: what they were put on; what only passes through here is no queue, and not counted.
        error: why.
        count: how many.
    """
    if error.code in (ErrorCode.PUT_INHIBITED, ErrorCode.STORE_FULL) and name in catalogue.queues:
        queue = catalogue.keeper(name)
        queue.counters.refused += count
        context.dirty_queues[queue.id] = queue
