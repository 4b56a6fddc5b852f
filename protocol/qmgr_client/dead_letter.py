"""Why a message is a dead letter, and how often it failed: the note that comes with it.

A note is a msgpack map, made by whichever queue managers it came through. What is missing in it, or
of another type than it should be, reads as nothing; what cannot be read at all is no note.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import ErrorCode, FrameMalformed

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
US_MAX = 253_402_300_799_999_999  # the last microsecond of the year 9999

Kind = TypeVar("Kind", int, str)


class Attempt(NamedTuple):
    """One time that it failed."""

    us: int  # wall clock of the queue manager, microseconds
    code: ErrorCode
    reason: str  # what the consumer said
    text: str
    client: str  # the name of who had it


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Why a message lies on a dead-letter queue."""

    code: ErrorCode
    reason: str  # what the consumer said of it, a word
    text: str  # the same for people
    queue: str  # where it came from
    manager: str
    us: int  # wall clock there when it became one, microseconds
    failed: int  # the counts that it had there
    delivered: int
    retries: int  # how often it went back already
    left_ms: int | None  # the time that it had left; None is for ever
    attempts: tuple[Attempt, ...]

    @property
    def code_name(self) -> str:
        """The code as a word."""
        return self.code.name

    @property
    def time(self) -> datetime:
        """When it became a dead letter."""
        return EPOCH + timedelta(microseconds=min(self.us, US_MAX))


def read(note: bytes) -> dict[Any, Any] | None:
    """Return the map that *note* is, or None where it is none."""
    if not note:
        return None
    try:
        found = unpack(note)
    except FrameMalformed:
        return None
    return found if type(found) is dict else None


def dead_letter(note: bytes) -> DeadLetter | None:
    """Return what *note* tells of a dead letter; None where the message is none."""
    found = read(note)
    if found is None or type(found.get("code")) is not int:
        return None
    left_ms = found.get("left_ms")
    return DeadLetter(
        code=ErrorCode(found["code"]),
        reason=_value(found.get("reason"), ""),
        text=_value(found.get("text"), ""),
        queue=_value(found.get("queue"), ""),
        manager=_value(found.get("manager"), ""),
        us=_value(found.get("us"), 0),
        failed=_value(found.get("failed"), 0),
        delivered=_value(found.get("delivered"), 0),
        retries=_value(found.get("retries"), 0),
        left_ms=left_ms if type(left_ms) is int else None,
        attempts=attempts(note),
    )


def attempts(note: bytes) -> tuple[Attempt, ...]:
    """Return the failures that *note* lists, the oldest first; those that can be read."""
    found = (read(note) or {}).get("attempts")
    if type(found) is not list:
        return ()
    return tuple(_attempt(row) for row in found if type(row) is list)


def _attempt(row: list[Any]) -> Attempt:
    us, code, reason, text, client = (row + [None] * 5)[:5]
    return Attempt(
        _value(us, 0),
        ErrorCode(_value(code, 0)),
        _value(reason, ""),
        _value(text, ""),
        _value(client, ""),
    )


def _value(found: Any, otherwise: Kind) -> Kind:
    """Return *found* if it is of the type that it should be, and no number below 0."""
    if type(found) is not type(otherwise) or (type(found) is int and found < 0):
        return otherwise
    return found
