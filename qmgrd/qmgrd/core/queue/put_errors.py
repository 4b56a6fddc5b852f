"""The errors of puts that a queue refuses."""

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.limits.amount import amount
from qmgrd.core.queue.queue import Queue


def duplicate(queue: Queue, tx: Transaction, trailer: bytes, bound_for: bytes) -> RequestError:
    retention_ms = queue.bounds.dedup_retention_ms
    uid = records.decode_uid(trailer)
    text = f"message {uid} is on queue {queue.name} already"
    # Looks once more, if the UID may be remembered only.
    if retention_ms and queue.origins.place(tx, trailer, bound_for) is None:
        text = (
            f"message {uid} was on queue {queue.name}, whose dedup_retention_ms has "
            f"it remembered for {retention_ms} ms after it is consumed"
        )
    return RequestError(ErrorCode.DUPLICATE_MESSAGE, text)


def full(queue: Queue) -> RequestError:
    return RequestError(
        ErrorCode.QUEUE_FULL,
        f"queue {queue.name} holds {amount(queue.messages, 'message')}, "
        f"at most {queue.bounds.depth_max}",
        retry_after_ms=1_000,
    )


def bytes_full(queue: Queue, size: int) -> RequestError:
    return RequestError(
        ErrorCode.QUEUE_BYTES_FULL,
        f"queue {queue.name} holds {amount(queue.counters.bytes, 'byte')}, {size} more are beyond "
        f"its {queue.bounds.bytes_max}",
        retry_after_ms=1_000,
    )


def too_large(queue: Queue, size: int, limit: int) -> RequestError:
    text = records.too_large_text(size, limit)
    if queue.bounds.message_max_bytes == limit:
        text += f" on queue {queue.name}; split it, or raise message_max_bytes of the queue"
    return RequestError(ErrorCode.MESSAGE_TOO_LARGE, text)
