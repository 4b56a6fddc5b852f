"""What is put: a message on its way out, how it becomes a record, and what became of it."""

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
    """A put that is on disk, or in its unit of work.

    ``uid`` is the message's identity: the caller's own, or what the queue manager stamped. It is
    None where the put was sent again after a lost answer and the first try had been stored: the
    queue manager then knows that it holds the message, but no longer under which UID.
    """

    uid: Uid | None
    resent: bool = False  # Sent more than once, or its answer came by way of a reconnect.
    subscriptions: int | None = None  # of a publication: how many it fits, where that is known


class _Place(NamedTuple):
    id: bytes  # 24 bytes
    number: int  # 1, 2, 3 ...
    last: bool = False


class Group(_Place):  # Inherits, as a NamedTuple cannot say itself how it is made.
    """Where a message stands in its group. Any tuple of the three will do for a put.

    ``Group("N12345", 1).id`` is the text with zero bytes behind it, 24 in all.

    Raises:
        RequestError: VALUE_INVALID, the id is neither 24 bytes nor such a text.
    """

    __slots__ = ()

    def __new__(cls, id: GroupId, number: int, last: bool = False) -> "Group":
        return super().__new__(cls, encoded(id), number, last)


class Outgoing(NamedTuple):
    """A message to be put."""

    body: bytes
    uid: Uid | None = None  # None has the queue manager stamp one
    priority: int | None = None  # 0 to 9, 9 first; None leaves it to the queue
    correlation_id: bytes = b""  # at most 64 bytes
    headers: Headers | None = None
    reply_to: str = ""
    content_type: str = ""
    expiry_ms: Duration = 0  # how long it is worth delivering; 0 is for ever
    delay_ms: Duration = 0  # from the put until it can be got; at most ten years
    deliver_at: datetime | None = None  # the same as a time of day, with its time zone
    persistent: bool = True  # False: given up when its queue manager starts anew
    report: bool = False  # to reply_to, if it expires
    group: tuple[GroupId, int, bool] | None = None  # id, number, last
    retained: bool = False  # of a publication: its topic keeps it for those who subscribe later
    key: Key | None = None  # any text or UUID, by which the queue refuses a second put

    def resolved(self, now: datetime) -> "Outgoing":
        """Return this message with ``deliver_at`` as a delay from *now* on, and ``key`` as a UID.

        Raises:
            RequestError: VALUE_INVALID, a time without a zone, or one next to a delay; a key that
                is not one, or one next to a UID.
        """
        if self.key is not None:
            if self.uid is not None:
                text = "uid and key are both given: either identifies the message"
                raise RequestError(ErrorCode.VALUE_INVALID, text)
            return self._replace(uid=keys.uid_of(self.key), key=None).resolved(now)
        if self.deliver_at is None:
            return self
        if self.delay_ms:
            text = "delay_ms and deliver_at are both given: one says it all"
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        delay_ms = delay_until(self.deliver_at, now, "deliver_at")
        return self._replace(delay_ms=delay_ms, deliver_at=None)


class PutOptions(TypedDict, total=False):
    """What may be said of a message beside its body: the fields of :class:`Outgoing`."""

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
    """Returns a message of *body* with the *options* of a call of *verb*.

    Raises:
        RequestError: VALUE_INVALID, there is no such option.
    """
    try:
        return Outgoing(body, **options)
    except TypeError:
        raise option.unknown(options, PutOptions.__annotations__, verb) from None


def each_outgoing(verb: str, items: Iterable[bytes | Outgoing]) -> Iterator[Outgoing]:
    """Yields *items* of a call of *verb* as messages; bodies become messages without options.

    Raises:
        RequestError: VALUE_INVALID, *items* is a single body, or nothing that has items.
    """
    if isinstance(items, bytes | bytearray | str | Outgoing) or not isinstance(items, Iterable):
        text = f"{verb} puts a list of bodies or messages, not {type(items).__name__}: write [...]"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return (item if isinstance(item, Outgoing) else Outgoing(item) for item in items)


def delay_until(when: datetime, now: datetime, name: str) -> int:
    """Return the milliseconds from *now* until *when*, rounded up; 0 where that is over.

    Raises:
        RequestError: VALUE_INVALID, a time without a zone means another moment elsewhere.
    """
    if not isinstance(when, datetime):
        raise _mistyped(name, when, datetime)
    if when.utcoffset() is None:
        text = f"{name} {when} has no time zone: say datetime.now(UTC) + timedelta(...), say"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return max(-((now - when) // _MILLISECOND), 0)


def encode(outgoing: Outgoing) -> bytes:
    """Return *outgoing*, which is :meth:`Outgoing.resolved`, as a record.

    Raises:
        RequestError: VALUE_INVALID, a field beyond its limit, or headers that no peer could read.
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
    assert deliver_at is None, "a time of day, and no clock to check it against"
    assert key is None, "a key without its UID"
    if type(body) is not bytes:
        raise _mistyped("body", body, bytes)
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
        raise _fault(outgoing) from error  # Looked for here only: most puts have none.


def _fault(outgoing: Outgoing) -> RequestError:
    """Return what is wrong with the types of *outgoing*."""
    for name, value, wanted in (
        ("priority", outgoing.priority or 0, int),
        ("correlation_id", outgoing.correlation_id, bytes),
        ("uid", outgoing.uid or Uid("", 0), Uid),
    ):
        if type(value) is not wanted:
            return _mistyped(name, value, wanted)
    if outgoing.group is not None:
        said = repr(outgoing.group)[:SHOWN_MAX]
        text = f"the group {said} is not an id of 24 bytes or a text, a number, and whether last"
        return RequestError(ErrorCode.VALUE_INVALID, text)
    return RequestError(ErrorCode.VALUE_INVALID, f"{outgoing.uid!r} is not a UID: a text, a number")


def _mistyped(name: str, value: object, wanted: type) -> RequestError:
    hint = f"; encode it: {name}.encode()" if type(value) is str and wanted is bytes else ""
    text = f"{name} is of type {type(value).__name__}, not {wanted.__name__}{hint}"
    return RequestError(ErrorCode.VALUE_INVALID, text)


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
