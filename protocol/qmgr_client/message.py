"""Messages as applications see them: what is delivered, and what is put (outgoing.py)."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from qmgr_client import dead_letter
from qmgr_client.dead_letter import Attempt as Attempt
from qmgr_client.dead_letter import DeadLetter as DeadLetter
from qmgr_client.outgoing import Group as Group
from qmgr_client.outgoing import Headers as Headers
from qmgr_client.outgoing import Outgoing as Outgoing
from qmgr_client.outgoing import PutResult as PutResult
from qmgr_client.outgoing import encode as encode
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.group_id import shown
from qmgr_protocol.messages import (
    DELIVERY,
    DELIVERY_BYTES,
    HANDLE,
    REMAINING,
    STATE_EXPIRES,
    STATE_LEASED,
    STATE_MAYBE_REDELIVERED,
    STATE_NOTED,
    STATE_REDELIVERED,
    STATE_REPUBLISHED,
    STATE_TAKEN_OVER,
    STATE_TOPIC,
)
from qmgr_protocol.record import (
    CONTENT_TYPE,
    FLAG_NOT_PERSISTENT,
    FLAG_PRIORITY_OF_QUEUE,
    FLAG_REPORT_EXPIRY,
    FLAG_RETAINED,
    HEADERS,
    REPLY_TO,
    Uid,
)

Redelivered: TypeAlias = Literal["no", "maybe", "yes"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATE_AT = DELIVERY_BYTES - 9  # the byte of the state in an item


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
PUBLICATIONS = "SYSTEM.PUBLICATIONS"  # the queue of what is published and not yet delivered to all
NO_GROUP = bytes(records.GROUP_ID_BYTES)


class Message(NamedTuple):
    """A message that was delivered or browsed.

    A tuple, as one is made in a sixth of the time that a frozen dataclass takes.
    """

    body: bytes
    uid: Uid | None
    priority: int  # by which it has its turn: its own, or that of its queue
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
    flags: int = 0  # of the record
    delay_ms: int = 0  # from its put until it could be got
    group: Group | None = None
    expiry_left_ms: int | None = None  # when it was delivered; None is for ever
    note: bytes = b""  # what a dead letter, or one that failed, is accompanied by
    topic: str = ""  # that it was published to
    browse_order: int | None = None  # of the browse that read it, as the protocol has it

    def __repr__(self) -> str:
        """Return what it is, in a line: never its body, which may be long or secret."""
        told = f"{self.uid or 'no UID'} of {self.queue}: {len(self.body)} bytes"
        told += f", priority {self.priority}, delivered {self.delivered}, failed {self.failed}"
        if self.group is not None:
            told += f", group {shown(self.group.id)} number {self.group.number}"
        if self.topic:
            told += f", topic {self.topic}"
        return f"<Message {told}{', damaged' if self.damage else ''}>"

    @property
    def lease_key(self) -> tuple[int, bytes]:
        """What tells its lease from any other of this client: the queue's id and the handle."""
        return self.queue_id, self.handle

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
    def group_id(self) -> bytes:
        """The id of its group: 24 bytes, all zero where it is of none."""
        return NO_GROUP if self.group is None else self.group.id

    @property
    def group_number(self) -> int:
        """Its number in its group; a message of no group is number 1 of its own."""
        return 1 if self.group is None else self.group.number

    @property
    def group_last(self) -> bool:
        """Whether its group ends with it, as a message of no group does."""
        return self.group is None or self.group.last

    @property
    def taken_over(self) -> bool:
        """Whether its group came with it to this consumer or reader, from another one or none."""
        return bool(self.state & STATE_TAKEN_OVER)

    @property
    def republished(self) -> bool:
        """Whether this subscriber failed on it before, and it was decided to send it once more."""
        return bool(self.state & STATE_REPUBLISHED)

    @property
    def retained(self) -> bool:
        """Whether its topic was to keep it for those who subscribe later."""
        return bool(self.flags & FLAG_RETAINED)

    @property
    def leased(self) -> bool:
        """Whether somebody held it when it was browsed."""
        return bool(self.state & STATE_LEASED)

    @property
    def persistent(self) -> bool:
        """Whether it outlives a restart of the queue manager."""
        return not self.flags & FLAG_NOT_PERSISTENT

    @property
    def report(self) -> bool:
        """Whether the producer wants to hear, on ``reply_to``, if it expires."""
        return bool(self.flags & FLAG_REPORT_EXPIRY)

    @property
    def dead(self) -> DeadLetter | None:
        """Why it is a dead letter; None where it is none, or nobody can tell."""
        return dead_letter.dead_letter(self.note)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Its failures, the oldest first: at most ten, the first and the last nine."""
        return dead_letter.attempts(self.note)

    @property
    def put_time(self) -> datetime:
        """When it was put on this queue."""
        return EPOCH + timedelta(microseconds=self.put_us)


def check_is_message(verb: str, found: object) -> None:
    """Raise RequestError VALUE_INVALID where *found*, given to *verb*, is not a message."""
    if isinstance(found, Message):
        return
    hint = ": get returns None if none came in time" if found is None else ""
    text = f"{verb} needs a message that was got, not {type(found).__name__}{hint}"
    raise RequestError(ErrorCode.VALUE_INVALID, text)


def checked_messages(verb: str, found: Iterable[Message]) -> list[Message]:
    """Return the messages given to *verb*; raise RequestError VALUE_INVALID where one is not."""
    if isinstance(found, Message) or not isinstance(found, Iterable):
        text = f"{verb} needs a list of messages, not {type(found).__name__}: write [message]"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    messages = list(found)
    for message in messages:
        check_is_message(verb, message)
    return messages


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
    record, left_ms, note, topic = item[DELIVERY_BYTES:], None, b"", ""
    if state >= STATE_EXPIRES:
        record, left_ms, note, topic = split(record, state)
    damage = ""
    try:
        fields = records.decode(record)
    except RequestError as error:
        fields, damage = records.Fields(record, priority), error.text
    group = None if fields.group is None else Group._make(fields.group)
    is_on_its_way = queue == PUBLICATIONS or queue.startswith("@")
    if is_on_its_way or not fields.flags & FLAG_PRIORITY_OF_QUEUE:
        priority = fields.priority  # There it lies in order of arrival, whatever its priority.
    return Message(
        fields.body,
        fields.uid,
        priority,
        fields.correlation_id,
        fields.envelope,
        queue,
        delivered,
        failed,
        state,
        put_us,
        item[: HANDLE.size],
        queue_id,
        home,
        consumer,
        damage,
        fields.flags,
        fields.delay_ms,
        group,
        left_ms,
        note,
        topic,
    )


def record_bytes(item: bytes) -> int:
    """Return the length of the record in a delivery item: what credit is counted in."""
    size = len(item) - DELIVERY_BYTES
    if size < 0 or item[_STATE_AT] < STATE_EXPIRES:
        return max(size, 0)
    return len(split(item[DELIVERY_BYTES:], item[_STATE_AT])[0])


def is_redelivered(item: bytes) -> bool:
    """Return whether a delivery item says that it was delivered before."""
    return bool(item[_STATE_AT] & STATE_REDELIVERED)


def split(data: bytes, state: int) -> tuple[bytes, int | None, bytes, str]:
    """Return the record that *data* begins with, the time it has left, its note and its topic.

    What a newer queue manager has behind them is ignored, and what rotted is not there.
    """
    size = records.size_of(data)
    if not 0 < size <= len(data):
        return data, None, b"", ""
    record, rest, left_ms, topic = data[:size], data[size:], None, ""
    if state & STATE_TOPIC and rest:
        topic = rest[1 : 1 + rest[0]].decode(errors="replace")
        rest = rest[1 + rest[0] :]
    if state & STATE_EXPIRES and len(rest) >= REMAINING.size:
        (left_ms,) = REMAINING.unpack_from(rest)
        rest = rest[REMAINING.size :]
    return record, left_ms, rest if state & STATE_NOTED else b"", topic


def _text(value: Any) -> str:
    return value if type(value) is str else ""
