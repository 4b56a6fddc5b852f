"""Messages that were delivered or browsed. outgoing.py has the messages to put."""

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
from qmgr_protocol.cut_record import shortened
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
_STATE_AT = DELIVERY_BYTES - 9  # position of the state byte in a delivery item


class Home(NamedTuple):
    """The store from which a message was leased, and the boot number of the store at that time.

    A lease handle is invalid in another store, and in a store that was restored to an earlier
    state.
    """

    store_id: bytes
    boot: int

    def knows(self, other: "Home") -> bool:
        """Returns whether this home can settle leases that *other* granted."""
        return self.store_id == other.store_id and self.boot >= other.boot


NOWHERE = Home(b"", 0)
PUBLICATIONS = (
    "SYSTEM.PUBLICATIONS"  # holds each publication until all subscriptions have consumed it
)
NO_GROUP = bytes(records.GROUP_ID_BYTES)


class Message(NamedTuple):
    """A message that was delivered or browsed."""

    # A message is a tuple, because creating a frozen dataclass takes six times as long.

    body: bytes
    uid: Uid | None
    priority: int  # priority of the message, or the default priority of its queue
    correlation_id: bytes
    envelope: dict[str, Any]
    queue: str
    delivered: int  # number of earlier deliveries
    failed: int  # number of earlier deliveries that were released as failed or timed out
    state: int
    put_us: int  # time of the put: microseconds since 1970, by the clock of the queue manager
    handle: bytes
    queue_id: int
    home: Home = NOWHERE
    consumer: int = 0  # ticket of the consumer that received the message
    damage: str = ""  # reason why the record cannot be read; the body is then the record
    flags: int = 0  # flags of the record
    delay_ms: int = 0  # time from the put until the message could be delivered
    group: Group | None = None
    # Time from the delivery to the expiry; None if the message never expires.
    expiry_left_ms: int | None = None
    note: bytes = b""  # note of a dead letter or of a message that failed
    topic: str = ""  # topic to which the message was published
    # Order of the browse that read the message, as a number of the protocol.
    browse_order: int | None = None
    cut_bytes: int = 0  # number of bytes at the end of the body that a browse left out

    def __repr__(self) -> str:
        """Returns a description on one line.

        The description omits the body, which may be long or secret.
        """
        text = f"{self.uid or 'no UID'} of {self.queue}: {self.body_bytes} bytes"
        text += f", priority {self.priority}, delivered {self.delivered}, failed {self.failed}"
        if self.group is not None:
            text += f", group {shown(self.group.id)} number {self.group.number}"
        if self.topic:
            text += f", topic {self.topic}"
        return f"<Message {text}{', damaged' if self.damage else ''}>"

    @property
    def body_bytes(self) -> int:
        """The size of the body, including the bytes that a browse of a long message left out."""
        return len(self.body) + self.cut_bytes

    @property
    def lease_key(self) -> tuple[int, bytes]:
        """The identity of the message's lease in this client: the queue id and the handle."""
        return self.queue_id, self.handle

    @property
    def headers(self) -> dict[str, Any]:
        """The headers that the producer set."""
        found = self.envelope.get(HEADERS)
        return found if type(found) is dict else {}

    @property
    def reply_to(self) -> str:
        """The queue or topic where the producer expects replies, or ``""``."""
        return _text(self.envelope.get(REPLY_TO))

    @property
    def content_type(self) -> str:
        """The content type that the producer set, or ``""``."""
        return _text(self.envelope.get(CONTENT_TYPE))

    @property
    def redelivered(self) -> Redelivered:
        """Whether the message was delivered before.

        ``"maybe"`` means that the queue manager crashed and does not know whether it delivered the
        message.
        """
        if self.state & STATE_REDELIVERED:
            return "yes"
        return "maybe" if self.state & STATE_MAYBE_REDELIVERED else "no"

    @property
    def group_id(self) -> bytes:
        """The id of the message's group, 24 bytes.

        All bytes are zero if the message has no group.
        """
        return NO_GROUP if self.group is None else self.group.id

    @property
    def group_number(self) -> int:
        """The number of the message in its group. If the message has no group, the number is 1."""
        return 1 if self.group is None else self.group.number

    @property
    def group_last(self) -> bool:
        """Whether the message is the last message of its group.

        True if the message has no group.
        """
        return self.group is None or self.group.last

    @property
    def taken_over(self) -> bool:
        """Whether the group was assigned to this consumer or reader with this message."""
        return bool(self.state & STATE_TAKEN_OVER)

    @property
    def republished(self) -> bool:
        """Whether the message was parked for this subscription and then republished."""
        return bool(self.state & STATE_REPUBLISHED)

    @property
    def retained(self) -> bool:
        """Whether the topic retains the message for later subscribers."""
        return bool(self.flags & FLAG_RETAINED)

    @property
    def leased(self) -> bool:
        """Whether the message was leased when it was browsed."""
        return bool(self.state & STATE_LEASED)

    @property
    def persistent(self) -> bool:
        """Whether the message survives a restart of the queue manager."""
        return not self.flags & FLAG_NOT_PERSISTENT

    @property
    def report(self) -> bool:
        """Whether the queue manager sends a report to ``reply_to`` if the message expires."""
        return bool(self.flags & FLAG_REPORT_EXPIRY)

    @property
    def dead(self) -> DeadLetter | None:
        """The reason why the message became a dead letter.

        None if the message is not a dead letter, or if its note cannot be read.
        """
        return dead_letter.dead_letter(self.note)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The failures of the message, oldest first.

        The queue manager keeps at most ten failures: the first failure and the last nine failures.
        """
        return dead_letter.attempts(self.note)

    @property
    def put_time(self) -> datetime:
        """The time when the message was put on this queue."""
        return EPOCH + timedelta(microseconds=self.put_us)


def check_is_message(verb: str, found: object) -> None:
    """Raises RequestError VALUE_INVALID if *found*, an argument of *verb*, is not a message."""
    if isinstance(found, Message):
        return
    hint = ": get returns None if no message arrives in time" if found is None else ""
    text = f"{verb} requires a message, not {type(found).__name__}{hint}"
    raise RequestError(ErrorCode.VALUE_INVALID, text)


def checked_messages(verb: str, found: Iterable[Message]) -> list[Message]:
    """Returns *found* as a list.

    Raises:
        RequestError: VALUE_INVALID if *found* is not an iterable of messages.
    """
    if isinstance(found, Message) or not isinstance(found, Iterable):
        text = f"{verb} requires a list of messages, not {type(found).__name__}: write [message]"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    messages = list(found)
    for message in messages:
        check_is_message(verb, message)
    return messages


def decode(
    item: bytes, queue: str, queue_id: int, home: Home = NOWHERE, consumer: int = 0
) -> Message:
    """Returns the message of a delivery item. If the record is damaged, ``damage`` has the reason.

    Raises:
        FieldInvalid: The item is shorter than its header.
    """
    if len(item) < DELIVERY_BYTES:
        text = f"{len(item)} bytes; the minimum is {DELIVERY_BYTES}"
        raise FieldInvalid("Deliver", "items", text)
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
    is_in_transit = queue == PUBLICATIONS or queue.startswith("@")
    if is_in_transit or not fields.flags & FLAG_PRIORITY_OF_QUEUE:
        priority = fields.priority  # A transit queue delivers in the order of arrival.
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


def decode_cut(item: bytes, queue: str, front_bytes: int) -> Message:
    """Returns the message of a browsed item that has only *front_bytes* of the record, and its UID.

    Raises:
        FieldInvalid: The item does not contain these bytes.
    """
    head, data = item[:DELIVERY_BYTES], item[DELIVERY_BYTES:]
    front = data[:front_bytes]
    origin_length = front[records.ORIGIN_LENGTH_AT] if len(front) > records.ORIGIN_LENGTH_AT else 0
    end = front_bytes + (origin_length + records.TIMESTAMP.size if origin_length else 0)
    try:
        record, cut_bytes = shortened(front, data[front_bytes:end])
    except RequestError as error:
        raise FieldInvalid("Ok", "cut", error.text) from error
    return decode(head + record + data[end:], queue, 0)._replace(cut_bytes=cut_bytes)


def record_bytes(item: bytes) -> int:
    """Returns the length of the record in a delivery item. Credit in bytes counts this length."""
    size = len(item) - DELIVERY_BYTES
    if size < 0 or item[_STATE_AT] < STATE_EXPIRES:
        return max(size, 0)
    found = records.size_of(item[DELIVERY_BYTES : DELIVERY_BYTES + records.HEAD_BYTES])
    return found if 0 < found <= size else size


def is_redelivered(item: bytes) -> bool:
    """Returns whether the message of a delivery item was delivered before."""
    return bool(item[_STATE_AT] & STATE_REDELIVERED)


def split(data: bytes, state: int) -> tuple[bytes, int | None, bytes, str]:
    """Returns the record at the start of *data*, its remaining time, its note and its topic.

    Ignores further fields that a newer queue manager sends. Damaged fields are returned empty.
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
