"""The history of messages. Its bytes are the same on disk, on the wire and for Spark.

A row of history is a msgpack array: version (1), turn, store clock (ms), then its sections. A
section describes events of one kind on one queue at one time, for one or more messages:

    [kind, at_us, queue, queue_id, peer, target, code, messages,
     arrivals, priorities, origins, timestamps, sizes, delivered, failed, ages_us]

The last eight elements are columns. If all messages have the same value, the column is that value.
If the values increase by one, the column is an array that contains only the first integer.
Otherwise the column is an array with a value for each message. An unknown value is nil. Sections,
and the messages in each section, are in the order of events.

To change the format, raise VERSION, keep reading the older version, and add a golden vector.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import FrameMalformed

VERSION = 1
EVENTS = (
    "put",
    "available",
    "delivered",
    "returned",
    "settled",
    "expired",
    "dead-lettered",
    "transferred",
    "published",
    "republished",
    "parked",
    "moved",
    "removed",
    "lost",
    "damaged",
)
(
    PUT,
    AVAILABLE,
    DELIVERED,
    RETURNED,
    SETTLED,
    EXPIRED,
    DEAD_LETTERED,
    TRANSFERRED,
    PUBLISHED,
    REPUBLISHED,
    PARKED,
    MOVED,
    REMOVED,
    LOST,
    DAMAGED,
) = range(len(EVENTS))
ROW_MAX_BYTES = 3_900
MESSAGES_MAX = 512  # maximum number of messages in a section
_HEAD_BYTES = 32  # upper bound of the bytes before the sections of a row
_TIMESTAMP_BYTES = 8
_HEAD_TYPES = [int, int, str, int, str, str, int, int]  # types of the first fields of a section

# The values of a message in an event: arrival, priority, encoded UID, size of the record, number of
# returns, number of returns that were failures, and microseconds since the put. An unknown value is
# None.
Happening = tuple[int, int | None, bytes, int | None, int | None, int | None, int | None]


class HistoryMalformed(ValueError):
    """The bytes are not a valid row of history. The text states the reason."""


class Section(NamedTuple):
    """One kind of event for messages of one queue at one time. Columns are in their stored form."""

    kind: int
    at_us: int  # wall-clock time of the events, in microseconds
    queue: str
    queue_id: int  # id of the queue: a later queue may have the same name
    peer: str  # client that had the messages, or queue manager that has the messages; may be empty
    target: str  # queue or topic that received the messages; may be empty
    code: int  # ErrorCode of the reason; 0 if the event has no reason
    messages: int
    arrivals: Any
    priorities: Any
    origins: Any
    timestamps: Any
    sizes: Any  # sizes of the records in bytes
    delivered: Any
    failed: Any
    ages_us: Any


COLUMNS = Section._fields[8:]


class Row(NamedTuple):
    """A row of history."""

    turn: int
    clock_ms: int
    sections: list[Section]


Head = tuple[int, int, str, int, str, str, int]  # the fields of a section, from kind to code


class Open(NamedTuple):
    """A section that is being written, message by message."""

    head: Head
    happenings: list[Happening]


def encode(turn: int, clock_ms: int, sections: Iterable["Open | bytes"]) -> list[bytes]:
    """Returns *sections*, some of which may already be packed, as rows of at most ROW_MAX_BYTES."""
    rows: list[bytes] = []
    held: list[bytes] = []
    size = _HEAD_BYTES
    for section in sections:
        for piece in [section] if type(section) is bytes else _pieces_of(section):
            if held and size + len(piece) > ROW_MAX_BYTES:
                rows.append(_row(turn, clock_ms, held))
                held, size = [], _HEAD_BYTES
            held.append(piece)
            size += len(piece)
    if held:
        rows.append(_row(turn, clock_ms, held))
    return rows


def _row(turn: int, clock_ms: int, sections: list[bytes]) -> bytes:
    count = 3 + len(sections)
    start = bytes([0x90 | count]) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
    return b"".join((start, pack(VERSION), pack(turn), pack(clock_ms), *sections))


def _pieces_of(section: Any) -> list[bytes]:
    found = []
    for start in range(0, len(section.happenings), MESSAGES_MAX):
        happenings = section.happenings[start : start + MESSAGES_MAX]
        arrivals, priorities, trailers, *rest = zip(*happenings, strict=True)
        columns = (arrivals, priorities, *uids(trailers), *rest)
        found += packed(section.head, len(happenings), columns)
    return found


def packed(head: Head, count: int, columns: Sequence[Any]) -> list[bytes]:
    """Returns the events of *count* messages as sections, each short enough for a row.

    Args:
        columns: The columns in the order of COLUMNS. Each column is a tuple of values, or the value
            that all messages have.
    """
    if count <= MESSAGES_MAX:
        data = bytes(pack((*head, count, *map(_column, columns))))
        if len(data) + _HEAD_BYTES <= ROW_MAX_BYTES or count == 1:
            return [data]
    half = count // 2
    first = [column[:half] if type(column) is tuple else column for column in columns]
    rest = [column[half:] if type(column) is tuple else column for column in columns]
    return packed(head, half, first) + packed(head, count - half, rest)


def uids(encoded: Sequence[bytes], skip: int = 0) -> tuple[Any, tuple[int, ...]]:
    """Returns the origins and timestamps of encoded UIDs, each preceded by *skip* bytes.

    The origin of a damaged UID is None.
    """
    first, count = encoded[0], len(encoded)
    length = len(first)
    if set(map(len, encoded)) == {length} and length >= skip + _TIMESTAMP_BYTES:
        together = b"".join(encoded)
        front = length - _TIMESTAMP_BYTES
        if all(together[at::length] == first[at : at + 1] * count for at in range(skip, front)):
            return _origin(first[skip:front]), _timestamps(front, count).unpack(together)
    return (
        tuple([_origin(uid[skip:-_TIMESTAMP_BYTES]) for uid in encoded]),
        tuple([int.from_bytes(uid[-_TIMESTAMP_BYTES:], "big") for uid in encoded]),
    )


@lru_cache(maxsize=MESSAGES_MAX)
def _timestamps(front: int, count: int) -> struct.Struct:
    return struct.Struct(">" + f"{front}xQ" * count)


def _origin(name: bytes) -> str | None:
    return name.decode("ascii", "replace") or None


def _column(values: Any) -> Any:
    """Returns a column in its shortest form."""
    if type(values) is not tuple:
        return values
    first, count = values[0], len(values)
    if values.count(first) == count:
        return first
    if type(first) is int and values[-1] == first + count - 1:
        rising = tuple(range(first, first + count))
        return [first] if values == rising else values
    return values


def decode(row: bytes) -> Row:
    """Returns the contents of *row*.

    Raises:
        HistoryMalformed: *row* is invalid, or its version is unknown.
    """
    try:
        version, turn, clock_ms, *sections = unpack(row)
        if version != VERSION:
            raise HistoryMalformed(
                f"unknown version {version}; only version {VERSION} is supported"
            )
        if (type(turn), type(clock_ms)) != (int, int):
            raise HistoryMalformed(f"invalid turn {turn!r:.40} or clock {clock_ms!r:.40}")
        return Row(turn, clock_ms, [_checked(Section(*section)) for section in sections])
    except (FrameMalformed, TypeError, ValueError) as error:
        raise HistoryMalformed(f"not a valid row of history: {error}") from error


def _checked(section: Section) -> Section:
    if [type(field) for field in section[:8]] != _HEAD_TYPES:
        raise HistoryMalformed(f"invalid section: it begins with {section[:8]!r:.200}")
    if not (0 <= section.kind < len(EVENTS) and 1 <= section.messages <= MESSAGES_MAX):
        raise HistoryMalformed(
            f"invalid section: kind {section.kind} with {section.messages} messages"
        )
    for name, column in zip(COLUMNS, section[8:], strict=True):
        if type(column) is not list:
            continue
        if len(column) not in (1, section.messages):
            raise HistoryMalformed(
                f"column {name} has {len(column)} values for {section.messages} messages"
            )
        if len(column) == 1 and type(column[0]) is not int:
            raise HistoryMalformed(f"column {name} increases from {column[0]!r:.40}")
    return section


def values(column: Any, count: int) -> Sequence[Any]:
    """Returns the *count* values of a column."""
    if type(column) is not list:
        return (column,) * count
    if len(column) == 1:
        return range(column[0], column[0] + count)
    return column
