"""A long record that is sent in pieces, before the message that names its body."""

from qmgr_protocol import messages as m
from qmgr_protocol.pieces import PIECE_BYTES, piece_bytes

PUT_BODY, UNIT_BODY = 1, 2  # The numbers of the bodies that puts and units of work use.


class OutgoingBody:
    """The rest of a record that must still be sent. Invariant: 0 <= sent_bytes <= size."""

    __slots__ = ("_number", "_piece_bytes", "_record", "sent_bytes")

    def __init__(self, number: int, record: bytes, piece_bytes_: int) -> None:
        """Begins a body. No piece has more than *piece_bytes_* bytes."""
        self._number = number
        self._record = record
        self._piece_bytes = piece_bytes_
        self.sent_bytes = 0

    @property
    def size(self) -> int:
        """The size of the record."""
        return len(self._record)

    def next(self) -> m.Piece | None:
        """Returns the next piece, or None if all pieces were returned."""
        at = self.sent_bytes
        data = self._record[at : at + self._piece_bytes]
        if not data:
            return None
        self.sent_bytes += len(data)
        return m.Piece(self._number, len(self._record), at, data)


def pieces_for(record: bytes, limits: m.Welcome) -> int:
    """Returns the size of the pieces in which *record* is sent; 0 if it fits in one frame."""
    return piece_bytes(limits.piece_max_bytes) if len(record) > PIECE_BYTES else 0


def record_limit(limits: m.Welcome, frame_bytes: int) -> int:
    """Returns the size of the longest record that can be put.

    *frame_bytes* is the size of a frame in addition to its record.
    """
    if limits.piece_max_bytes:
        return limits.message_max_bytes
    return min(limits.message_max_bytes, limits.frame_max_bytes - frame_bytes)
