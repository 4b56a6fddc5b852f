"""The entry point to a queue. Every put of a client or a link calls this module.

Most queues refuse a put that does not fit. A queue with a different overflow policy first evicts
its oldest messages (eviction.py).
"""

from collections.abc import Iterator
from typing import Any

from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import TIMESTAMP
from qmgrd.core.context.context import Context
from qmgrd.core.context.eviction import EVICTED_MAX, MakeDeadLetter, make_room
from qmgrd.core.layout import long_record
from qmgrd.core.queue.put import PutOutcome, member_of, put
from qmgrd.core.queue.queue import Queue


def put_records(
    context: Context,
    make_dead_letter: MakeDeadLetter,
    queue: Queue,
    batch: list[bytes],
    target: str = "",
    extras: dict[int, Any] | None = None,
) -> PutOutcome:
    """Puts *batch* on *queue*. Evicts messages first if the overflow policy requires it.

    If the batch exceeds the limits of the queue, its later records evict the earlier ones.

    Args:
        context: The context of the current turn.
        make_dead_letter: The function that makes an evicted message a dead letter.
        queue: The queue that receives the records.
        batch: The records, with or without UIDs.
        target: The destination queue of the records on a transmission queue; otherwise "".
        extras: The additional fields that a link sent with a record, by index of the record.
    """
    extras = extras or {}
    if queue.bounds.overflow == "refuse":
        return _put(context, queue, batch, target, extras)
    whole, at = PutOutcome([], []), 0
    for piece in _pieces(context, queue, batch):
        if not queue.has_room(len(piece), stamped_bytes(context, piece)):
            new = [record for record in piece if _is_acceptable(context, queue, record, target)]
            make_room(context, make_dead_letter, queue, len(new), stamped_bytes(context, new))
        of_piece = {i - at: extra for i, extra in extras.items() if 0 <= i - at < len(piece)}
        done = _put(context, queue, piece, target, of_piece)
        whole.refused.extend((at + index, error) for index, error in done.refused)
        whole.stamped.extend([at + index, stamp, count] for index, stamp, count in done.stamped)
        at += len(piece)
    return whole


def _put(
    context: Context, queue: Queue, batch: list[bytes], target: str, extras: dict[int, Any]
) -> PutOutcome:
    limit = context.config.limits.message_max_bytes
    return put(queue, context.tx, context.now, context.stamper, batch, limit, target, extras)


def _is_acceptable(context: Context, queue: Queue, record: bytes, target: str) -> bool:
    """Returns whether *record* needs room: it is valid, new on *queue* and not too long."""
    try:
        head = long_record.check(record)
        member_of(queue, context.tx, record, head)
    except RequestError:
        return False
    if records.own_bytes(record) > queue.longest(context.config.limits.message_max_bytes):
        return False
    trailer = record[records.TIMESTAMP_AT - head.origin_length :]
    return not head.origin_length or queue.is_new(context.tx, trailer, target.encode())


def stamped_bytes(context: Context, batch: list[bytes]) -> int:
    """Returns the total size of the records of *batch*, including the UIDs to be assigned."""
    trailer_bytes = len(context.stamper.origin) + TIMESTAMP.size
    return sum(
        len(record) + (0 if record[records.ORIGIN_LENGTH] > b"\0" else trailer_bytes)
        for record in batch
    )


def _pieces(context: Context, queue: Queue, batch: list[bytes]) -> Iterator[list[bytes]]:
    """Yields *batch* in pieces, each of which fits in an empty *queue*.

    A record that exceeds the limit of the queue is a separate piece.
    """
    piece: list[bytes] = []
    size, limit_bytes = 0, queue.bytes_limit
    for record in batch:
        more = stamped_bytes(context, [record])
        if piece and (
            len(piece) == min(queue.bounds.depth_max, EVICTED_MAX) or size + more > limit_bytes
        ):
            yield piece
            piece, size = [], 0
        piece.append(record)
        size += more
    yield piece
