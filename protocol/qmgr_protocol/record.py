"""The record: the bytes of a message, which are the same on the wire, on disk and for Spark.

    byte 0    checksum            u32   crc32 of every byte from 5 on
         4    origin_length       u8    0 = not stamped yet
         5    version             u8    1
         6    priority            u8    0-9, 9 first
         7    flags               u8    readers must know bits 4-7, may ignore bits 0-3
                                        bit 0 priority of the queue, bit 1 not persistent,
                                        bit 2 report if it expires, bit 3 retained by its topic,
                                        bit 4 a delay
         8    expiry_ms           u64   0 = never
        16    correlation_length  u8    at most 64
        17    group_flags         u8    bit 0 in a group, bit 1 last in its group
        18    envelope_length     u16
        20    body_length         u32
        24    correlation id, then in a group: group id (24) and number (u32), then with a
              delay: milliseconds (u64) from the put until the message is available,
              then the envelope (a msgpack map), the body, and, after stamping:
              origin (text), timestamp (u64, microseconds)

All integers are big-endian. The origin and the timestamp form the UID, which identifies the
message. The UID is at the end of a record. A queue manager that stamps a record therefore only
extends the checksum by the UID.

To change the format, raise VERSION, keep reading the older version, and add a golden vector.
"""

import struct
from typing import Any, NamedTuple

from qmgr_protocol.checksum import crc32
from qmgr_protocol.codec import pack, text_under, unpack
from qmgr_protocol.errors import ErrorCode, FrameMalformed, RequestError
from qmgr_protocol.name import NAME_MAX, is_name
from qmgr_protocol.outline import Outline

VERSION = 1
HEAD = struct.Struct(">IBBBBQBBHI")
HEAD_BYTES = HEAD.size
# The same head for loops over many records. The bytes from origin_length to flags are read as one
# value.
JOINED_HEAD = struct.Struct(">I4sQBBHI")
# The same head for a record in a group without a correlation id. The two lengths before
# envelope_length are read as one number, and the group follows.
GROUPED_HEAD = struct.Struct(">I4sQHHI24sI")
ORIGIN_LENGTH_AT = 4
SUMMED_AT = 5  # offset of the first byte that the checksum covers
PRIORITY_AT, FLAGS_AT = 6, 7
CORRELATION_LENGTH_AT = 16
GROUP_FLAGS_AT = 17
TIMESTAMP_AT = -8  # offset of the timestamp in a stamped record, after the origin
# Slices of a record. In a loop, a named slice takes less time than a slice that is built from
# numbers.
CHECKSUM, ORIGIN_LENGTH, ORIGIN_LENGTH_TO_FLAGS = slice(4), slice(4, 5), slice(4, 8)
VERSION_TO_FLAGS = slice(5, 8)
EXPIRY, EXPIRY_TO_GROUP_FLAGS = slice(8, 16), slice(8, 18)
CORRELATION_LENGTH, GROUP_FLAGS = slice(16, 17), slice(17, 18)
UID_ORIGIN, UID_TIMESTAMP = slice(-8), slice(-8, None)  # slices of an encoded UID
TIMESTAMP = struct.Struct(">Q")
GROUP = struct.Struct(">24sI")
GROUP_ID_BYTES = 24
GROUP_NUMBER_MAX = 999_999_999
CORRELATION_MAX_BYTES = 64
ENVELOPE_MAX_BYTES = 65_535
PRIORITY_MAX = 9
PRIORITY_DEFAULT = 4
TIMESTAMP_MAX = 2**63 - 1
UID_MAX_BYTES = NAME_MAX + TIMESTAMP.size  # maximum size of the UID in a record
EXPIRY_END = 2**63
DELAY_MAX_MS = 3_650 * 24 * 3_600_000
FLAG_PRIORITY_OF_QUEUE, FLAG_NOT_PERSISTENT, FLAG_REPORT_EXPIRY, FLAG_DELAYED = 1, 2, 4, 16
FLAG_RETAINED = 8
FLAGS_NOT_UNDERSTOOD = 0xE0
DELAY = struct.Struct(">Q")
IN_GROUP, LAST_IN_GROUP = 1, 2
HEADERS, REPLY_TO, CONTENT_TYPE = "headers", "reply_to", "content_type"  # keys of the envelope
_VIEWED_BYTES = 16 * 1024
CHECK = struct.Struct(">IB")


class Uid(NamedTuple):
    """The identity of a message: the name of its creator, and a timestamp unique to it."""

    origin: str
    timestamp: int  # microseconds, strictly increasing for each origin

    def __str__(self) -> str:
        return f"{self.origin}.{self.timestamp}"


class Head(NamedTuple):
    """The decoded fixed part of a record."""

    checksum: int
    origin_length: int
    version: int
    priority: int
    flags: int
    expiry_ms: int
    correlation_length: int
    group_flags: int
    envelope_length: int
    body_length: int


class Fields(NamedTuple):
    """The fields of a complete record."""

    body: bytes
    priority: int = PRIORITY_DEFAULT
    correlation_id: bytes = b""
    envelope: dict[str, Any] = {}  # noqa: RUF012 - no code changes the default
    uid: Uid | None = None
    group: tuple[bytes, int, bool] | None = None  # id, number, last
    expiry_ms: int = 0
    flags: int = 0  # flags without FLAG_DELAYED, which follows from delay_ms
    delay_ms: int = 0  # time from the put until the message is available


def encode(fields: Fields) -> bytes:
    """Returns *fields* as a record, with its checksum.

    Raises:
        RequestError: VALUE_INVALID if a field exceeds its limit.
    """
    correlation_id, body = fields.correlation_id, fields.body
    envelope = _pack_envelope(fields.envelope) if fields.envelope else b""
    _check_fields(fields, len(envelope))
    group, group_flags = b"", 0
    flags, delay = fields.flags & ~FLAG_DELAYED, b""
    if fields.delay_ms:
        flags, delay = flags | FLAG_DELAYED, DELAY.pack(fields.delay_ms)
    if fields.group is not None:
        group_id, number, last = fields.group
        _check_group(group_id, number)
        group = GROUP.pack(group_id, number)
        group_flags = IN_GROUP | (LAST_IN_GROUP if last else 0)
    head = HEAD.pack(
        0,
        0,
        VERSION,
        fields.priority,
        flags,
        fields.expiry_ms,
        len(correlation_id),
        group_flags,
        len(envelope),
        len(body),
    )
    rest = b"".join((head[5:], correlation_id, group, delay, envelope, body))
    record = CHECK.pack(crc32(rest), 0) + rest
    return record if fields.uid is None else stamp(record, fields.uid)


def _check_fields(fields: Fields, envelope_bytes: int) -> None:
    if not 0 <= fields.priority <= PRIORITY_MAX:
        raise _value_error(f"priority {fields.priority} is out of range (0 to {PRIORITY_MAX})")
    if len(fields.correlation_id) > CORRELATION_MAX_BYTES:
        size = len(fields.correlation_id)
        raise _value_error(
            f"correlation id of {size} bytes exceeds the limit of {CORRELATION_MAX_BYTES}"
        )
    if envelope_bytes > ENVELOPE_MAX_BYTES:
        raise _value_error(
            f"headers of {envelope_bytes} bytes exceed the limit of {ENVELOPE_MAX_BYTES}"
        )
    if len(fields.body) > 0xFFFF_FFFF:
        raise _value_error(f"body of {len(fields.body)} bytes exceeds the limit of {0xFFFF_FFFF}")
    if not 0 <= fields.expiry_ms < EXPIRY_END:
        raise _value_error(f"expiry of {fields.expiry_ms} ms is out of range (0 to 2**63 - 1)")
    if not 0 <= fields.delay_ms <= DELAY_MAX_MS:
        raise _value_error(f"delay of {fields.delay_ms} ms is out of range (0 to {DELAY_MAX_MS})")
    if not 0 <= fields.flags <= 0xFF:
        raise _value_error(f"flags {fields.flags} are out of range (0 to 255)")


def _check_group(group_id: bytes, number: int) -> None:
    if len(group_id) != GROUP_ID_BYTES:
        raise _value_error(f"group id of {len(group_id)} bytes; {GROUP_ID_BYTES} are required")
    if not 1 <= number <= GROUP_NUMBER_MAX:
        raise number_error(number)


def number_error(number: int) -> RequestError:
    """Returns the error for a *number* that is invalid in a group."""
    return RequestError(
        ErrorCode.GROUP_NUMBER_INVALID,
        f"number {number} in a group is out of range (1 to {GROUP_NUMBER_MAX})",
    )


def _pack_envelope(envelope: dict[str, Any]) -> bytes:
    try:
        data: bytes = pack(envelope)
        unpack(data)  # Refuses headers that no consumer could read.
    except (TypeError, ValueError, OverflowError, FrameMalformed) as error:
        raise _value_error(f"headers: {error}") from error
    return data


def _value_error(text: str) -> RequestError:
    return RequestError(ErrorCode.VALUE_INVALID, text)


def stamp(record: bytes, uid: Uid) -> bytes:
    """Returns *record*, which must not have a UID, with *uid* and an updated checksum."""
    return stamp_encoded(record, encode_uid(uid))


def encode_uid(uid: Uid) -> bytes:
    """Returns *uid* as the trailer of a record."""
    if not is_name(uid.origin) or not 0 <= uid.timestamp <= TIMESTAMP_MAX:
        raise _value_error(
            f"{str(uid)[:100]!r} is not a valid UID: it needs an origin of 1 to {NAME_MAX} "
            "characters of A-Z a-z 0-9 . _ -, and a timestamp below 2**63"
        )
    return uid.origin.encode() + TIMESTAMP.pack(uid.timestamp)


def stamp_encoded(record: bytes, trailer: bytes) -> bytes:
    """Returns *record* with *trailer*, which is a result of :func:`encode_uid`."""
    checksum = crc32(trailer, int.from_bytes(record[:4], "big"))
    head = CHECK.pack(checksum, len(trailer) - 8)
    return b"".join((head, _summed(record), trailer))


def without_report(record: bytes) -> bytes:
    """Returns *record*, which must be valid, without the flag that requests a report."""
    changed = bytearray(record)
    changed[FLAGS_AT] &= ~FLAG_REPORT_EXPIRY
    changed[CHECKSUM] = crc32(bytes(changed[SUMMED_AT:])).to_bytes(4, "big")
    return bytes(changed)


def _summed(record: bytes) -> bytes | memoryview:
    """Returns the bytes that the checksum covers, as a view if a view is faster than a copy."""
    if len(record) < _VIEWED_BYTES:
        return record[SUMMED_AT:]
    return memoryview(record)[SUMMED_AT:]


def check(record: bytes) -> Head:
    """Checks all properties of *record* that the daemon relies on, and returns the head.

    Raises:
        RequestError: CHECKSUM_MISMATCH or RECORD_MALFORMED, with the reason.
    """
    found_bytes = len(record)
    found_checksum = record.checksum if isinstance(record, Outline) else crc32(_summed(record))
    if found_bytes < HEAD_BYTES:
        raise _malformed_error(
            f"a record of {found_bytes} bytes is too short for a head of {HEAD_BYTES} bytes"
        )
    head = HEAD.unpack_from(record)
    checksum, origin, version, priority, flags, expiry, correlation, group, envelope, body = head
    size = HEAD_BYTES + correlation + envelope + body
    if origin:
        size += origin + 8
    if group:
        size += GROUP.size
    if flags & FLAG_DELAYED:
        size += DELAY.size
    if found_checksum != checksum:
        raise RequestError(
            ErrorCode.CHECKSUM_MISMATCH, "the checksum of the record does not match its contents"
        )
    if (
        size != found_bytes
        or version != VERSION
        or priority > PRIORITY_MAX
        or flags & FLAGS_NOT_UNDERSTOOD
        or correlation > CORRELATION_MAX_BYTES
        or origin > 64
        or group > (IN_GROUP | LAST_IN_GROUP)
        or group == LAST_IN_GROUP
        or expiry >= EXPIRY_END
    ):
        raise _head_error(Head._make(head), size, found_bytes)
    found = Head._make(head)
    if flags & FLAG_DELAYED and delay_of(record, found) > DELAY_MAX_MS:
        raise _malformed_error(f"a delay of {delay_of(record, found)} ms exceeds {DELAY_MAX_MS} ms")
    return found


def delay_of(record: bytes, head: Head) -> int:
    """Returns the delay in milliseconds of a *record* with *head* and a valid size."""
    if not head.flags & FLAG_DELAYED:
        return 0
    at = HEAD_BYTES + head.correlation_length + (GROUP.size if head.group_flags else 0)
    delay_ms: int = DELAY.unpack_from(record, at)[0]
    return delay_ms


def size_of(record: bytes) -> int:
    """Returns the size according to the head of *record*; 0 if the head is incomplete."""
    if len(record) < HEAD_BYTES:
        return 0
    _, origin, _, _, flags, _, correlation, group, envelope, body = HEAD.unpack_from(record)
    size: int = HEAD_BYTES + correlation + envelope + body + (origin + 8 if origin else 0)
    return size + (GROUP.size if group else 0) + (DELAY.size if flags & FLAG_DELAYED else 0)


def too_large_text(size_bytes: int, limit_bytes: int) -> str:
    """Returns the error text for a message that is refused because it is too large."""
    return (
        f"message of {size_bytes} bytes (body, headers and {HEAD_BYTES} more) "
        f"exceeds the limit of {limit_bytes} bytes"
    )


def own_bytes(record: bytes) -> int:
    """Returns the size of *record* without its UID, which message_max_bytes limits.

    Therefore, a message has the same size before and after stamping. An incomplete record has no
    UID.
    """
    if len(record) < HEAD_BYTES:
        return len(record)
    origin_length = record[ORIGIN_LENGTH_AT]
    return len(record) - (origin_length + TIMESTAMP.size if origin_length else 0)


def envelope_bytes(record: bytes) -> int:
    """Returns the size of the envelope according to the head of *record*; 0 if it is incomplete."""
    if len(record) < HEAD_BYTES:
        return 0
    return Head._make(HEAD.unpack_from(record)).envelope_length


def _head_error(head: Head, expected: int, found: int) -> RequestError:
    """Returns the error for a head that failed :func:`check`."""
    if head.version != VERSION:
        return _malformed_error(
            f"unknown version {head.version}; only version {VERSION} is supported"
        )
    if head.flags & FLAGS_NOT_UNDERSTOOD:
        return _malformed_error(
            f"flags {head.flags:#04x} contain an unknown flag that must not be ignored"
        )
    if expected != found:
        return _malformed_error(
            f"the record has {found} bytes, but its lengths add up to {expected}"
        )
    return _malformed_error(f"a field is out of range: {head}")


def _malformed_error(text: str) -> RequestError:
    return RequestError(ErrorCode.RECORD_MALFORMED, text)


def own_priority(record: bytes) -> int | None:
    """Returns the priority of *record*, or None if the queue chooses the priority."""
    return None if record[FLAGS_AT] & FLAG_PRIORITY_OF_QUEUE else record[PRIORITY_AT]


def decode_uid(trailer: bytes) -> Uid:
    """Returns the UID in *trailer* for display, without any check."""
    timestamp = int.from_bytes(trailer[UID_TIMESTAMP], "big")
    return Uid(trailer[UID_ORIGIN].decode(errors="replace"), timestamp)


def trailer_of(record: bytes) -> bytes:
    """Returns the encoded UID of a stamped *record*."""
    return record[TIMESTAMP_AT - record[ORIGIN_LENGTH_AT] :]


def uid_of(record: bytes, origin_length: int) -> Uid:
    """Returns the UID of a stamped *record* whose head states *origin_length*.

    Raises:
        RequestError: RECORD_MALFORMED if the origin is not a plain name or the timestamp is too
            large.
    """
    timestamp = int.from_bytes(record[TIMESTAMP_AT:], "big")
    origin = record[-8 - origin_length : -8].decode(errors="replace")
    if not is_name(origin):  # Each origin gets a row and is shown to operators.
        raise _malformed_error(
            f"the origin {origin!r} is not a valid name: use 1 to {NAME_MAX} of A-Z a-z 0-9 . _ -"
        )
    if timestamp > TIMESTAMP_MAX:
        raise _malformed_error(f"timestamp {timestamp} exceeds {TIMESTAMP_MAX}")
    return Uid(origin, timestamp)


def decode(record: bytes) -> Fields:
    """Returns the fields of *record*.

    Raises:
        RequestError: The errors of :func:`check`; RECORD_MALFORMED if the envelope is not a map.
    """
    head = check(record)
    start = HEAD_BYTES + head.correlation_length
    correlation_id = record[HEAD_BYTES:start]
    group = None
    if head.group_flags:
        group_id, number = GROUP.unpack_from(record, start)
        group = (group_id, number, bool(head.group_flags & LAST_IN_GROUP))
        start += GROUP.size
    if head.flags & FLAG_DELAYED:
        start += DELAY.size
    stop = start + head.envelope_length
    return Fields(
        body=record[stop : stop + head.body_length],
        priority=head.priority,
        correlation_id=correlation_id,
        envelope=unpack_envelope(record[start:stop]),
        uid=uid_of(record, head.origin_length) if head.origin_length else None,
        group=group,
        expiry_ms=head.expiry_ms,
        flags=head.flags & ~FLAG_DELAYED,
        delay_ms=delay_of(record, head),
    )


def envelope_text(record: bytes, key: str) -> str | None:
    """Returns the text under *key* in the envelope of *record*, or None if it has none.

    Nothing else in the envelope is decoded or checked, because decoding a large one takes long.

    Raises:
        RequestError: The errors of :func:`check`; RECORD_MALFORMED if the envelope is not a map.
    """
    head = check(record)
    start = HEAD_BYTES + head.correlation_length
    start += (GROUP.size if head.group_flags else 0) + (
        DELAY.size if head.flags & FLAG_DELAYED else 0
    )
    data = record[start : start + head.envelope_length]
    try:
        return text_under(data, key) if data else None
    except FrameMalformed as error:
        raise _malformed_error(f"invalid envelope: {error}") from None


def unpack_envelope(data: bytes) -> dict[str, Any]:
    """Returns the envelope in *data*, or an empty envelope if *data* is empty.

    Raises:
        RequestError: RECORD_MALFORMED if the envelope is not a map.
    """
    if not data:
        return {}
    try:
        envelope = unpack(data)
    except FrameMalformed as error:
        raise _malformed_error(f"invalid envelope: {error}") from None
    if type(envelope) is not dict:
        raise _malformed_error(f"the envelope is of type {type(envelope).__name__}, not a map")
    return envelope
