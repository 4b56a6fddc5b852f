"""A producer that puts in units of work. Begin, puts and commit are sent in one write."""

import os
from collections import deque
from collections.abc import Sequence

from qmgr_bench.load import LoadFailed
from qmgr_bench.qmgr import FRAME_BYTES, FRAME_RECORDS, POOL, Wire
from qmgr_protocol import messages as m


class UnitSender:
    """A producer with its own connection. A put counts when the commit of its unit is answered."""

    def __init__(self, wire: Wire, queue: str, pool: Sequence[bytes], unit: int) -> None:
        """Opens the producer's stream.

        Args:
            pool: POOL records of about the same size.
            unit: The number of messages per unit. The last unit of a write may have fewer.
        """
        self.sock = wire.sock
        self._wire = wire
        self._queue = queue
        self._pool = [*pool, *pool]
        self._unit = unit
        self._frame_records = max(1, min(FRAME_RECORDS, FRAME_BYTES // len(pool[0])))
        self._stream: int = wire.ask(m.ProducerOpen, os.urandom(16))[0]
        self._puts = self._units = self._commit_id = 0
        self._open: deque[int] = deque()  # number of messages of each unanswered unit

    def put(self, count: int) -> bytes:
        """Returns the bytes of the next *count* puts, in units."""
        frames: list[bytes] = []
        while count:
            size = min(count, self._unit)
            frames += self._next_unit(size)
            count -= size
        return b"".join(frames)

    def _next_unit(self, size: int) -> list[bytes]:
        """Returns the frames of a unit of *size* messages."""
        send, request = self._wire.connection.send, self._wire.next_request
        self._units += 1
        self._open.append(size)
        frames = [send(m.UnitBegin(request(), self._units))]
        left = size
        while left:
            batch = min(left, self._frame_records)
            at = self._puts % POOL
            records = self._pool[at : at + batch]
            frames.append(send(m.UnitPut(request(), self._units, self._queue, records)))
            self._puts += batch
            left -= batch
        commit = m.UnitCommit(self._stream, self._units, self._commit_id, self._units, size, 0)
        return [*frames, send(commit)]

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* acknowledges.

        Raises:
            LoadFailed: A put or a commit was refused.
        """
        answered = 0
        for message in self._wire.take(data):
            if type(message) is m.Ok:
                if message.value is not None and message.value[0]:
                    raise LoadFailed(f"a put was refused: {message.value[0][0][2]}")
            elif type(message) is not m.Committed:
                raise LoadFailed(f"unexpected answer to a unit of work: {message}")
            elif message.refused:
                raise LoadFailed(f"a commit was refused: {message.refused[0][2]}")
            else:
                for _ in range(message.commit_id - self._commit_id):
                    answered += self._open.popleft()
                self._commit_id = message.commit_id
        return answered
