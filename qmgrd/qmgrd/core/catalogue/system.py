"""The queues that the queue manager creates for itself, each one at its first use."""

from typing import Any

from qmgr_protocol.errors import ErrorCode, RequestError

PREFIX = "SYSTEM."  # the start of names that only the queue manager may define
DEAD_LETTERS = "SYSTEM.DEAD.LETTERS"
EVENTS = "SYSTEM.EVENTS"
# The queue that stores each publication while a subscription needs it.
PUBLICATIONS = "SYSTEM.PUBLICATIONS"
# The attributes of the system queues. Newer events evict unread ones.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    DEAD_LETTERS: {},
    EVENTS: {"depth_max": 10_000, "overflow": "discard-oldest"},
    PUBLICATIONS: {},
}


def check_free(name: str) -> None:
    """Raises NAME_INVALID if *name* is reserved for the queue manager."""
    if name.startswith(PREFIX) and name not in ATTRIBUTES:
        raise RequestError(
            ErrorCode.NAME_INVALID,
            f"{name}: names that start with {PREFIX} are reserved for the queue manager's own "
            "queues; choose another",
        )


def put_to_system_queue_error(name: str, queue: str) -> RequestError:
    """Returns the error for a put by a client or a link on the system queue *queue*."""
    what = name if name == queue else f"{name} refers to {queue}, which"
    return RequestError(
        ErrorCode.QUEUE_IS_SYSTEM,
        f"{what} accepts messages only from the queue manager; put on another queue",
    )


def check_deletable(name: str) -> None:
    """Raises QUEUE_IS_SYSTEM if the queue manager needs the queue *name*."""
    if name in ATTRIBUTES:
        how = "purge it instead"
        if name == PUBLICATIONS:
            how = "each publication is deleted after its last subscriber"
        raise RequestError(
            ErrorCode.QUEUE_IS_SYSTEM,
            f"{name} cannot be deleted because the queue manager itself needs it; {how}",
        )
