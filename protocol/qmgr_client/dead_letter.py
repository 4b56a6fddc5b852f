"""The note of a message: why it is a dead letter, and its earlier failures.

A note is a msgpack map. The queue managers that handled the message wrote it. Fields that are
missing or have a wrong type read as empty, and an unreadable note as no note.
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
    """One failure of a message."""

    us: int  # microseconds since 1970, by the clock of the queue manager
    code: ErrorCode
    reason: str  # a word that the consumer set
    text: str
    client: str  # the name of the client that leased it


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Why a message is on a dead-letter queue."""

    code: ErrorCode
    reason: str  # a word that the consumer set
    text: str  # a description
    queue: str  # the queue that it came from
    manager: str
    us: int  # when it became a dead letter, microseconds since 1970
    failed: int  # the counts that it had on that queue
    delivered: int
    retries: int  # how often it was returned to its queue before
    left_ms: int | None  # the time until its expiry; None: forever
    attempts: tuple[Attempt, ...]

    @property
    def code_name(self) -> str:
        """The name of the code."""
        return self.code.name

    @property
    def time(self) -> datetime:
        """The time when it became a dead letter."""
        return EPOCH + timedelta(microseconds=min(self.us, US_MAX))


def read(note: bytes) -> dict[Any, Any] | None:
    """Returns the map in *note*, or None if there is none."""
    if not note:
        return None
    try:
        found = unpack(note)
    except FrameMalformed:
        return None
    return found if type(found) is dict else None


def dead_letter(note: bytes) -> DeadLetter | None:
    """Returns the dead letter that *note* describes, or None if the message is not one."""
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
    """Returns the failures in *note* that can be read, oldest first."""
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
    """Returns *found* if it has the type of *otherwise* and is not negative."""
    if type(found) is not type(otherwise) or (type(found) is int and found < 0):
        return otherwise
    return found
