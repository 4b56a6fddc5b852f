"""A long message on its way to the peer of a link, in pieces (context/piece_sender.py).

    LinkPump ─▶ the put is in flight over its path, which sends nothing else ─▶ Piece ... Piece, Put

The peer counts the records that it receives over a connection. So a put always follows, even if the
message was committed over another path meanwhile. It is then empty, as for an id without a message.
"""

from typing import TYPE_CHECKING

from qmgr_protocol import messages as m
from qmgrd.core.context.context import Context
from qmgrd.core.context.piece_sender import BODY
from qmgrd.core.layout.long_record import LongRecord

if TYPE_CHECKING:
    from qmgrd.core.link.path import Path


class LongPut:
    """One put with one record. A :class:`~qmgrd.core.context.piece_sender.LongSend`."""

    def __init__(
        self, context: Context, path: "Path", connection: int, put: m.Put, piece_bytes: int
    ) -> None:
        """Makes the path wait.

        Args:
            context: The context of the core.
            path: The path, on which the put is in flight.
            connection: The connection of the path.
            put: The put, whose only record is a :class:`LongRecord`.
            piece_bytes: The size of a piece.
        """
        (record,) = put.records
        assert isinstance(record, LongRecord)
        self.record = record
        self.piece_bytes = piece_bytes
        self._context = context
        self._path = path
        self._connection = connection
        self._put = put
        path.is_sending_pieces = True

    def goes_on(self) -> bool:
        """Returns True: only the end of the connection ends the put."""
        self._path.sends_piece()
        return True

    def finish(self) -> None:
        """Sends the put, and lets the path send others."""
        self._send(self._put._replace(records=[b""], bodies=[[0, BODY]]))

    def set_aside(self) -> None:
        """Sends the put of an id without a message. Sets the message aside if it still exists."""
        self._path.link.set_aside_at(self._put.first_id, self.record)
        self._send(m.Put(self._put.stream, self._put.first_id, 0, "", [b""]))

    def _send(self, put: m.Put) -> None:
        self._path.is_sending_pieces = False
        self._context.send(self._connection, put)
        self._context.awake_queues[self._path.link.queue.id] = self._path.link.queue
