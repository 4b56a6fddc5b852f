"""The note of a message: the reason why it is a dead letter, and its earlier failures.

A note is a msgpack map. The queue managers that handled the message wrote it. A field that is
missing or has a wrong type is read as empty. A note that cannot be read is ignored.
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

    us: int  # time: microseconds since 1970, by the clock of the queue manager
    code: ErrorCode
    reason: str  # word that the consumer set
    text: str
    client: str  # name of the client that leased the message


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The reason why a message is on a dead-letter queue."""

    code: ErrorCode
    reason: str  # word that the consumer set
    text: str  # description of the reason
    queue: str  # queue that the message came from
    manager: str  # queue manager of that queue
    us: int  # time when the message became a dead letter, microseconds since 1970
    failed: int  # number of failures on that queue
    delivered: int  # number of deliveries on that queue
    retries: int  # number of earlier returns to that queue
    left_ms: int | None  # time that was left until the expiry; None if the message never expires
    attempts: tuple[Attempt, ...]

    @property
    def code_name(self) -> str:
        """The name of the code."""
        return self.code.name

    @property
    def time(self) -> datetime:
        """The time when the message became a dead letter."""
        return EPOCH + timedelta(microseconds=min(self.us, US_MAX))


def read(note: bytes) -> dict[Any, Any] | None:
    """Returns the map in *note*, or None if *note* has no map."""
    if not note:
        return None
    try:
        found = unpack(note)
    except FrameMalformed:
        return None
    return found if type(found) is dict else None


def dead_letter(note: bytes) -> DeadLetter | None:
    """Returns the dead letter that *note* describes, or None for any other message."""
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
    """Returns the readable failures in *note*, oldest first."""
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
    """Returns *found*, or *otherwise* if *found* is negative or has another type."""
    if type(found) is not type(otherwise) or (type(found) is int and found < 0):
        return otherwise
    return found
