"""The errors of puts that a queue refuses."""

from qmgr_protocol import record as records
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.queue import Queue


def duplicate_error(
    queue: Queue, tx: Transaction, trailer: bytes, bound_for: bytes
) -> RequestError:
    retention_ms = queue.bounds.dedup_retention_ms
    uid = records.decode_uid(trailer)
    text = f"message {uid} already exists on queue {queue.name}"
    # If the queue remembers UIDs, a second lookup shows whether the message still exists.
    if retention_ms and queue.origins.place(tx, trailer, bound_for) is None:
        text = (
            f"message {uid} was consumed from queue {queue.name}, which remembers UIDs for "
            f"{retention_ms} ms after consumption (dedup_retention_ms)"
        )
    return RequestError(ErrorCode.DUPLICATE_MESSAGE, text)


def queue_full_error(queue: Queue) -> RequestError:
    return RequestError(
        ErrorCode.QUEUE_FULL,
        f"queue {queue.name} is full: it has {amount(queue.messages, 'message')}, "
        f"and the limit is {queue.bounds.depth_max}",
        retry_after_ms=1_000,
    )


def queue_bytes_full_error(queue: Queue, size: int) -> RequestError:
    stored = queue.stored
    if stored is not None and queue.bytes_limit < queue.bounds.bytes_max:
        return RequestError(
            ErrorCode.USER_BYTES_EXHAUSTED,
            f"user {stored.user} has {amount(stored.bytes, 'byte')} on the queues that it created, "
            f"such as {queue.name}, and {size} more exceed its limit of {stored.limit_bytes} "
            "(stored_bytes_max); consume messages of these queues, or raise the limit",
            retry_after_ms=1_000,
        )
    return RequestError(
        ErrorCode.QUEUE_BYTES_FULL,
        f"queue {queue.name} has {amount(queue.counters.bytes, 'byte')}, and {size} more exceed "
        f"the limit of {queue.bounds.bytes_max}",
        retry_after_ms=1_000,
    )


def message_too_large_error(queue: Queue, size: int, limit: int) -> RequestError:
    text = records.too_large_text(size, limit)
    if queue.bounds.message_max_bytes == limit:
        text += f" on queue {queue.name}; split it, or raise message_max_bytes of the queue"
    return RequestError(ErrorCode.MESSAGE_TOO_LARGE, text)
