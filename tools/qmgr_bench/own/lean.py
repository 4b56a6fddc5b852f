"""A producer with minimal cost for the generator and one put in flight.

The bytes of the put are made beforehand, and only the id is replaced. An answer in one frame is
decoded directly. Even a large put is therefore never copied while another thread measures.
"""

import os
import socket
import struct
from collections.abc import Sequence

from qmgr_bench.load import LoadFailed
from qmgr_bench.qmgr import Wire
from qmgr_protocol import messages as m
from qmgr_protocol.codec import unpack
from qmgr_protocol.frame import LENGTH
from qmgr_protocol.layout import to_array

COMMITTED = to_array(m.Committed(1, 1))[0]
ID = struct.Struct(">Q")
ID_MARK = 0x5A5A_5A5A_5A5A_5A5A  # placeholder of nine bytes, enough for any id in full encoding


class LeanSender:
    """A producer that always puts the same record, one at a time."""

    def __init__(self, wire: Wire, queue: str, record: bytes) -> None:
        """Opens the producer's stream."""
        self.sock: socket.socket = wire.sock
        self._wire = wire
        stream: int = wire.ask(m.ProducerOpen, os.urandom(16))[0]
        self._frame, self._id_at = template(wire, stream, queue, [record])
        self._id = 0

    def put(self, count: int) -> bytearray:
        """Returns the next put. The buffer is valid until the next call. *count* is 1."""
        assert count == 1
        self._id += 1
        ID.pack_into(self._frame, self._id_at, self._id)
        return self._frame

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* acknowledges.

        Raises:
            LoadFailed: The put was refused.
        """
        if not self._wire.connection.buffered_bytes and data[:4] == LENGTH.pack(
            max(len(data) - 4, 0)
        ):
            operation, *fields = unpack(data[4:])
            if operation == COMMITTED:
                return self._answered(fields)
        return sum(self._answered(list(message)) for message in self._wire.take(data))

    def _answered(self, fields: Sequence[object]) -> int:
        """Checks the fields of a Committed message."""
        if len(fields) < 3 or fields[1] != self._id or fields[2]:
            raise LoadFailed(f"unexpected answer to put {self._id}: {fields}")
        return 1


def template(wire: Wire, stream: int, queue: str, batch: list[bytes]) -> tuple[bytearray, int]:
    """Returns the bytes of a put of *batch*, and the position of its eight-byte id."""
    *pieces, frame = wire.frames(m.Put(stream, ID_MARK, 0, queue, batch))
    at = sum(map(len, pieces)) + frame.index(ID.pack(ID_MARK))
    return bytearray(b"".join((*pieces, frame))), at
