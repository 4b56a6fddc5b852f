"""Long records in pieces. Short messages pass between the pieces of a long record.

    Piece(1, size, 0, data), other messages, Piece(1, size, 252000, data), ..., Put(bodies=[[0, 1]])

1. A record is sent as a *body* if it is longer than PIECE_BYTES and the receiver accepts pieces.
2. The pieces of a body arrive in order, without gaps. A piece at offset 0 begins the body from
   scratch, so a sender gives up a body by reusing its number.
3. A piece that is not the last has a multiple of PIECE_MULTIPLE bytes, so that a queue manager can
   store it without copying bytes from one row to the next. The first piece has at least
   PIECE_LEAST_BYTES, so that it contains all bytes of a record before the body of the message.
4. The message that names a complete body uses it up. Then its number is free.
"""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import FieldInvalid

PIECE_BYTES = (
    252_000  # the size of the pieces that a sender makes, and the longest record without them
)
PIECE_MULTIPLE = 4_000


def piece_bytes(accepted_bytes: int) -> int:
    """Returns the size of the pieces for a peer that accepts *accepted_bytes*; 0 if it does not."""
    return min(PIECE_BYTES, accepted_bytes) // PIECE_MULTIPLE * PIECE_MULTIPLE


class PieceOrder:
    """The bodies that arrive on one connection, and the offset of the next piece of each.

    Invariant: no entry for a body that is complete.
    """

    def __init__(self) -> None:
        self._next: dict[int, tuple[int, int]] = {}  # size and next offset of incomplete bodies

    def take(self, piece: m.Piece) -> bool:
        """Records the next *piece*. Returns whether its body is complete.

        Raises:
            FieldInvalid: The piece does not continue its body, or has an invalid size.
        """
        body, size, offset, data = piece
        end = offset + len(data)
        begun = self._next.pop(body, (size, 0))
        expected = begun if offset else (size, 0)
        if (size, offset) != expected:
            why = (
                f"{offset} of {size} does not follow {expected[1]} of {expected[0]} in body {body}"
            )
            raise FieldInvalid("Piece", "offset", why)
        is_last = end == size
        if not data or end > size or (len(data) % PIECE_MULTIPLE and not is_last):
            why = f"{len(data)} bytes at {offset} of {size} must be a multiple of {PIECE_MULTIPLE}"
            raise FieldInvalid("Piece", "data", why)
        if offset == 0 and len(data) < m.PIECE_LEAST_BYTES:
            why = f"the first piece has {len(data)} bytes; the least is {m.PIECE_LEAST_BYTES}"
            raise FieldInvalid("Piece", "data", why)
        if not is_last:
            self._next[body] = size, end
        return is_last
