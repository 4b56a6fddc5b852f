"""Sends long records in pieces, over several turns (PROTOCOL.md, section 7).

    turn 2   Piece           other messages
    turn 3   Piece           ...
    turn 4   Piece, and the message that names the body: a Deliver, or a Put of a link

1. A turn sends one piece. Connections take turns, and each sends the pieces of one record at a
   time. So each body has number 1.
2. Pieces wait while the connection is held (unread_replies.py).
3. The checksum of the record is known after the last piece. If it is wrong, no message names the
   body.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgrd.core.layout import long_record
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.limits.unread_replies import UnreadReplies

BODY = 1
_ROWS_OF_A_PIECE = 256  # A piece counts as more rows than it has, because its bytes are sent.


class LongSend(Protocol):
    """A long record on its way to a peer."""

    record: LongRecord
    piece_bytes: int  # the size of its pieces, except the last

    def goes_on(self) -> bool:
        """Returns whether the next piece is to be sent. If not, this is the last call."""

    def finish(self) -> None:
        """Sends the message that names the body, after the last piece."""

    def set_aside(self) -> None:
        """Sets the message aside, because its record is damaged. Nothing names the body."""


class _Progress:
    """The bytes of a record that were sent, and their checksum."""

    __slots__ = ("checksum", "offset", "send")

    def __init__(self, send: LongSend) -> None:
        self.send = send
        self.offset = self.checksum = 0


class PieceSender:
    """The long records on their way to all connections."""

    def __init__(self, unread_replies: UnreadReplies) -> None:
        self._unread_replies = unread_replies
        # The records of each connection. The connection to serve next comes first.
        self._sends: dict[int, deque[_Progress]] = {}

    @property
    def can_go_on(self) -> bool:
        """Whether a piece can be sent now."""
        held = self._unread_replies.held
        return bool(self._sends) and any(x not in held for x in self._sends)

    def begin(self, connection: int, send: LongSend) -> None:
        """Begins to send a record, after those that are on their way to *connection*."""
        self._sends.setdefault(connection, deque()).append(_Progress(send))

    def run(self, tx: Transaction, post: Callable[[int, m.Message], None]) -> int:
        """Sends a piece with *post* to the next connection that is not held.

        Returns:
            The number of rows for which it counts.
        """
        held = self._unread_replies.held
        connection = next((x for x in self._sends if x not in held), None)
        if connection is None:
            return 0
        sends = self._sends.pop(connection)
        if self._step(connection, sends[0], tx, post):
            sends.popleft()
        if sends:
            self._sends[connection] = sends  # The other connections come first.
        return _ROWS_OF_A_PIECE

    def close(self, connection: int) -> None:
        """Forgets the records of a closed connection."""
        self._sends.pop(connection, None)

    def _step(
        self,
        connection: int,
        progress: _Progress,
        tx: Transaction,
        post: Callable[[int, m.Message], None],
    ) -> bool:
        """Sends the next piece. Returns whether nothing of the record is left to send."""
        send, offset = progress.send, progress.offset
        if not send.goes_on():
            return True
        size = send.record.size
        stop = min(offset + send.piece_bytes, size)
        data = long_record.read(tx, send.record.body.id, offset, stop)
        summed = memoryview(data)[0 if offset else records.SUMMED_AT :]
        progress.offset, progress.checksum = stop, crc32(summed, progress.checksum)
        is_last = stop == size
        if len(data) < stop - offset or (is_last and progress.checksum != send.record.checksum):
            send.set_aside()
            return True
        self._unread_replies.count_made(connection, len(data))
        post(connection, m.Piece(BODY, size, offset, data))
        if is_last:
            send.finish()
        return is_last
