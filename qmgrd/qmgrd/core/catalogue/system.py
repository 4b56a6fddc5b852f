"""The queues that the queue manager creates for itself, each one at its first use."""

from typing import Any

from qmgr_config.model import AuditConfig
from qmgr_protocol.errors import ErrorCode, RequestError

PREFIX = "SYSTEM."  # the start of names that only the queue manager may define
DEAD_LETTERS = "SYSTEM.DEAD.LETTERS"
EVENTS = "SYSTEM.EVENTS"
AUDIT = "SYSTEM.AUDIT"
# The queue that stores each publication while a subscription needs it.
PUBLICATIONS = "SYSTEM.PUBLICATIONS"
# The attributes of the system queues. Newer events evict unread ones.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    DEAD_LETTERS: {},
    EVENTS: {"depth_max": 10_000, "overflow": "discard-oldest"},
    PUBLICATIONS: {},
    AUDIT: {},
}
AUDIT_SHARE = 8  # bytes of the store's map per byte of the audit
_AUDIT_DEPTH_MAX = 10**12  # No limit: the size and the age of the records are limited.


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
        if name == AUDIT:
            how = "audit.bytes_max and audit.age_max_ms limit its records"
        if name == PUBLICATIONS:
            how = "each publication is deleted after its last subscriber"
        raise RequestError(
            ErrorCode.QUEUE_IS_SYSTEM,
            f"{name} cannot be deleted because the queue manager itself needs it; {how}",
        )


def audit_attributes(audit: AuditConfig, map_bytes: int) -> dict[str, Any]:
    """Returns the attributes of the queue of audit records, which no request can change.

    Args:
        audit: The configuration of the audit.
        map_bytes: The size of the store, of which the records use at most an eighth.
    """
    return {
        "depth_max": _AUDIT_DEPTH_MAX,
        "bytes_max": min(audit.bytes_max, map_bytes // AUDIT_SHARE),
        "message_max_bytes": 0,
        "expiry_max_ms": 0,
        "overflow": "discard-oldest",
        "dedup_retention_ms": 0,
        "accounting": "off",
        "unused_expiry_ms": 0,
    }


def check_unlocked(name: str, verb: str) -> None:
    """Raises QUEUE_IS_SYSTEM if the messages of queue *name* must stay as they are.

    Args:
        name: The name of a queue, not of an alias.
        verb: The verb of the request, such as "purge".
    """
    if name == AUDIT:
        raise RequestError(
            ErrorCode.QUEUE_IS_SYSTEM,
            f"{name} keeps the records of the audit, so no request may {verb} it: read it with "
            "qmctl audit, or with a browse",
        )
