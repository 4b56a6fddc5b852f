"""Reports refused puts to operators."""

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.queue.queue import Queue

LOGGED_EVERY_MS = 60_000
_FULL = (ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_BYTES_FULL, ErrorCode.USER_BYTES_EXHAUSTED)


class FullStore:
    """Logs that the store is full, at most once a minute, and that it has room again.

    No event reports this state, because an event would need room in the store.
    """

    def __init__(self) -> None:
        self._is_logged = False
        self._next_ms = 0

    def log(self, context: Context) -> None:
        """Logs the change if the store became full or has room again in this turn."""
        if context.store_full:
            if context.now.ms >= self._next_ms:
                self._is_logged, self._next_ms = True, context.now.ms + LOGGED_EVERY_MS
                context.note("error", "puts are refused: no room", why=context.store_full)
        elif self._is_logged:
            self._is_logged = False
            context.note("info", "puts are accepted again")


def report_full(
    context: Context, queue: Queue, refused: list[tuple[int, RequestError]], count: int
) -> None:
    """Reports that a queue is full. The next report follows only after the queue had room again."""
    is_full = any(error.code in _FULL for _, error in refused)
    if is_full and not queue.is_full_reported:
        context.event("queue full", queue=queue.name)
    if is_full or len(refused) < count:
        queue.is_full_reported = is_full


def count_refused(
    context: Context, catalogue: Catalogue, name: str, error: RequestError, count: int
) -> None:
    """Counts puts that are refused before they reach their queue. The queue need not exist.

    Args:
        context: The context of the current turn.
        catalogue: The definitions.
        name: The name in the put. Only puts to local queues are counted.
        error: The reason for the refusal.
        count: The number of refused records.
    """
    if error.code in (ErrorCode.PUT_INHIBITED, ErrorCode.STORE_FULL) and name in catalogue.queues:
        queue = catalogue.storing_queue(name)
        queue.counters.count_refused(count)
        context.dirty_queues[queue.id] = queue
