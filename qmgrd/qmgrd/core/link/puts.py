"""Cuts what a link has to send into puts: runs of consecutive ids that are bound for one queue."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from qmgr_protocol import messages as m
from qmgr_protocol.record import own_bytes
from qmgrd.core.link.outbox import HELD, Extra, LinkOutbox

EXTRA_BYTES = 64  # of keys and numbers


class Room(NamedTuple):
    """What may be sent over a path now."""

    stream: int
    messages: int
    bytes: int  # one message may pass it
    frame_bytes: int  # in one put
    message_max_bytes: int


def size_of(put: m.Put) -> int:
    """Return the bytes of the records of *put*, and of their notes."""
    return sum(map(len, put.records)) + sum(_bytes_of(extra) for _, extra in put.extras)


def _bytes_of(extra: Extra) -> int:
    """Return what is said of a record beside it, in bytes; of numbers a few."""
    note = extra.get(m.EXTRA_NOTE, b"")
    return EXTRA_BYTES + (len(note) if type(note) is bytes else 0)


def cut(outbox: LinkOutbox, room: Room, too_long: dict[int, int]) -> Iterator[m.Put]:
    """Take from *outbox* what there is *room* for, passing over what the peer has.

    Args:
        too_long: gets the ids and sizes of messages that are longer than the peer takes. They are
            passed over, too.
    """
    first_id, target, batch, batch_bytes = outbox.sent_id + 1, "", list[bytes](), 0
    extras: list[list[Any]] = []
    bytes_left = room.bytes
    for found in outbox.records(room.messages):
        is_too_long = own_bytes(found[1]) > room.message_max_bytes if found[1] else False
        if is_too_long:
            too_long[outbox.sent_id + 1] = own_bytes(found[1])
        if found is HELD or is_too_long:
            if batch:
                yield m.Put(room.stream, first_id, 0, target, batch, extras)
            outbox.take(1)
            first_id, batch, batch_bytes, extras = outbox.sent_id + 1, [], 0, []
            continue
        found_target, record, extra = found
        size = len(record) + (_bytes_of(extra) if extra else 0)
        if batch and (found_target != target or batch_bytes + size > room.frame_bytes):
            yield m.Put(room.stream, first_id, 0, target, batch, extras)
            first_id, batch, batch_bytes, extras = first_id + len(batch), [], 0, []
        target = found_target
        if extra:
            extras.append([len(batch), extra])
        batch.append(record)
        outbox.take(1)
        batch_bytes += size
        bytes_left -= size
        if bytes_left <= 0:
            break
    if batch:
        yield m.Put(room.stream, first_id, 0, target, batch, extras)
