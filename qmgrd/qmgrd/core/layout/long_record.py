"""A long record whose bytes are in body rows, so that no turn needs all of them.

    whole record      | head .. envelope | body of the message ....................... | UID |
    LongRecord        | head .. envelope |                                             | UID |
    body rows         | 4,000 bytes | 4,000 bytes | ...                     | the rest         |

A LongRecord is an outline of the record (qmgr_protocol/outline.py).
"""

from dataclasses import dataclass

from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import RequestError
from qmgr_protocol.outline import Outline
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction

VALUE_MAX_BYTES = 4_000  # the size of a body row, except the last


@dataclass(slots=True)
class Body:
    """The rows of a long record, and the bytes that are in them.

    A body that no message owns yet has a mark in the store, so that a restart deletes its rows.
    """

    id: int
    size: int  # the number of bytes in the rows
    arrived_bytes: int = 0  # how many of them count as arriving
    error: RequestError | None = None  # the reason why the record cannot be put
    is_owned: bool = False  # whether a message owns the rows


class LongRecord(Outline):
    """A record whose bytes are in body rows."""

    body: Body

    @classmethod
    def of(cls, parts: bytes, body: Body, size: int, checksum: int) -> "LongRecord":
        """Returns the record of *size* bytes in *body*, whose *parts* surround the message's body.

        Args:
            parts: The bytes before the body of the message, and the UID if there is one.
            body: The rows.
            size: The size of the whole record.
            checksum: The checksum of the whole record.
        """
        made = cls(parts)
        made.body, made.size, made.checksum = body, size, checksum
        return made

    def check(self) -> records.Head:
        """Checks the record as :func:`qmgr_protocol.record.check` does.

        Raises:
            RequestError: As there, or the reason why the body was not stored.
        """
        if self.body.error is not None:
            raise self.body.error
        return records.check(self)

    def stamped(self, trailer: bytes) -> "LongRecord":
        """Returns the record, which has no UID, with the UID in *trailer*. Changes no row."""
        checksum = crc32(trailer, self.checksum)
        start = records.CHECK.pack(checksum, len(trailer) - 8) + self[records.SUMMED_AT :]
        return self.of(start + trailer, self.body, self.size + len(trailer), checksum)

    def keep(self, tx: Transaction) -> int:
        """Makes the rows those of a message: writes the head and the UID to them.

        Returns:
            The id of the rows.
        """
        body = self.body
        first = keys.body(body.id, 0)
        row = tx.get(first) or b""
        tx.put(first, self[: records.SUMMED_AT] + row[records.SUMMED_AT :])
        added = self.size - body.size
        if added:
            chunk, used = divmod(body.size, VALUE_MAX_BYTES)
            last = (tx.get(keys.body(body.id, chunk)) or b"")[:used] + self[-added:]
            for start in range(0, len(last), VALUE_MAX_BYTES):
                tx.put(keys.body(body.id, chunk), last[start : start + VALUE_MAX_BYTES])
                chunk += 1
        tx.delete(keys.unowned(body.id))
        tx.rows_used += 4
        body.is_owned = True
        return body.id


def start_bytes(record: bytes) -> int:
    """Returns the number of bytes before the body of the message, according to the head."""
    head = records.Head._make(records.HEAD.unpack_from(record))
    size = records.HEAD_BYTES + head.correlation_length + head.envelope_length
    if head.group_flags:
        size += records.GROUP.size
    return size + (records.DELAY.size if head.flags & records.FLAG_DELAYED else 0)


def stamped(record: bytes, trailer: bytes) -> bytes:
    """Returns *record*, which has no UID, with the UID in *trailer*."""
    if isinstance(record, LongRecord):
        return record.stamped(trailer)
    return records.stamp_encoded(record, trailer)


def check(record: bytes) -> records.Head:
    """Checks *record* as :func:`qmgr_protocol.record.check` does."""
    return record.check() if isinstance(record, LongRecord) else records.check(record)


def read(tx: Transaction, body_id: int, start: int, stop: int) -> bytes:
    """Returns the bytes from *start*, a multiple of the size of a row, to *stop*.

    There are fewer if rows are missing.
    """
    first, last = start // VALUE_MAX_BYTES, -(-stop // VALUE_MAX_BYTES)
    data = b"".join(row for _, row in tx.scan(keys.body(body_id, first), keys.body(body_id, last)))
    return data[: stop - start]


def opened(tx: Transaction, body_id: int, size: int, trailer: bytes) -> LongRecord | None:
    """Returns the record of *size* bytes in the rows of *body_id*, or None if it is damaged.

    Reads only the rows of its parts. The caller compares the checksum when it reads the others.

    Args:
        tx: The transaction of the turn.
        body_id: The id of the rows.
        size: The size of the whole record.
        trailer: The encoded UID of the message.
    """
    start = read(tx, body_id, 0, VALUE_MAX_BYTES)
    if len(start) < records.HEAD_BYTES or records.size_of(start) != size:
        return None
    wanted = start_bytes(start)
    if wanted > len(start):
        start = read(tx, body_id, 0, wanted)
    tail_at = max(size - len(trailer), 0) // VALUE_MAX_BYTES * VALUE_MAX_BYTES
    if len(start) < wanted or not read(tx, body_id, tail_at, size).endswith(trailer):
        return None
    checksum = int.from_bytes(start[records.CHECKSUM], "big")
    return LongRecord.of(start[:wanted] + trailer, Body(body_id, size), size, checksum)
