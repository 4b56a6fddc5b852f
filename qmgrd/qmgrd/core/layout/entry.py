"""The entry: a stored message, which is the daemon's fields followed by the producer's record.

    byte 0   version       u8   2
         1   flags         u8   bit 0: the record is in body rows; bit 1: the message has a note;
                                bit 2: a restart loses the message; bit 3: on a transmission
                                queue, the delay ends at due_ms; bit 4: the record is stored with
                                a publication; bit 5: republished; bit 6: parked until the
                                subscriber returns, then republished
         2   hops          u8
         3   target_length u8   length of the destination queue on a transmission queue, or of
                                the topic of a publication
         4   delivered     u16  number of returns after a delivery
         6   failed        u16  number of these returns by a release or the end of a lease
         8   put_us        u64  time of the put, wall clock in microseconds
        16   expires_ms    u64  time of the expiry, store clock; 0 = never
        24   due_ms        u64  time of the row in the schedule, store clock; 0 = no row
        32   target, then the record, or: body id (u64), record bytes (u32), UID as in the record

A subscription stores references to publications. A reference has only the length and UID of the
record. A reference without expiry and delay has a shorter form until its first return:

    byte 0   version       u8   3
         1   flags         u8   as above
         2   put_us        u64
        10   record bytes  u32, UID as in the record

No value of the store is longer than VALUE_MAX_BYTES. A longer record is stored in rows of that
size. (DESIGN: on a fragmented store, one long value took 27 ms of loop time. Rows took 0.5 ms.)

A disk error may change any byte, and no checksum covers the daemon's fields. Therefore, this module
never raises an error for invalid fields. An entry with invalid fields is UNREADABLE. Its record is
empty and is never delivered.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgrd.core.layout import keys, long_record
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.long_record import VALUE_MAX_BYTES as VALUE_MAX_BYTES
from qmgrd.core.layout.long_record import LongRecord

VERSION, SHORT = 2, 3
INLINE, IN_ROWS, NOTED, VOLATILE, DELAYED, UNREADABLE = 0, 1, 2, 4, 8, 255
SHARED, REPUBLISHED, AWAITED = 16, 32, 64
_APART = IN_ROWS | SHARED
_FLAGS = IN_ROWS | NOTED | VOLATILE | DELAYED | SHARED | REPUBLISHED | AWAITED
COUNT_MAX = 0xFFFF
HEAD = struct.Struct(">BBBBHHQQQ")
HEAD_FIELDS = (
    "version",
    "flags",
    "hops",
    "target_length",
    "delivered",
    "failed",
    "put_us",
    "expires_ms",
    "due_ms",
)
HEAD_BYTES = HEAD.size
# The head of an entry without a target and the head of the record that follows. GROUPED_HEADS also
# has the group of the record, like records.GROUPED_HEAD. The version and the flags are one number.
HEADS = struct.Struct(">HxBHHQQQIB11xBBHI")
GROUPED_HEADS = struct.Struct(">HxBHHQQQIB11xHHI24sI")
PLAIN = VERSION << 8 | INLINE  # the version and the flags of an entry without special handling
# Maximum size of a stamped record in its entry. The difference leaves room for a target.
INLINE_MAX_BYTES = VALUE_MAX_BYTES - HEAD_BYTES - 64
FLAGS_AT, VERSION_AND_FLAGS = 1, slice(2)
_TARGET_LENGTH_AT, _EXPIRES_AND_DUE = 3, slice(16, 32)
_PLAIN_BYTES, _NEVER_DUE = PLAIN.to_bytes(2, "big"), bytes(16)
PUT_TIME = slice(2, 10)  # where a short entry has its put time
SIZE_OF_SHORT = slice(10, 14)  # where a short entry has the size of the record
_ROWS = struct.Struct(">QI")
_REST_MIN_BYTES = _ROWS.size  # the minimum size of the rest; the head of a record is longer
_SHORT = struct.Struct(">BBQ")
_SIZE = struct.Struct(">I")
_CHUNK_MAX = 0xFFFF_FFFF
WHOLE = 1 << 32  # above the size of every record
# The size above which a reader that needs no body of a message reads only the outline of a record.
OUTLINE_ABOVE_BYTES = 64 * 1024


class Entry(NamedTuple):
    """A decoded entry."""

    flags: int
    hops: int
    delivered: int
    failed: int
    put_us: int
    expires_ms: int
    due_ms: int
    target: str
    rest: bytes

    @property
    def in_rows(self) -> bool:
        """Whether the record is in body rows."""
        return self.flags != UNREADABLE and bool(self.flags & IN_ROWS)

    @property
    def shared(self) -> bool:
        """Whether the entry is a reference to a publication."""
        return self.flags != UNREADABLE and bool(self.flags & SHARED)

    @property
    def is_separate(self) -> bool:
        """Whether the record is stored outside the entry."""
        return self.flags != UNREADABLE and bool(self.flags & _APART)

    @property
    def noted(self) -> bool:
        """Whether the message has a note."""
        return self.flags != UNREADABLE and bool(self.flags & NOTED)

    @property
    def volatile(self) -> bool:
        """Whether a restart loses the message."""
        return self.flags != UNREADABLE and bool(self.flags & VOLATILE)

    @property
    def delayed(self) -> bool:
        """Whether the message is on a transmission queue and its delay has not ended."""
        return self.flags != UNREADABLE and bool(self.flags & DELAYED)


_HOPS, _PUT_US, _EXPIRES_MS, _REST = map(
    Entry._fields.index, ("hops", "put_us", "expires_ms", "rest")
)
_NOTHING = Entry(UNREADABLE, 0, 0, 0, 0, 0, 0, "", b"")


def decode(value: bytes) -> Entry:
    """Returns the entry in *value*. Use :func:`record` to read the record."""
    if value[:1] == b"\x03":
        return _decode_short(value)
    try:
        (version, flags, hops, target_length, delivered, failed, put_us, expires_ms, due_ms) = (
            HEAD.unpack_from(value)
        )
        start = HEAD_BYTES + target_length
        target = value[HEAD_BYTES:start].decode() if target_length else ""
    except (struct.error, UnicodeDecodeError):
        return _NOTHING
    rest = value[start:]
    if flags & ~_FLAGS or version != VERSION or len(rest) < _REST_MIN_BYTES:
        return _NOTHING
    return Entry(flags, hops, delivered, failed, put_us, expires_ms, due_ms, target, rest)


def _decode_short(value: bytes) -> Entry:
    rest = value[_SHORT.size :]
    if len(rest) < _REST_MIN_BYTES:
        return _NOTHING
    _, flags, put_us = _SHORT.unpack_from(value)
    if flags & ~_FLAGS or not flags & SHARED:
        return _NOTHING
    return Entry(flags, 0, 0, 0, put_us, 0, 0, "", rest)


def encode(entry: Entry) -> bytes:
    """Returns the stored value of *entry*, which must not be UNREADABLE."""
    if entry.flags & SHARED and not any(entry[_HOPS:_PUT_US] + entry[_EXPIRES_MS:_REST]):
        return _SHORT.pack(SHORT, entry.flags, entry.put_us) + entry.rest
    target = entry.target.encode()
    head = HEAD.pack(
        VERSION,
        entry.flags,
        entry.hops,
        len(target),
        entry.delivered,
        entry.failed,
        entry.put_us,
        entry.expires_ms,
        entry.due_ms,
    )
    return head + target + entry.rest


def encode_head(put_us: int, target: bytes = b"") -> bytes:
    """Returns the head of a new entry without expiry, delay or flags."""
    return HEAD.pack(VERSION, INLINE, 0, len(target), 0, 0, put_us, 0, 0) + target


def raised_count(count: int, by: bool) -> int:
    """Returns *count*, plus 1 if *by* is set, but at most COUNT_MAX."""
    return min(count + by, COUNT_MAX)


def rows_of(record_bytes: int) -> int:
    """Returns the number of body rows that a record needs, or 0 if it fits in its entry."""
    return 0 if record_bytes <= INLINE_MAX_BYTES else -(-record_bytes // VALUE_MAX_BYTES)


def write_rows(tx: Transaction, body_id: int, record: bytes, trailer: bytes) -> bytes:
    """Stores *record* in body rows, unless it has rows already.

    Returns:
        The part of its entry that refers to the rows.
    """
    if isinstance(record, LongRecord):
        return _ROWS.pack(record.keep(tx), len(record)) + trailer
    for chunk, start in enumerate(range(0, len(record), VALUE_MAX_BYTES)):
        tx.put(keys.body(body_id, chunk), record[start : start + VALUE_MAX_BYTES])
    tx.rows_used += chunk + 1
    return _ROWS.pack(body_id, len(record)) + trailer


def record(tx: Transaction, entry: Entry) -> bytes:
    """Returns the record of *entry*. The record is empty or incomplete if rows are missing."""
    if not entry.is_separate:
        return entry.rest
    if entry.shared:
        found = record(tx, publication(tx, entry))
    else:
        found = b"".join(row for _, row in _rows(tx, entry))
    # A damaged body id may refer to the rows of another message, whose UID differs.
    return found if found.endswith(uid_trailer(entry)) else b""


def publication(tx: Transaction, entry: Entry) -> Entry:
    """Returns the publication of a shared *entry*, or an UNREADABLE entry if it is missing."""
    position = tx.get(keys.publication_uid(uid_trailer(entry)))
    value = None if position is None else tx.get(keys.publication_at(position))
    return _NOTHING if value is None else decode(value)


def reference(put_us: int, record_bytes: int, trailer: bytes) -> bytes:
    """Returns a new reference to a publication with the given put time, length and UID."""
    return _SHORT.pack(SHORT, SHARED, put_us) + rest_of_reference(record_bytes, trailer)


def rest_of_reference(record_bytes: int, trailer: bytes) -> bytes:
    """Returns the part of a shared entry that refers to its publication."""
    return _SIZE.pack(record_bytes) + trailer


def is_sound(record: bytes) -> bool:
    """Returns whether a stamped *record* is intact, including its origin_length."""
    if len(record) < records.HEAD_BYTES:
        return False
    head = records.HEAD.unpack_from(record)
    checksum, origin, _, _, flags, _, correlation, group, envelope, body = head
    size = records.HEAD_BYTES + correlation + envelope + body + origin + 8
    if group:
        size += records.GROUP.size
    if flags & records.FLAG_DELAYED:
        size += records.DELAY.size
    same: bool = size == len(record) and crc32(memoryview(record)[records.SUMMED_AT :]) == checksum
    return same


def has_sound_uid(tx: Transaction, entry: Entry) -> bool:
    """Returns whether the UID of *entry* is intact, without reading all of a long record."""
    if not entry.in_rows:
        return is_sound(entry.rest)
    body_id, size = _ROWS.unpack_from(entry.rest)
    trailer, last = uid_trailer(entry), max(size - 1, 0) // VALUE_MAX_BYTES
    end = tx.get(keys.body(body_id, last)) or b""
    if len(end) < len(trailer) and last:
        end = (tx.get(keys.body(body_id, last - 1)) or b"") + end
    return end.endswith(trailer)


class Sound(NamedTuple):
    """A message that can be delivered."""

    entry: Entry
    record: bytes
    trailer: bytes  # the encoded UID
    checksum: int
    topic: str = ""  # the topic of a publication


def open_sound(tx: Transaction, value: bytes, whole_max_bytes: int = WHOLE) -> Sound | None:
    """Returns the parts of an entry that a delivery requires, or None if the entry is damaged.

    Args:
        tx: The transaction of the turn.
        value: The value of the entry.
        whole_max_bytes: The size above which a record in rows is returned as a
            :class:`~qmgrd.core.layout.long_record.LongRecord`, whose checksum is not compared.
    """
    entry, topic = decode(value), ""
    held = entry
    if entry.shared:
        held = publication(tx, entry)
        topic = held.target
    trailer = uid_trailer(entry)
    record_ = outlined(tx, held, whole_max_bytes)
    if isinstance(record_, LongRecord):
        return Sound(entry, record_, trailer, record_.checksum, topic)
    if (entry.shared and not record_.endswith(trailer)) or not is_sound(record_):
        return None
    return Sound(entry, record_, trailer, checksum_of(record_), topic)


def outlined(tx: Transaction, entry: Entry, whole_max_bytes: int) -> bytes:
    """Returns the record of *entry*, which is not shared, or its outline if it is longer.

    It is empty or incomplete if rows are missing.
    """
    if not entry.in_rows or record_bytes(entry) <= whole_max_bytes:
        return record(tx, entry)
    body_id, size = _ROWS.unpack_from(entry.rest)
    return long_record.opened(tx, body_id, size, uid_trailer(entry)) or b""


def front(tx: Transaction, entry: Entry) -> bytes:
    """Returns the record of *entry*, or at least the part before the envelope of a long record."""
    if not entry.is_separate:
        return entry.rest
    if entry.shared:
        return front(tx, publication(tx, entry))
    body_id, _ = _ROWS.unpack_from(entry.rest)
    return tx.get(keys.body(body_id, 0)) or b""


def checksum_of(record: bytes) -> int:
    """Returns the checksum in *record*."""
    return int.from_bytes(record[records.CHECKSUM], "big")


def delete_rows(tx: Transaction, entry: Entry) -> int:
    """Deletes the body rows of *entry*. Returns the number of deleted rows."""
    if not entry.in_rows:
        return 0
    rows = list(_rows(tx, entry))
    if not b"".join(row for _, row in rows[-2:]).endswith(entry.rest[_ROWS.size :]):
        return 0  # The rows are damaged or belong to another message, so they must stay.
    for key, _ in rows:
        tx.delete(key)
    tx.rows_used += len(rows)
    return len(rows)


def _rows(tx: Transaction, entry: Entry) -> Iterator[tuple[bytes, bytes]]:
    body_id, _ = _ROWS.unpack_from(entry.rest)
    return tx.scan(keys.body(body_id, 0), keys.body(body_id, _CHUNK_MAX))


def body_id(entry: Entry) -> int:
    """Returns the id of the body rows of *entry*, which must have some."""
    return int(_ROWS.unpack_from(entry.rest)[0])


def body_rows(entry: Entry) -> int:
    """Returns the number of body rows of *entry*."""
    return rows_of(record_bytes(entry)) if entry.in_rows else 0


def plain_parts(value: bytes) -> tuple[bytes, bytes] | None:
    """Returns the target and the record of an entry without expiry, delay or flags, or None.

    Faster than :func:`decode`. The target and the record may be damaged. The result is None for a
    target that is not ASCII, because such a target may be unreadable.
    """
    if value[VERSION_AND_FLAGS] != _PLAIN_BYTES or value[_EXPIRES_AND_DUE] != _NEVER_DUE:
        return None
    start = HEAD_BYTES + value[_TARGET_LENGTH_AT]
    target = value[HEAD_BYTES:start]
    if len(value) < start + records.HEAD_BYTES or not target.isascii():
        return None
    return target, value[start:]


def record_bytes(entry: Entry) -> int:
    """Returns the size of the record of *entry*."""
    if not entry.is_separate:
        return len(entry.rest)
    if entry.flags & SHARED:
        return int(_SIZE.unpack_from(entry.rest)[0])
    return int(_ROWS.unpack_from(entry.rest)[1])


def separate_bytes(value: bytes) -> int:
    """Returns the size of the record if it is stored outside its entry, and otherwise 0.

    The record is not read. The size may be wrong if the entry is damaged.
    """
    entry = decode(value)
    return record_bytes(entry) if entry.is_separate else 0


def uid_trailer(entry: Entry) -> bytes:
    """Returns the encoded UID of *entry*: the origin and timestamp at the end of its record."""
    if entry.is_separate:
        return entry.rest[_SIZE.size if entry.flags & SHARED else _ROWS.size :]
    rest = entry.rest
    return rest[records.TIMESTAMP_AT - rest[records.ORIGIN_LENGTH_AT] :] if rest else b""
