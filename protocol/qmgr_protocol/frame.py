"""Frames, which divide a stream of bytes into messages.

    byte  0       4                    4 + length
          ┌───────┬────────────────────┐
          │length │ one msgpack array  │      length: u32 big-endian, length of the array only
          └───────┴────────────────────┘

The decoder checks the length against the limit as soon as the four bytes of the length have
arrived. Therefore, a peer cannot make this side buffer more than one frame of that size.
"""

import struct
from typing import Any

from qmgr_protocol.codec import LINK_BUILT_MAX_BYTES, SMALL_BYTES, pack, unpack
from qmgr_protocol.errors import FrameMalformed, FrameTooLarge, RemoteProtocolError

LENGTH = struct.Struct(">I")
FRAME_MAX_BYTES_BEFORE_HELLO = 4_096


def encode(message: tuple[Any, ...] | list[Any]) -> bytes:
    """Returns *message* as one frame."""
    body: bytes = pack(message)
    return LENGTH.pack(len(body)) + body


class FrameDecoder:
    """Cuts a stream into frames.

    Invariant: after :meth:`drain`, less than one frame of ``limit_bytes`` is buffered, unless
    ``has_more`` is set. After an error, the decoder ignores all further data and keeps the error.
    """

    __slots__ = (
        "_buffer",
        "buffered_bytes",
        "error",
        "has_more",
        "is_of_client",
        "is_of_link",
        "limit_bytes",
    )

    def __init__(self, limit_bytes: int = FRAME_MAX_BYTES_BEFORE_HELLO) -> None:
        self.limit_bytes = limit_bytes
        self.is_of_client = False  # whether the frames have the lower limits of clients
        self.is_of_link = False  # whether the frames have the lower limit of links
        self.error: RemoteProtocolError | None = None
        self.has_more = False  # whether bytes follow the last frame that a limited drain returned
        self._buffer: bytes | bytearray = b""
        self.buffered_bytes = 0  # size of the incomplete frame after a drain

    @property
    def frame_bytes(self) -> int:
        """The full length of the incomplete frame, or 0 if the length is not known yet."""
        if len(self._buffer) < LENGTH.size:
            return 0
        return int(LENGTH.unpack_from(self._buffer)[0]) + LENGTH.size

    def feed(self, data: bytes) -> None:
        """Adds received bytes. :meth:`drain` and :meth:`next` return the complete frames."""
        if self.error is not None:
            return
        if self._buffer:
            self._buffer += data
        else:
            self._buffer = data  # usually complete frames, which need no copy

    def next(self) -> tuple[list[Any], int] | None:
        """Returns the next array and the size of its frame, or None if no frame is complete."""
        found = self.drain(1)
        return found[0] if found else None

    def drain(self, frames_max: int = -1) -> list[tuple[list[Any], int]]:
        """Returns the complete arrays in the buffer, each with the size of its frame in bytes.

        This method never raises. A bad frame sets ``error``, and the earlier frames are returned.

        Args:
            frames_max: The maximum number of frames; -1 for all.
        """
        found: list[tuple[list[Any], int]] = []
        buffer, limit_bytes = self._buffer, self.limit_bytes
        offset, end = 0, len(buffer)
        try:
            while len(found) != frames_max and end - offset >= 4:
                (length,) = LENGTH.unpack_from(buffer, offset)
                if length > limit_bytes:
                    raise FrameTooLarge(length, limit_bytes)
                stop = offset + 4 + length
                if stop > end:
                    break
                found.append((self._array(buffer[offset + 4 : stop]), stop - offset))
                offset = stop
        except (FrameTooLarge, FrameMalformed) as error:
            self.error = error
            offset = end
        self.has_more = len(found) == frames_max and offset < end
        self._forget(offset)
        return found

    def _array(self, data: bytes | bytearray) -> list[Any]:
        built_max_bytes = LINK_BUILT_MAX_BYTES if self.is_of_link and len(data) > SMALL_BYTES else 0
        array = unpack(data, built_max_bytes, is_request=self.is_of_client)
        if type(array) is not list or not array or type(array[0]) is not int:
            raise FrameMalformed("a frame must be an array that starts with an operation number")
        return array

    def _forget(self, count: int) -> None:
        """Drops the first *count* bytes.

        Keeps the rest as a bytearray, because more bytes will be added.
        """
        self.buffered_bytes = len(self._buffer) - count
        if not self.buffered_bytes:
            self._buffer = b""
        elif isinstance(self._buffer, bytearray):
            del self._buffer[:count]
        else:
            self._buffer = bytearray(memoryview(self._buffer)[count:])
