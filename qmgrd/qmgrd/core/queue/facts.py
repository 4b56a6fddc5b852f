"""Looks up the names in a message selector.

A lookup tries three kinds of names in this order: built-in properties such as priority, by their
own or their JMS name; properties of a dead letter; headers of the message. A name in double quotes
always refers to a header. Headers are in the envelope, which is unpacked at most once per message.
"""

from collections.abc import Callable, Mapping
from typing import Any

from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import FrameMalformed
from qmgrd.core.selector.lexer import QUOTE
from qmgrd.core.selector.value import Value

_MICROSECONDS_PER_MS = 1_000
_NOTHING: Mapping[str, Any] = {}
_NO_HEAD = records.Head(*(0,) * len(records.Head._fields))


class MessageFacts:
    """The named values of one message, whose record may be damaged.

    If the lengths in the head of the record are inconsistent, only the values passed as arguments
    are known.
    """

    __slots__ = (
        "_envelope",
        "_extra",
        "_head",
        "_record",
        "delivered",
        "failed",
        "priority",
        "put_us",
    )

    def __init__(
        self,
        record: bytes,
        priority: int,
        delivered: int,
        failed: int,
        put_us: int,
        extra: Mapping[str, Any] = _NOTHING,
    ) -> None:
        self._record = record
        self._extra = extra
        self._head: records.Head | None = None
        self._envelope: dict[str, Any] | None = None
        self.priority = priority
        self.delivered = delivered
        self.failed = failed
        self.put_us = put_us

    def value_of(self, name: str) -> Value | None:
        """Returns the value of *name*, or None if the message has no such value. Never raises."""
        fact = _FACTS.get(name)
        if fact is not None:
            return fact(self)
        if name.startswith(QUOTE):
            return self._header(name[1:-1])
        if name in self._extra:
            return _value(self._extra[name])
        return self._header(name)

    def head(self) -> records.Head:
        """Returns the head of the record. All fields are 0 if its lengths are inconsistent."""
        if self._head is None:
            self._head = _head(self._record)
        return self._head

    def uid(self) -> records.Uid | None:
        """Returns the UID, or None if the record has none."""
        if not self.head().origin_length:
            return None
        return records.decode_uid(records.trailer_of(self._record))

    def correlation_id(self) -> str | None:
        """Returns the correlation id as a string, in hexadecimal digits if it is not UTF-8."""
        found = self._record[records.HEAD_BYTES : self._group_at()]
        try:
            return found.decode() or None
        except UnicodeDecodeError:
            return found.hex()

    def group(self) -> tuple[bytes, int, bool] | None:
        """Returns the group id, the number in the group, and whether the message is the last."""
        flags = self.head().group_flags
        if not flags:
            return None
        group_id, number = records.GROUP.unpack_from(self._record, self._group_at())
        return group_id, number, bool(flags & records.LAST_IN_GROUP)

    def text(self, key: str) -> str | None:
        """Returns the string field *key* of the envelope, or None if the field is missing."""
        found = self._opened().get(key)
        return found if type(found) is str else None

    def _header(self, name: str) -> Value | None:
        headers = self._opened().get(records.HEADERS)
        return _value(headers.get(name)) if type(headers) is dict else None

    def _group_at(self) -> int:
        return records.HEAD_BYTES + self.head().correlation_length

    def _opened(self) -> dict[str, Any]:
        """Returns the envelope, or an empty envelope if it is damaged."""
        if self._envelope is None:
            head = self.head()
            start = self._group_at() + (records.GROUP.size if head.group_flags else 0)
            start += records.DELAY.size if head.flags & records.FLAG_DELAYED else 0
            self._envelope = _unpacked(self._record[start : start + head.envelope_length])
        return self._envelope


def _head(record: bytes) -> records.Head:
    if not record or records.size_of(record) != len(record):
        return _NO_HEAD
    return records.Head._make(records.HEAD.unpack_from(record))


def _unpacked(data: bytes) -> dict[str, Any]:
    try:
        envelope = unpack(data) if data else None
    except FrameMalformed:
        return {}
    return envelope if type(envelope) is dict else {}


def _value(found: Any) -> Value | None:
    """Returns *found* if selectors support its type, else None. NaN also becomes None."""
    if type(found) is str or type(found) is int or type(found) is bool:
        return found
    return found if type(found) is float and found == found else None


def _size(facts: MessageFacts) -> int | None:
    head = facts.head()
    return None if head is _NO_HEAD else head.body_length


def _uid(facts: MessageFacts) -> str | None:
    uid = facts.uid()
    return None if uid is None else str(uid)


def _origin(facts: MessageFacts) -> str | None:
    uid = facts.uid()
    return None if uid is None else uid.origin


def _timestamp(facts: MessageFacts) -> int | None:
    uid = facts.uid()
    return None if uid is None else uid.timestamp


def _timestamp_ms(facts: MessageFacts) -> int | None:
    uid = facts.uid()
    return None if uid is None else uid.timestamp // _MICROSECONDS_PER_MS


def _group_id(facts: MessageFacts) -> str | None:
    group = facts.group()
    return None if group is None else group[0].hex()


def _group_number(facts: MessageFacts) -> int | None:
    group = facts.group()
    return None if group is None else group[1]


def _group_last(facts: MessageFacts) -> bool | None:
    group = facts.group()
    return None if group is None else group[2]


_FACTS: dict[str, Callable[[MessageFacts], Value | None]] = {
    "priority": lambda facts: facts.priority,
    "uid": _uid,
    "origin": _origin,
    "timestamp": _timestamp,
    "correlation_id": MessageFacts.correlation_id,
    "group_id": _group_id,
    "group_number": _group_number,
    "group_last": _group_last,
    "size": _size,
    "delivered": lambda facts: facts.delivered,
    "failed": lambda facts: facts.failed,
    "redelivered": lambda facts: facts.delivered > 0,
    "put_us": lambda facts: facts.put_us,
    "content_type": lambda facts: facts.text(records.CONTENT_TYPE),
    "reply_to": lambda facts: facts.text(records.REPLY_TO),
    "JMSPriority": lambda facts: facts.priority,
    "JMSMessageID": _uid,
    "JMSTimestamp": _timestamp_ms,
    "JMSCorrelationID": MessageFacts.correlation_id,
    "JMSXDeliveryCount": lambda facts: facts.delivered + 1,
    "JMSXGroupID": _group_id,
    "JMSXGroupSeq": _group_number,
    "JMSRedelivered": lambda facts: facts.delivered > 0,
}
BUILT_IN = tuple(_FACTS)
