"""The records that a queue manager sends in pieces, until a Deliver names them.

A body occupies memory of the size of its record. A connection has at most four bodies.
"""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import FieldInvalid
from qmgr_protocol.pieces import PieceOrder
from qmgr_protocol.record import UID_MAX_BYTES

RECORD_MAX_BYTES = 128 * 1024 * 1024  # of the longest record, unless the welcome has a higher limit


class ArrivingBodies:
    """The bodies on the present connection.

    Invariant: ``_complete`` has the numbers of the bodies in ``_data`` that have all their bytes.
    """

    def __init__(self, message_max_bytes: int) -> None:
        """Begins without bodies. *message_max_bytes* is the limit of the queue manager."""
        self._limit_bytes = max(RECORD_MAX_BYTES, message_max_bytes + UID_MAX_BYTES)
        self._order = PieceOrder()
        self._data: dict[int, bytearray] = {}
        self._complete: set[int] = set()
        self._received: dict[int, int] = {}  # number of bytes of the bodies that are incomplete

    @property
    def long_bytes(self) -> tuple[int, int]:
        """The number of bytes of incomplete bodies that arrived, and the sizes of these bodies."""
        numbers = list(self._received)  # Another thread may ask.
        sizes = [len(self._data.get(number, b"")) for number in numbers]
        return sum(self._received.get(number, 0) for number in numbers), sum(sizes)

    def take(self, piece: m.Piece) -> None:
        """Stores a *piece*.

        Raises:
            FieldInvalid: The piece does not continue its body, or the record is too long.
        """
        is_last = self._order.take(piece)
        body, size, offset, data = piece
        if size > self._limit_bytes:
            why = f"{size} bytes exceed the limit of {self._limit_bytes}"
            raise FieldInvalid("Piece", "size", why)
        if offset == 0:
            self._complete.discard(body)
            self._data[body] = bytearray(size)
        self._data[body][offset : offset + len(data)] = data
        self._received[body] = offset + len(data)
        if is_last:
            del self._received[body]
            self._complete.add(body)

    def filled(self, answer: m.Deliver) -> m.Deliver:
        """Returns *answer* with the records of its bodies, which are then used up.

        Raises:
            FieldInvalid: The answer names a body that is not complete, or an item that is missing.
        """
        items = answer.items.copy()
        for index, body in (row[:2] for row in answer.bodies):
            if body not in self._complete:
                raise FieldInvalid("Deliver", "bodies", f"body {body} is not complete")
            if index >= len(items):
                raise FieldInvalid("Deliver", "bodies", f"item {index} does not exist")
            self._complete.remove(body)
            head, rest = items[index][: m.DELIVERY_BYTES], items[index][m.DELIVERY_BYTES :]
            items[index] = b"".join((head, self._data.pop(body), rest))
        return answer._replace(items=items, bodies=[])
