"""Messages as applications see them: what is delivered, what is put, and what became of a put."""

import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.messages import (
    DELIVERY,
    DELIVERY_BYTES,
    HANDLE,
    STATE_LEASED,
    STATE_MAYBE_REDELIVERED,
    STATE_REDELIVERED,
)
from qmgr_protocol.record import CONTENT_TYPE, HEADERS, PRIORITY_DEFAULT, REPLY_TO, Uid

Redelivered: TypeAlias = Literal["no", "maybe", "yes"]
Headers: TypeAlias = Mapping[str, Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Home(NamedTuple):
    """The store that a message was leased from, and which of its boots leased it.

    A handle means nothing to another store, nor to one that was put back to an earlier state.
    """

    store_id: bytes
    boot: int

    def knows(self, other: "Home") -> bool:
        """Return whether what *other* leased may be settled here."""
        return self.store_id == other.store_id and self.boot >= other.boot


NOWHERE = Home(b"", 0)


class Message(NamedTuple):
    """A message that was delivered or browsed.

    A tuple, as one is made in a sixth of the time that a frozen dataclass takes.
    """

    body: bytes
    uid: Uid | None
    priority: int
    correlation_id: bytes
    envelope: dict[str, Any]
    queue: str
    delivered: int  # how often before
    failed: int  # how many of these deliveries were released or ran out of time
    state: int
    put_us: int  # microseconds since 1970, by the queue manager's clock
    handle: bytes
    queue_id: int
    home: Home = NOWHERE
    consumer: int = 0  # the ticket of the consumer that it came to
    damage: str = ""  # why the record cannot be read; then the body is the record

    @property
    def headers(self) -> dict[str, Any]:
        """The producer's own headers."""
        found = self.envelope.get(HEADERS)
        return found if type(found) is dict else {}

    @property
    def reply_to(self) -> str:
        """The queue that the producer wants answers on, or nothing."""
        return _text(self.envelope.get(REPLY_TO))

    @property
    def content_type(self) -> str:
        """What the producer says the body is, or nothing."""
        return _text(self.envelope.get(CONTENT_TYPE))

    @property
    def redelivered(self) -> Redelivered:
        """Whether it was delivered before; after a crash of the queue manager nobody knows."""
        if self.state & STATE_REDELIVERED:
            return "yes"
        return "maybe" if self.state & STATE_MAYBE_REDELIVERED else "no"

    @property
    def leased(self) -> bool:
        """Whether somebody held it when it was browsed."""
        return bool(self.state & STATE_LEASED)

    @property
    def put_time(self) -> datetime:
        """When it was put on this queue."""
        return EPOCH + timedelta(microseconds=self.put_us)


class PutResult(NamedTuple):
    """A put that is on disk.

    ``uid`` is the message's identity: the caller's own, or what the queue manager stamped. It is
    None where the put was sent again after a lost answer and the first try had been stored: the
    queue manager then knows that it holds the message, but no longer under which UID.
    """

    uid: Uid | None
    resent: bool = False  # Sent more than once, or its answer came by way of a reconnect.


class Outgoing(NamedTuple):
    """A message to be put."""

    body: bytes
    uid: Uid | None = None  # None has the queue manager stamp one
    priority: int = PRIORITY_DEFAULT  # 0 to 9, 9 first
    correlation_id: bytes = b""  # at most 64 bytes
    headers: Headers | None = None
    reply_to: str = ""
    content_type: str = ""


def encode(outgoing: Outgoing) -> bytes:
    """Return *outgoing* as a record.

    Raises:
        RequestError: VALUE_INVALID, a field beyond its limit, or headers that no peer could read.
    """
    body, uid, priority, correlation_id, headers, reply_to, content_type = outgoing
    if type(body) is not bytes:
        raise _mistyped("body", body, bytes)
    envelope: dict[str, Any] = {}
    if headers or reply_to or content_type:
        envelope = _envelope(headers, reply_to, content_type)
    try:
        return records.encode(records.Fields(body, priority, correlation_id, envelope, uid))
    except (TypeError, AttributeError, struct.error) as error:
        raise _fault(outgoing) from error  # Looked for here only: most puts have none.


def _fault(outgoing: Outgoing) -> RequestError:
    """Return what is wrong with the types of *outgoing*."""
    for name, value, wanted in (
        ("priority", outgoing.priority, int),
        ("correlation_id", outgoing.correlation_id, bytes),
        ("uid", outgoing.uid, Uid),
    ):
        if type(value) is not wanted:
            return _mistyped(name, value, wanted)
    return RequestError(ErrorCode.VALUE_INVALID, f"{outgoing.uid!r} is not a UID: a text, a number")


def _mistyped(name: str, value: object, wanted: type) -> RequestError:
    hint = f"; encode it: {name}.encode()" if type(value) is str and wanted is bytes else ""
    text = f"{name} is of type {type(value).__name__}, not {wanted.__name__}{hint}"
    return RequestError(ErrorCode.VALUE_INVALID, text)


def decode(
    item: bytes, queue: str, queue_id: int, home: Home = NOWHERE, consumer: int = 0
) -> Message:
    """Return the message that a delivery item holds; ``damage`` says why, if it cannot be read.

    Raises:
        FieldInvalid: the item is shorter than its head.
    """
    if len(item) < DELIVERY_BYTES:
        raise FieldInvalid("Deliver", "items", f"{len(item)} bytes, at least {DELIVERY_BYTES}")
    priority, _, _, delivered, failed, state, put_us = DELIVERY.unpack_from(item)
    record, damage = item[DELIVERY_BYTES:], ""
    try:
        fields = records.decode(record)
    except RequestError as error:
        fields, damage = records.Fields(record, priority), error.text
    return Message(
        fields.body, fields.uid, fields.priority, fields.correlation_id, fields.envelope, queue,
        delivered, failed, state, put_us, item[: HANDLE.size], queue_id, home, consumer, damage,
    )  # fmt: skip


def _envelope(headers: Headers | None, reply_to: str, content_type: str) -> dict[str, Any]:
    envelope: dict[str, Any] = {}
    if headers:
        if not isinstance(headers, Mapping):
            raise _mistyped("headers", headers, dict)
        envelope[HEADERS] = dict(headers)
    for name, text in ((REPLY_TO, reply_to), (CONTENT_TYPE, content_type)):
        if text:
            if not isinstance(text, str):
                raise _mistyped(name, text, str)
            envelope[name] = text
    return envelope


def _text(value: Any) -> str:
    return value if type(value) is str else ""
