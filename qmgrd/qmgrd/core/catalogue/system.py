"""The queues that the queue manager needs itself. Each is made when it is first used."""

from typing import Any

from qmgr_protocol.errors import ErrorCode, RequestError

PREFIX = "SYSTEM."  # of names that people do not give away
DEAD_LETTERS = "SYSTEM.DEAD.LETTERS"
EVENTS = "SYSTEM.EVENTS"
PUBLICATIONS = "SYSTEM.PUBLICATIONS"  # what is published, as long as somebody holds it
# What each is made with. Events nobody reads make room for newer ones.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    DEAD_LETTERS: {},
    EVENTS: {"depth_max": 10_000, "overflow": "discard-oldest"},
    PUBLICATIONS: {},
}


def check_free(name: str) -> None:
    """Raise NAME_INVALID where *name* is no one's to give but the queue manager's."""
    if name.startswith(PREFIX) and name not in ATTRIBUTES:
        raise RequestError(
            ErrorCode.NAME_INVALID,
            f"{name}: names that start with {PREFIX} are reserved for the queue manager's own "
            "queues; choose another",
        )


def no_puts(name: str, queue: str) -> RequestError:
    """Return the error for a message that somebody else puts on the system queue *queue*."""
    what = name if name == queue else f"{name} leads to {queue}, which"
    return RequestError(
        ErrorCode.QUEUE_IS_SYSTEM,
        f"{what} takes messages from the queue manager alone; put on a queue of your own",
    )


def check_deletable(name: str) -> None:
    """Raise QUEUE_IS_SYSTEM where the queue manager needs the queue *name*."""
    if name in ATTRIBUTES:
        how = f"empty it with: qmctl queue purge {name}"
        if name == PUBLICATIONS:
            how = "a publication goes with the last subscription that holds it"
        raise RequestError(
            ErrorCode.QUEUE_IS_SYSTEM,
            f"{name} is needed by the queue manager itself and cannot be deleted; {how}",
        )
