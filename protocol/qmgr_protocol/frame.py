"""Frames: how messages are cut out of a stream of bytes.

    byte  0       4                    4 + length
          ┌───────┬────────────────────┐
          │length │ one msgpack array  │      length: u32 big-endian, of the array alone
          └───────┴────────────────────┘

The length is checked against the limit as soon as its four bytes are there, so that nobody can
make us buffer more than one frame beyond it.
"""

import struct
from typing import Any

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import FrameMalformed, FrameTooLarge, RemoteProtocolError

LENGTH = struct.Struct(">I")
FRAME_MAX_BYTES_BEFORE_HELLO = 4_096


def encode(message: tuple[Any, ...] | list[Any]) -> bytes:
    """Return *message* as one frame."""
    body = pack(message)
    return LENGTH.pack(len(body)) + body


class FrameDecoder:
    """Cuts a stream into frames.

    Invariant: after :meth:`drain` less than one frame of ``limit_bytes`` is buffered. After an
    error the decoder is spent: it takes nothing more and keeps naming the same error.
    """

    __slots__ = ("_buffer", "error", "limit_bytes")

    def __init__(self, limit_bytes: int = FRAME_MAX_BYTES_BEFORE_HELLO) -> None:
        self.limit_bytes = limit_bytes
        self.error: RemoteProtocolError | None = None
        self._buffer = bytearray()

    @property
    def buffered_bytes(self) -> int:
        """How much of an incomplete frame is held."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take what the peer sent; :meth:`drain` or :meth:`next` hands out what is complete."""
        if self.error is None:
            self._buffer += data

    def next(self) -> tuple[list[Any], int] | None:
        """Return the next array and the bytes its frame took, or None where none is complete."""
        found = self._drain(1)
        return found[0] if found else None

    def drain(self) -> list[tuple[list[Any], int]]:
        """Return every complete array that is buffered, each with the bytes its frame took.

        Never raises: a bad frame sets ``error``, and what stood in front of it is returned.
        """
        return self._drain(-1)

    def _drain(self, count: int) -> list[tuple[list[Any], int]]:
        found: list[tuple[list[Any], int]] = []
        offset = 0
        with memoryview(self._buffer) as view:
            try:
                while len(found) != count and (size := self._size_at(view, offset)):
                    found.append((_array(view[offset + 4 : offset + size]), size))
                    offset += size
            except (FrameTooLarge, FrameMalformed) as error:
                self.error = error
        if self.error is not None:
            self._buffer = bytearray()
        elif offset:
            del self._buffer[:offset]
        return found

    def _size_at(self, view: memoryview, offset: int) -> int:
        """Return the size of the complete frame at *offset*, or 0."""
        rest = len(view) - offset
        if rest < 4:
            return 0
        (length,) = LENGTH.unpack_from(view, offset)
        if length > self.limit_bytes:
            raise FrameTooLarge(length, self.limit_bytes)
        return 4 + int(length) if rest >= 4 + length else 0


def _array(data: memoryview) -> list[Any]:
    with data:
        array = unpack(data)
    if type(array) is not list or not array or type(array[0]) is not int:
        raise FrameMalformed("a frame is an array that starts with an operation number")
    return array
