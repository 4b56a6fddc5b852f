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

    When a put is yielded, the cursor of the outbox is behind it.

    Args:
        outbox: The messages to send.
        room: The amount that the path may send now.
        too_long: A map that receives the ids and sizes of messages that are too long for the peer.
            These messages are skipped as well.
    """
    put = _NewPut(outbox, room.stream)
    bytes_left = room.bytes
    found_all = outbox.records(
        room.messages, room.message_max_bytes, too_long, room.whole_max_bytes
    )
    for found in found_all:
        if found is HELD:
            yield from put.made()
            put.skip()
            continue
        target, record, extra = found
        is_long = isinstance(record, LongRecord)  # It is sent in pieces, so its size counts as 0.
        size = 0 if is_long else len(record) + (_bytes_of(extra) if extra else 0)
        if is_long or not put.fits(target, size, room.frame_bytes):
            yield from put.made()
        put.add(target, record, extra, size)
        bytes_left -= size
        if is_long or bytes_left <= 0:
            break
    yield from put.made()


class _NewPut:
    """The put that :func:`cut` fills: a run of consecutive ids with the same destination."""

    def __init__(self, outbox: LinkOutbox, stream: int) -> None:
        self._outbox, self._stream = outbox, stream
        self._last_id = outbox.sent_id
        self._begin()

    def _begin(self) -> None:
        self._first_id, self._target, self._bytes = self._last_id + 1, "", 0
        self._records: list[Any] = []
        self._extras: list[list[Any]] = []

    def fits(self, target: str, size: int, frame_bytes: int) -> bool:
        """Returns whether a record of *size* bytes for *target* may be added."""
        return not self._records or (
            target == self._target
            and self._bytes + size <= frame_bytes
            and len(self._extras) < m.EXTRAS_MAX
        )

    def add(self, target: str, record: Any, extra: Extra, size: int) -> None:
        """Adds the record of the next id."""
        self._target = target
        if extra:
            self._extras.append([len(self._records), extra])
        self._records.append(record)
        self._last_id += 1
        self._bytes += size

    def skip(self) -> None:
        """Skips the next id. Requires an empty put."""
        self._last_id += 1
        self._first_id = self._last_id + 1

    def made(self) -> Iterator[m.Put]:
        """Moves the cursor of the outbox, yields the put unless it is empty, and begins another."""
        self._outbox.take(self._last_id - self._outbox.sent_id)
        if self._records:
            yield m.Put(self._stream, self._first_id, 0, self._target, self._records, self._extras)
        self._begin()
