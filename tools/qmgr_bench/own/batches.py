"""A producer that fills a queue with different messages in large frames."""

import os
from collections.abc import Callable

from qmgr_bench.load import LoadFailed
from qmgr_bench.qmgr import Wire
from qmgr_protocol import messages as m

FRAME_RECORDS = 500


class BatchSender:
    """A producer of numbered records (0, 1, 2 ...). Each record is created when it is put."""

    def __init__(self, wire: Wire, queue: str, record_of: Callable[[int], bytes]) -> None:
        """Opens the producer's stream."""
        self.sock = wire.sock
        self._wire = wire
        self._queue = queue
        self._record_of = record_of
        self._stream: int = wire.ask(m.ProducerOpen, os.urandom(16))[0]
        self._sent = self._answered = 0

    def put(self, count: int) -> bytes:
        """Returns the frames of the next *count* puts."""
        frames = []
        while count:
            size = min(count, FRAME_RECORDS)
            batch = [self._record_of(number) for number in range(self._sent, self._sent + size)]
            put = m.Put(self._stream, self._sent + 1, self._answered, self._queue, batch)
            frames.append(self._wire.connection.send(put))
            self._sent += size
            count -= size
        return b"".join(frames)

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* answers.

        Raises:
            LoadFailed: A put was refused.
        """
        before = self._answered
        for message in self._wire.take(data):
            if type(message) is not m.Committed or message.refused:
                raise LoadFailed(f"a put was refused: {str(message)[:200]}")
            self._answered = message.commit_id
        return self._answered - before
