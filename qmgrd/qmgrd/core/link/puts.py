"""Cuts the messages of a link into puts: runs of consecutive ids with the same destination."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from qmgr_protocol import messages as m
from qmgrd.core.layout.entry import WHOLE
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.link.outbox import HELD, Extra, LinkOutbox

EXTRA_BYTES = 64  # estimated bytes of the keys and numbers of an extra


class SendRoom(NamedTuple):
    """The amount that a path may send now."""

    stream: int
    messages: int
    bytes: int  # the total number of bytes; the last message may exceed it
    frame_bytes: int  # the number of bytes in one put
    message_max_bytes: int
    whole_max_bytes: int = WHOLE  # the size above which a record is sent in pieces, by itself


def size_of(put: m.Put) -> int:
    """Returns the total size of the records of *put* and their notes."""
    return sum(map(len, put.records)) + sum(_bytes_of(extra) for _, extra in put.extras)


def _bytes_of(extra: Extra) -> int:
    """Returns the approximate size of the fields that are sent with a record."""
    note = extra.get(m.EXTRA_NOTE, b"")
    return EXTRA_BYTES + (len(note) if type(note) is bytes else 0)


def cut(outbox: LinkOutbox, room: SendRoom, too_long: dict[int, int]) -> Iterator[m.Put]:
    """Yields puts from *outbox* that fit into *room*. Messages that the peer has are skipped.

    Args:
        too_long: A map that receives the ids and sizes of messages that are too long for the peer.
            These messages are skipped as well.
    """
    first_id, target, batch, batch_bytes = outbox.sent_id + 1, "", list[bytes](), 0
    extras: list[list[Any]] = []
    bytes_left = room.bytes
    found_all = outbox.records(
        room.messages, room.message_max_bytes, too_long, room.whole_max_bytes
    )
    for found in found_all:
        if found is HELD:
            if batch:
                yield m.Put(room.stream, first_id, 0, target, batch, extras)
            outbox.take(1)
            first_id, batch, batch_bytes, extras = outbox.sent_id + 1, [], 0, []
            continue
        found_target, record, extra = found
        if isinstance(record, LongRecord):
            if batch:
                yield m.Put(room.stream, first_id, 0, target, batch, extras)
            own = [[0, extra]] if extra else []
            first_id = outbox.sent_id + 1
            outbox.take(1)
            yield m.Put(room.stream, first_id, 0, found_target, [record], own)
            return
        size = len(record) + (_bytes_of(extra) if extra else 0)
        if batch and (
            found_target != target
            or batch_bytes + size > room.frame_bytes
            or len(extras) == m.EXTRAS_MAX
        ):
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
