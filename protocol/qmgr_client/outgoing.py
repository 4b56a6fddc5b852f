"""Messages to put: their options, their encoding as records, and the results of puts."""

import struct
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias, TypedDict

from qmgr_client import key as keys
from qmgr_client import option
from qmgr_client.duration import Duration, in_ms
from qmgr_client.groups.group_id import SHOWN_MAX, GroupId, encoded
from qmgr_client.key import Key
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import (
    CONTENT_TYPE,
    FLAG_NOT_PERSISTENT,
    FLAG_PRIORITY_OF_QUEUE,
    FLAG_REPORT_EXPIRY,
    FLAG_RETAINED,
    HEADERS,
    PRIORITY_DEFAULT,
    REPLY_TO,
    Uid,
)

Headers: TypeAlias = Mapping[str, Any]

_MILLISECOND = timedelta(milliseconds=1)


class PutResult(NamedTuple):
    """The result of a put that is stored on disk or in its unit of work.

    ``uid`` identifies the message. The caller or the queue manager chose the UID. ``uid`` is None
    if the message was stored but the answer was lost with a connection. In this case the queue
    manager knows that the put succeeded, but no longer knows the UID.
    """

    uid: Uid | None
    resent: bool = False  # whether the put was sent twice or was answered after a reconnect
    subscriptions: int | None = None  # number of subscriptions that match a publication, if known


class _Place(NamedTuple):
    id: bytes  # group id, 24 bytes
    number: int  # number of the message in its group, from 1
    last: bool = False


class Group(_Place):  # A NamedTuple cannot define __new__ itself.
    """The position of a message in its group: the group id, the number and the last-message flag.

    A put accepts any tuple of these three values. If the id is a string, as in ``Group("N12345",
    1)``, zero bytes are added to make it 24 bytes long.

    Raises:
        RequestError: VALUE_INVALID if the id is neither 24 bytes nor a string that fits.
    """

    __slots__ = ()

    def __new__(cls, id: GroupId, number: int, last: bool = False) -> "Group":
        return super().__new__(cls, encoded(id), number, last)


class Outgoing(NamedTuple):
    """A message to put, with its options."""

    body: bytes
    uid: Uid | None = None  # identity of the message; None lets the queue manager choose a UID
    priority: int | None = None  # 0 to 9, 9 is delivered first; None uses the queue's default
    correlation_id: bytes = b""  # id of at most 64 bytes that consumers can select by
    headers: Headers | None = None
    reply_to: str = ""
    content_type: str = ""
    expiry_ms: Duration = 0  # time after which the message expires; 0 if the message never expires
    delay_ms: Duration = 0  # time before the message can be delivered, at most ten years
    deliver_at: datetime | None = None  # time with a time zone, as an alternative to delay_ms
    persistent: bool = True  # whether the message survives a restart of the queue manager
    report: bool = False  # whether to send a report to reply_to if the message expires
    group: tuple[GroupId, int, bool] | None = None  # group id, number, last-message flag
    retained: bool = False  # whether the topic retains the publication for later subscribers
    key: Key | None = None  # string or UUID; the queue refuses a second put with the same key

    def resolved(self, now: datetime) -> "Outgoing":
        """Returns this message with ``deliver_at`` as a delay from *now*, and ``key`` as a UID.

        Raises:
            RequestError: VALUE_INVALID if ``deliver_at`` has no time zone, if ``key`` is invalid,
                or if ``deliver_at`` and ``delay_ms``, or ``key`` and ``uid``, are both set.
        """
        if self.key is not None:
            if self.uid is not None:
                text = "uid and key are both set, and each identifies the message: set only one"
                raise RequestError(ErrorCode.VALUE_INVALID, text)
            return self._replace(uid=keys.uid_of(self.key), key=None).resolved(now)
        if self.deliver_at is None:
            return self
        if self.delay_ms:
            text = "delay_ms and deliver_at are both set: set only one of them"
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        delay_ms = delay_until(self.deliver_at, now, "deliver_at")
        return self._replace(delay_ms=delay_ms, deliver_at=None)


class PutOptions(TypedDict, total=False):
    """The options of a put: the fields of :class:`Outgoing`, except its body."""

    uid: Uid | None
    priority: int | None
    correlation_id: bytes
    headers: Headers | None
    reply_to: str
    content_type: str
    expiry_ms: Duration
    delay_ms: Duration
    deliver_at: datetime | None
    persistent: bool
    report: bool
    group: tuple[GroupId, int, bool] | None
    key: Key | None


def outgoing_of(verb: str, body: bytes, options: PutOptions) -> Outgoing:
    """Returns a message with *body* and the *options* of a call of *verb*.

    Raises:
        RequestError: VALUE_INVALID if an option does not exist.
    """
    try:
        return Outgoing(body, **options)
    except TypeError:
        raise option.unknown_option_error(options, PutOptions.__annotations__, verb) from None


def each_outgoing(verb: str, items: Iterable[bytes | Outgoing]) -> Iterator[Outgoing]:
    """Yields the *items* of a call of *verb* as messages. A plain body gets default options.

    Raises:
        RequestError: VALUE_INVALID if *items* is a single body or is not iterable.
    """
    if isinstance(items, bytes | bytearray | str | Outgoing) or not isinstance(items, Iterable):
        text = f"{verb} requires a list of bodies or messages, not {type(items).__name__}"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return (item if isinstance(item, Outgoing) else Outgoing(item) for item in items)


def delay_until(when: datetime, now: datetime, name: str) -> int:
    """Returns the milliseconds from *now* until *when*, rounded up, or 0 if *when* is past.

    Raises:
        RequestError: VALUE_INVALID if *when* is not a datetime or has no time zone.
    """
    if not isinstance(when, datetime):
        raise _wrong_type_error(name, when, datetime)
    if when.utcoffset() is None:
        text = f"{name} {when} has no time zone: write, for example, datetime.now(UTC)"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return max(-((now - when) // _MILLISECOND), 0)


def encode(outgoing: Outgoing) -> bytes:
    """Returns the record of *outgoing*, which must be the result of :meth:`Outgoing.resolved`.

    Raises:
        RequestError: VALUE_INVALID if a field exceeds its limit or headers cannot be encoded.
    """
    (
        body,
        uid,
        priority,
        correlation_id,
        headers,
        reply_to,
        content_type,
        expiry_ms,
        delay_ms,
        deliver_at,
        persistent,
        report,
        group,
        retained,
        key,
    ) = outgoing
    assert deliver_at is None, "deliver_at must be resolved first"
    assert key is None, "the key must be resolved first"
    if type(body) is not bytes:
        raise _wrong_type_error("body", body, bytes)
    envelope: dict[str, Any] = {}
    if headers or reply_to or content_type:
        envelope = _envelope(headers, reply_to, content_type)
    if type(expiry_ms) is not int:
        expiry_ms = in_ms("expiry_ms", expiry_ms)
    if type(delay_ms) is not int:
        delay_ms = in_ms("delay_ms", delay_ms)
    flags = 0
    if priority is None:
        priority, flags = PRIORITY_DEFAULT, FLAG_PRIORITY_OF_QUEUE
    if not persistent:
        flags |= FLAG_NOT_PERSISTENT
    if report:
        flags |= FLAG_REPORT_EXPIRY
    if retained:
        flags |= FLAG_RETAINED
    try:
        place = group if group is None or type(group) is Group else Group(*group)
        return records.encode(
            records.Fields(
                body, priority, correlation_id, envelope, uid, place, expiry_ms, flags, delay_ms
            )
        )
    except (TypeError, ValueError, AttributeError, struct.error) as error:
        # Most puts are valid, so the types are checked only after an error.
        raise _type_error(outgoing) from error


def _type_error(outgoing: Outgoing) -> RequestError:
    """Returns the error for a wrong type in *outgoing*."""
    for name, value, wanted in (
        ("priority", outgoing.priority or 0, int),
        ("correlation_id", outgoing.correlation_id, bytes),
        ("uid", outgoing.uid or Uid("", 0), Uid),
    ):
        if type(value) is not wanted:
            return _wrong_type_error(name, value, wanted)
    if outgoing.group is not None:
        shown = repr(outgoing.group)[:SHOWN_MAX]
        text = f"the group {shown} is not (id, number, last): a group id, an int and a bool"
        return RequestError(ErrorCode.VALUE_INVALID, text)
    return RequestError(
        ErrorCode.VALUE_INVALID, f"{outgoing.uid!r} is not a UID: a UID has a str and an int"
    )


def _wrong_type_error(name: str, value: object, wanted: type) -> RequestError:
    hint = f"; encode it: {name}.encode()" if type(value) is str and wanted is bytes else ""
    text = f"{name} is of type {type(value).__name__}, not {wanted.__name__}{hint}"
    return RequestError(ErrorCode.VALUE_INVALID, text)


def _envelope(headers: Headers | None, reply_to: str, content_type: str) -> dict[str, Any]:
    envelope: dict[str, Any] = {}
    if headers:
        if not isinstance(headers, Mapping):
            raise _wrong_type_error("headers", headers, dict)
        envelope[HEADERS] = dict(headers)
    for name, text in ((REPLY_TO, reply_to), (CONTENT_TYPE, content_type)):
        if text:
            if not isinstance(text, str):
                raise _wrong_type_error(name, text, str)
            envelope[name] = text
    return envelope
