"""The long records that arrive on one connection in pieces (PROTOCOL.md, section 7).

    Piece ─▶ body rows, in the turn in which it arrives      Piece ─▶ ...      Put ─▶ owns the rows

Between the pieces, memory has only the start of the record, its checksum, and its last bytes. If a
body is too large, or the store has no room for it, its other pieces are ignored, and the put that
names it is refused.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.pieces import PieceOrder
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys, long_record
from qmgrd.core.layout.long_record import VALUE_MAX_BYTES, Body, LongRecord
from qmgrd.core.sessions.request_part import UnitPutPart

if TYPE_CHECKING:
    from qmgrd.core.sessions.session import Session

AnyPut = TypeVar("AnyPut", m.Put, m.UnitPut)

# Bodies that arrive may use one part of so many parts of the store, and at least four messages of
# the maximum size. A user can use as much as it leaves free.
MAP_SHARE = 4
# The longest piece that the daemon accepts. A turn takes one piece, whose rows and flush take about
# as long as a turn of short messages.
PIECE_BYTES = 128_000


def use_up(context: Context, session: "Session", message: object) -> None:
    """Uses up the bodies that a refused put names."""
    put = message.put if isinstance(message, UnitPutPart) else message
    if isinstance(put, m.UnitPut):
        put = m.Put(1, 1, 0, put.queue, put.records, bodies=put.bodies)
    if isinstance(put, m.Put) and put.bodies and session.incoming is not None:
        with session.incoming.named_in(context, put):
            pass  # Nothing owns the bodies.


def always(record: LongRecord) -> bool:
    """Returns True: the put keeps all of its records in memory."""
    return True


def requests_report(record: LongRecord) -> bool:
    """Returns whether *record* requests a report. A link may change such a record."""
    return bool(record[records.FLAGS_AT] & records.FLAG_REPORT_EXPIRY)


def _never(record: LongRecord) -> bool:
    return False


@dataclass(slots=True)
class _Arriving:
    """A body, whose ``size`` is that of the whole record from the start."""

    body: Body
    start: bytes  # the bytes of the record before the body of the message
    tail: bytes = b""  # the last bytes of the record so far
    checksum: int = 0  # the checksum of the record so far
    is_complete: bool = False

    def record(self) -> LongRecord:
        """Returns the record. It must be complete."""
        origin = self.start[records.ORIGIN_LENGTH_AT] if self.start else 0
        trailer = self.tail[-origin - records.TIMESTAMP.size :] if origin else b""
        return LongRecord.of(self.start + trailer, self.body, self.body.size, self.checksum)


class IncomingBodies:
    """The bodies that arrive on one connection."""

    def __init__(self, holder: str | int) -> None:
        """Starts without bodies.

        Args:
            holder: The user that shares the room for bodies with others, or the connection.
        """
        self._holder = holder
        self._order = PieceOrder()
        self._bodies: dict[int, _Arriving] = {}

    def receive(self, context: Context, piece: m.Piece) -> None:
        """Stores a piece.

        Raises:
            FieldInvalid: The piece is too long, or does not continue its body.
        """
        if len(piece.data) > PIECE_BYTES:
            why = f"{len(piece.data)} bytes; this queue manager accepts {PIECE_BYTES}"
            raise FieldInvalid("Piece", "data", why)
        is_last = self._order.take(piece)
        if piece.offset == 0:
            self._forget(context, piece.body)
            self._bodies[piece.body] = self._begun(context, piece)
        arriving = self._bodies[piece.body]
        if arriving.body.error is None:
            try:
                self._store(context, arriving, piece)
            except RequestError as error:
                self._let_go(context, arriving.body)
                arriving.body.error = error
        arriving.is_complete = is_last

    def _begun(self, context: Context, piece: m.Piece) -> _Arriving:
        body = Body(context.ids.next(), piece.size)
        start = piece.data[: long_record.start_bytes(piece.data)]
        limit = context.config.limits.message_max_bytes
        if piece.size > limit + records.UID_MAX_BYTES:
            text = records.too_large_text(piece.size, limit)
            body.error = RequestError(ErrorCode.MESSAGE_TOO_LARGE, text)
        else:
            context.tx.put(keys.unowned(body.id), b"")
        return _Arriving(body, start)

    def _store(self, context: Context, arriving: _Arriving, piece: m.Piece) -> None:
        """Raises RequestError STORE_FULL if the store has too little room."""
        data, body_id = piece.data, arriving.body.id
        self._check_share(context, len(data))
        context.take_room(2 * len(data))
        self._count(context, arriving.body, len(data))
        first = piece.offset // VALUE_MAX_BYTES
        rows = [
            (keys.body(body_id, first + at // VALUE_MAX_BYTES), data[at : at + VALUE_MAX_BYTES])
            for at in range(0, len(data), VALUE_MAX_BYTES)
        ]
        context.tx.put_all(rows)
        context.count_read(context.turn_rows + 1, 0)  # The turn takes no other requests after it.
        summed = memoryview(data)[0 if piece.offset else records.SUMMED_AT :]
        arriving.checksum = crc32(summed, arriving.checksum)
        arriving.tail = (arriving.tail + data[-records.UID_MAX_BYTES :])[-records.UID_MAX_BYTES :]

    def _check_share(self, context: Context, more_bytes: int) -> None:
        """Raises RequestError STORE_FULL if the user would use more room than it leaves free."""
        arriving, config = context.unused_bodies.arriving, context.config
        limit = max(config.store.map_bytes, 16 * config.limits.message_max_bytes) // MAP_SHARE
        used, left = arriving[self._holder] + more_bytes, limit - arriving.total() - more_bytes
        if used > left:
            raise RequestError(
                ErrorCode.STORE_FULL,
                f"the long messages of this user that are still arriving would have {used} bytes, "
                f"and leave {max(left, 0)} of {limit} bytes for those of all users: a user must "
                "leave as much as it uses; try again, or raise store.map_bytes",
                1_000,
            )

    def _count(self, context: Context, body: Body, more_bytes: int) -> None:
        """Counts bytes that arrived. They are negative once they do not count any more."""
        body.arrived_bytes += more_bytes
        context.unused_bodies.count(self._holder, more_bytes)

    def _let_go(self, context: Context, body: Body) -> None:
        """Deletes the rows of a body without an error, and frees its room."""
        self._count(context, body, -body.arrived_bytes)
        context.unused_bodies.add(body.id)

    def _forget(self, context: Context, number: int) -> None:
        arriving = self._bodies.pop(number, None)
        if arriving is not None and arriving.body.error is None:
            self._let_go(context, arriving.body)

    def close(self, context: Context) -> None:
        """Deletes all bodies, because the connection has ended."""
        for number in list(self._bodies):
            self._forget(context, number)

    @contextmanager
    def named_in(
        self, context: Context, put: AnyPut, is_whole: Callable[[LongRecord], bool] = _never
    ) -> Iterator[AnyPut]:
        """Yields *put* with the records of the bodies that it names. They are then used up.

        The put refuses a body that is not complete.

        Args:
            context: The context of the turn.
            put: A put that names bodies.
            is_whole: Returns whether a record is read into memory, because the put keeps it there,
                or changes it.
        """
        batch, used = list(put.records), []
        for index, number in put.bodies:
            if index >= len(batch):
                continue
            arriving = self._bodies.get(number)
            if batch[index] or arriving is None or not arriving.is_complete:
                batch[index] = _incomplete(number)
                continue
            record = arriving.record()
            used.append(self._bodies.pop(number).body)
            batch[index] = record
            if record.body.error is None and is_whole(record):
                batch[index] = long_record.read(context.tx, record.body.id, 0, record.size)
        try:
            yield put._replace(records=batch, bodies=[])
        finally:
            for body in used:
                if body.is_owned:
                    self._count(context, body, -body.arrived_bytes)
                elif body.error is None:
                    self._let_go(context, body)


def _incomplete(number: int) -> LongRecord:
    error = RequestError(
        ErrorCode.RECORD_MALFORMED,
        f"the put names body {number}, which is not complete, or has a record in its place",
    )
    return LongRecord.of(bytes(records.HEAD_BYTES), Body(0, 0, error=error), 0, 0)
