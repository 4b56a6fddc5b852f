"""All messages. Each message is declared once, with its number, fields, senders and effects.

PROTOCOL.md, section 10, describes the messages for people. operation.py explains the decorators.
A field's type defines its limits. Types that several messages share are in field_type.py.

This file is one long table. Its parts are: constants, types of fields, messages of the connection,
answers, puts, units of work, gets and settles, queues, links, operations, groups, topics, history.
"""
# ruff: noqa: RUF012 - defaults of fields: no code changes the value of a message's field

import struct
from typing import Annotated, Any, NamedTuple, TypeAlias

from qmgr_protocol import field
from qmgr_protocol.codec import LENGTH_MAX
from qmgr_protocol.field_type import (
    U8,
    U16,
    U32,
    U64,
    Attributes,
    Binaries,
    Bytes16,
    Bytes24,
    Flag,
    Id,
    IdOrZero,
    LongText,
    Name,
    Names,
    PageLimit,
    PreviousName,
    Seq,
    Text,
    Texts,
    UpTo16Bytes,
    UpTo64Bytes,
)
from qmgr_protocol.need import EACH, Kind, Need, Right
from qmgr_protocol.operation import (
    AnsweredBy,
    Growth,
    Operation,
    Role,
    declared,
    message,
    query,
    request,
)
from qmgr_protocol.record import DELAY_MAX_MS, GROUP_NUMBER_MAX
from qmgr_protocol.states import Move, Side, State

MAGIC = "qmgr"
VERSION = 1
HANDLE = struct.Struct(">BQQ")  # priority, arrival, lease number
# priority, arrival, lease number, delivered, failed, state, put time; the record follows
DELIVERY = struct.Struct(">BQQHHBQ")
DELIVERY_BYTES = DELIVERY.size
STATE_REDELIVERED, STATE_MAYBE_REDELIVERED, STATE_LEASED = 1, 2, 4
# Fields after the record of a delivery: the topic of a publication (u8 length, text), the
# remaining time (u64, ms), and the note (a map).
STATE_TOPIC, STATE_EXPIRES, STATE_NOTED = 64, 8, 16
STATE_TAKEN_OVER = 32  # With this message, the group moved to this consumer or reader.
STATE_REPUBLISHED = 128  # The subscriber failed on the message, and it was republished.
REMAINING = struct.Struct(">Q")
# The actions that end a lease: acknowledged, failed, returned, returned unseen, failed permanently.
# RENEW extends the lease instead.
ACK, RELEASE, RETURN, UNREAD, REJECT, RENEW = 1, 2, 3, 4, 5, 6
DELAY_OF_QUEUE = -1
REASON_MAX, REASON_TEXT_MAX, SELECTOR_MAX = 64, 1_000, 4_096
# Keys of the extras that a link adds to a record
EXTRA_EXPIRY_MS, EXTRA_DELAY_MS, EXTRA_NOTE = "expiry_ms", "delay_ms", "note"
# The orders of delivery: separate messages, one group at a time, several groups at a time, and the
# order of arrival.
PHYSICAL, LOGICAL, PINNED, ARRIVAL = 0, 1, 2, 3
GET_MAX_MESSAGES, HANDLES_MAX_BYTES = 10_000, HANDLE.size * 10_000
WAIT_MAX_MS, LEASE_MAX_MS = 7 * 24 * 3_600_000, 24 * 3_600_000
EXTRAS_MAX = 2_000  # maximum number of rows of extras in a put
HELD_RUNS_MAX = 1_000  # If more runs exist, only the lowest ones are sent.
# Long records in pieces (pieces.py): the numbers of bodies, the longest piece, and the shortest
# body, which is also the shortest first piece.
BODIES_MAX, PIECE_MAX_BYTES, PIECE_LEAST_BYTES = 4, 256 * 1024, 68_000


# -- types of fields


def _rows(*columns: field.Check, length_max: int = LENGTH_MAX) -> field.Check:
    return field.array(length_max, field.row(*columns))


_IDS_ABOVE = field.array(LENGTH_MAX, field.SEQ)
_REFUSED = _rows(field.SEQ, field.U32, field.LONG_TEXT)
_STAMPED = _rows(field.SEQ, field.U64, field.SEQ)
_LEASE_MS = field.integer(0, LEASE_MAX_MS)
_UID = field.binary(72)

# The hello of a client with the longest name, and a token of this length, fits in the frame that a
# listener accepts before it knows the dialler.
AUTH_DATA_MAX = 2_816
AuthData: TypeAlias = Annotated[bytes, field.binary(AUTH_DATA_MAX)]
OkValue: TypeAlias = Annotated[Any, field.shallow(16)]
Refused: TypeAlias = Annotated[list[list[Any]], _REFUSED]
Stamped: TypeAlias = Annotated[list[list[int]], _STAMPED]
Held: TypeAlias = Annotated[list[list[int]], _rows(field.SEQ, field.SEQ, length_max=HELD_RUNS_MAX)]
Matched: TypeAlias = Annotated[list[list[int]], _rows(field.SEQ, field.SEQ, field.U32)]
Exceptions: TypeAlias = Annotated[list[list[int]], _rows(field.ID, field.U32, field.U32)]
_EXTRAS = _rows(
    field.U32,
    field.mapping(10, field.text(20), field.either(field.binary(65_536), field.U64)),
    length_max=EXTRAS_MAX,
)
_BODY = field.integer(1, BODIES_MAX)
Body: TypeAlias = Annotated[int, _BODY]
Bodies: TypeAlias = Annotated[list[list[int]], _rows(field.U32, _BODY, length_max=BODIES_MAX)]
BodySize: TypeAlias = Annotated[int, field.integer(PIECE_LEAST_BYTES, 2**32 - 1)]
PieceData: TypeAlias = Annotated[bytes, field.binary(PIECE_MAX_BYTES)]
MessagesMax: TypeAlias = Annotated[int, field.integer(1, GET_MAX_MESSAGES)]
WaitMs: TypeAlias = Annotated[int, field.integer(0, WAIT_MAX_MS)]
LeaseMs: TypeAlias = Annotated[int, _LEASE_MS]
DelayMs: TypeAlias = Annotated[int, field.integer(DELAY_OF_QUEUE, DELAY_MAX_MS)]
Selector: TypeAlias = Annotated[str, field.text(SELECTOR_MAX)]
CorrelationId: TypeAlias = UpTo64Bytes
GroupId: TypeAlias = Annotated[bytes, field.either(field.exactly(0), field.exactly(24))]
GroupNumber: TypeAlias = Annotated[int, field.integer(0, GROUP_NUMBER_MAX)]
GroupAction: TypeAlias = Annotated[str, field.text(20)]
EncodedUid: TypeAlias = Annotated[bytes, _UID]
GetOrder: TypeAlias = Annotated[int, field.integer(PHYSICAL, LOGICAL)]
ConsumeOrder: TypeAlias = Annotated[int, field.integer(PHYSICAL, PINNED)]
BrowseOrder: TypeAlias = Annotated[int, field.among(PHYSICAL, LOGICAL, ARRIVAL)]
SettleAction: TypeAlias = Annotated[int, field.integer(ACK, RENEW)]
Handles: TypeAlias = Annotated[bytes, field.binary(HANDLES_MAX_BYTES, HANDLE.size)]
Reason: TypeAlias = Annotated[str, field.text(REASON_MAX)]
ReasonText: TypeAlias = Annotated[str, field.text(REASON_TEXT_MAX)]
BrowsePlace: TypeAlias = Annotated[list[int] | None, field.optional(field.row(field.U8, field.U64))]
ParkedPlace: TypeAlias = Annotated[
    list[int] | None, field.optional(field.row(field.U64, field.U32))
]
PinnedStore: TypeAlias = Annotated[bytes, field.either(field.exactly(0), field.exactly(16))]


# -- the connection


@message(1, moves=(Move(State.IDLE, Side.DIALLER, State.GREETING),), left_out_from="session")
class Hello(NamedTuple):
    """Opens a connection. A hello is the first message of the dialler.

    auth_method: The method of the login, or "none". auth_data has the first message of the login.
    session: The secret of the last welcome, to resume that session; empty for a new session.
    piece_max_bytes: The longest piece that the sender accepts; 0 if it accepts no pieces.
    """

    magic: Text
    version_min: U32
    version_max: U32
    role: Text
    name: Name
    features: Texts = []
    store_id: UpTo16Bytes = b""
    boot: U64 = 0
    software: Text = ""
    frame_max_bytes: U64 = 8 * 1024 * 1024
    auth_method: Text = "none"
    auth_data: AuthData = b""
    session: UpTo64Bytes = b""
    piece_max_bytes: U64 = 0


@message(
    2,
    moves=(
        Move(State.GREETING, Side.LISTENER, State.OPEN),
        Move(State.ANSWERED, Side.LISTENER, State.OPEN),
    ),
    left_out_from="auth_data",
)
class Welcome(NamedTuple):
    """Answers a hello with the identity of the listener and the limits of this connection.

    session: A secret with which the next connection of the client resumes the session.
    auth_data: The proof of the listener that it knows the user. Empty without a login. For a token,
    the remaining time of the connection in ms, as eight bytes, big-endian.
    piece_max_bytes: The same as in Hello.
    """

    version: U32
    name: Name
    store_id: UpTo16Bytes
    boot: U64
    features: Texts = []
    software: Text = ""
    frame_max_bytes: U64 = 8 * 1024 * 1024
    message_max_bytes: U64 = 4 * 1024 * 1024
    put_window_messages: U64 = 4096
    put_window_bytes: U64 = 16 * 1024 * 1024
    request_window: U64 = 1024
    heartbeat_ms: U64 = 10_000
    liveness_ms: U64 = 30_000
    session: UpTo64Bytes = b""
    auth_data: AuthData = b""
    piece_max_bytes: U64 = 0


@message(10, moves=(Move(State.GREETING, Side.LISTENER, State.CHALLENGED),))
class AuthChallenge(NamedTuple):
    """Asks the dialler to prove who it is. It answers with an AuthAnswer."""

    data: AuthData


@message(11, moves=(Move(State.CHALLENGED, Side.DIALLER, State.ANSWERED),))
class AuthAnswer(NamedTuple):
    """Answers an AuthChallenge."""

    data: AuthData


@message(12, dialler=Role.ANY)
class TokenRenew(NamedTuple):
    """Renews the token of a connection. The listener answers at once, as it answers a ping.

    The answer is an Ok with the remaining time of the connection in ms, or an Error. After an
    Error, the connection keeps its present end.
    """

    request_id: Id
    token: AuthData


@message(
    3,
    moves=(
        Move(State.IDLE, Side.LISTENER, State.CLOSED),
        Move(State.GREETING, Side.LISTENER, State.CLOSED),
        Move(State.GREETING, Side.DIALLER, State.CLOSED),
        Move(State.CHALLENGED, Side.LISTENER, State.CLOSED),
        Move(State.CHALLENGED, Side.DIALLER, State.CLOSED),
        Move(State.ANSWERED, Side.LISTENER, State.CLOSED),
        Move(State.ANSWERED, Side.DIALLER, State.CLOSED),
        Move(State.OPEN, Side.DIALLER, State.CLOSED),
        Move(State.OPEN, Side.LISTENER, State.CLOSED),
    ),
)
class Goaway(NamedTuple):
    """Announces that the sender closes the connection after this message, and the reason."""

    code: U32
    text: LongText = ""
    retry_after_ms: U64 = 0


@message(4, dialler=Role.ANY, listener=Role.ANY)
class Ping(NamedTuple):
    """Requests a pong with the same number."""

    number: U64 = 0


@message(5, dialler=Role.ANY, listener=Role.ANY)
class Pong(NamedTuple):
    """Answers a ping."""

    number: U64 = 0


# -- answers


@message(6, dialler=Role.QUEUE_MANAGER, listener=Role.ANY)
class Ok(NamedTuple):
    """Reports that a request is done and durable. Each request describes its value."""

    request_id: Id
    value: OkValue = None


@message(7, dialler=Role.QUEUE_MANAGER, listener=Role.ANY)
class Error(NamedTuple):
    """Reports that a request was not done."""

    request_id: Id
    code: U32
    error_class: U8
    retry_after_ms: U64 = 0
    text: LongText = ""


@message(9, listener=Role.ANY)
class Ended(NamedTuple):
    """Ends a get or a consumer that was cancelled, or whose queue was deleted."""

    request_id: Id
    code: U32
    text: LongText = ""


@message(22, dialler=Role.QUEUE_MANAGER, listener=Role.ANY, left_out_from="held")
class Committed(NamedTuple):
    """Reports that all ids up to commit_id are durable, except for the refused ids listed.

    refused: Rows [id, code, text].
    stamped: Runs [first id, its timestamp, count]. Ids and timestamps increase by one.
    held: On a link, runs [first id, count] of the durable ids above commit_id.
    taken: The number of records that arrived over this connection, whether stored or refused.
    matched: For publications, rows [first id, count, number of subscriptions that match each].
    """

    stream: Id
    commit_id: U64
    refused: Refused = []
    stamped: Stamped = []
    held: Held = []
    taken: U64 = 0
    matched: Matched = []


@message(26, listener=Role.ANY, left_out_from="bodies")
class Deliver(NamedTuple):
    """Delivers messages that are leased to a get or a consumer.

    items: Binaries, each of a DELIVERY head and a record.
    bodies: Rows [index, body] of the items whose record was sent in pieces. Such an item has no
    bytes of the record.
    """

    request_id: Id
    queue_id: U32
    items: Binaries
    bodies: Bodies = []


@message(28, listener=Role.ANY)
class Settled(NamedTuple):
    """Reports that all settles up to settle_id are durable, except [settle_id, index, code]."""

    settle_id: Id
    exceptions: Exceptions = []


@message(67, dialler=Role.QUEUE_MANAGER, listener=Role.ANY)
class Blocked(NamedTuple):
    """Reports that the receiver of a link cannot store an id now. The sender sends it again later.

    taken: The same value as in Committed. The number includes the put that has the id.
    """

    stream: Id
    seq_id: Seq
    code: U32
    retry_after_ms: U64 = 0
    text: LongText = ""
    taken: U64 = 0


# -- puts


@message(36, dialler=Role.ANY, listener=Role.ANY)
class Piece(NamedTuple):
    """Carries bytes of a long record. A later Put, UnitPut or Deliver names the body.

    size: The size of the whole record.
    offset: The place of data in the record. 0 begins the body from scratch.
    """

    body: Body
    size: BodySize
    offset: U64
    data: PieceData


@request(
    20,
    Need(Right.CONNECT),
    Growth.OPERATES,  # Units of work that only get messages need a stream to commit.
    ok_value=field.row(field.ID, field.U64, _IDS_ABOVE, _REFUSED, _STAMPED),
)
class ProducerOpen(NamedTuple):
    """Opens a stream of numbered puts.

    OK value: [stream, commit_id, [ids held above it], refusals not seen yet, stamped]. The last two
    have the same form as in Committed.
    instance: A random number of the running program, so that no other program resumes the stream.
    """

    request_id: Id
    producer_id: Bytes16
    resume: Flag = False
    instance: U64 = 0


@request(
    21,
    Need(Right.PUT, Kind.DESTINATION, "queue"),
    Growth.ITSELF,
    listener=Role.QUEUE_MANAGER,
    answered_by=AnsweredBy.COMMITTED,
    left_out_from="extras",
)
class Put(NamedTuple):
    """Puts records, numbered from first_id, on a queue.

    seen: The highest commit id that the sender has received. Refusals up to it are forgotten.
    queue: On a link, both queue and records are empty for ids whose messages no longer exist.
    extras: On a link, rows [index, map] with the remaining time, the delay and the note of a
    record.
    bodies: Rows [index, body] of the records that were sent in pieces. Each of them is empty here.
    """

    stream: Id
    first_id: Seq
    seen: U64
    queue: Name
    records: Binaries
    extras: Annotated[list[list[Any]], _EXTRAS] = []
    bodies: Bodies = []


# -- units of work


@request(30, Need(Right.CONNECT), Growth.NOTHING)
class UnitBegin(NamedTuple):
    """Begins the unit of work with number *unit*. The unit ends with the connection. OK: nil."""

    request_id: Id
    unit: Id


@request(
    31,
    Need(Right.PUT, Kind.DESTINATION, "queue"),
    Growth.ITSELF,
    ok_value=field.row(
        _rows(field.U32, field.U32, field.LONG_TEXT), _rows(field.U32, field.U64, field.U32)
    ),
    left_out_from="bodies",
)
class UnitPut(NamedTuple):
    """Puts records in a unit of work. OK value: [refused [index, code, text], stamped].

    stamped: Runs [index of the first, its timestamp, count]. Indexes and timestamps increase by
    one.
    bodies: The same as in Put.
    """

    request_id: Id
    unit: Id
    queue: Name
    records: Binaries
    bodies: Bodies = []


@request(32, Need(Right.CONNECT), Growth.ITSELF, answered_by=AnsweredBy.COMMITTED)
class UnitCommit(NamedTuple):
    """Commits a unit of work. The commit is numbered like a put, and may be repeated like a put.

    puts, gets: The numbers of messages that the unit must contain. If the numbers differ, the unit
    is backed out.
    """

    stream: Id
    seq_id: Seq
    seen: U64
    unit: Id
    puts: U32
    gets: U32


@request(33, Need(Right.CONNECT), Growth.NOTHING)
class UnitBackout(NamedTuple):
    """Backs out a unit of work. OK value: the numbers [puts, gets] that were undone.

    reason, text: The reason for the backout.
    """

    request_id: Id
    unit: Id
    reason: Reason = ""
    text: ReasonText = ""


# -- gets and settles


@request(8, Need(Right.CONNECT), Growth.NOTHING, answered_by=AnsweredBy.NONE, is_dropped=True)
class Cancel(NamedTuple):
    """Ends a waiting get or a consumer. The last answer to the ended request is an Ended."""

    request_id: Id


@request(
    23,
    Need(Right.GET, Kind.SOURCE, "queue"),
    Growth.NOTHING,
    answered_by=AnsweredBy.DELIVER,
    is_dropped=True,
    left_out_from="order",
)
class Get(NamedTuple):
    """Leases up to messages_max messages. The answer is a Deliver, or an OK with nil after wait_ms.

    where: A selector. At most one of where, correlation_id, group_id and uid (encoded) is given.
    order: Physical (0) or logical (1). A logical get leases the next message of the reader's
    current group. If the reader has no current group, the get leases the first message of another
    group.
    all_available: True if a group is delivered only when all its messages are available.
    number: With group_id, the number of the message in the group.
    reader: The number of the reader, which remembers its group on this connection. 0 means no
    reader.
    """

    request_id: Id
    queue: Name
    messages_max: MessagesMax = 1
    wait_ms: WaitMs = 0
    lease_ms: LeaseMs = 0
    bytes_max: Seq = 1024 * 1024
    where: Selector = ""
    correlation_id: CorrelationId = b""
    group_id: GroupId = b""
    uid: EncodedUid = b""
    order: GetOrder = 0
    all_available: Flag = False
    number: GroupNumber = 0
    reader: IdOrZero = 0


@request(
    24,
    Need(Right.GET, Kind.SOURCE, "queue"),
    Growth.NOTHING,
    ok_value=field.row(field.U32, _LEASE_MS),
    is_dropped=True,
    left_out_from="order",
)
class Consume(NamedTuple):
    """Opens a consumer, identified by its request id. OK value: [queue id, lease_ms].

    order: The same values as in Get, or pinned (2): one consumer at a time receives all messages of
    a group.
    all_available: The same as in Get.
    start_later: True if a lease starts with its first renewal. Until then, the message counts as
    unseen.
    """

    request_id: Id
    queue: Name
    messages: U32
    bytes: U64
    lease_ms: LeaseMs = 0
    where: Selector = ""
    correlation_id: CorrelationId = b""
    group_id: GroupId = b""
    order: ConsumeOrder = 0
    all_available: Flag = False
    start_later: Flag = False


@request(25, Need(Right.CONNECT), Growth.NOTHING, answered_by=AnsweredBy.NONE, is_dropped=True)
class Credit(NamedTuple):
    """Lets a consumer receive *messages* more messages, and *bytes* more bytes of records."""

    request_id: Id
    messages: U32
    bytes: U64


@request(
    27, Need(Right.CONNECT), Growth.NOTHING, answered_by=AnsweredBy.SETTLED, left_out_from="unit"
)
class Settle(NamedTuple):
    """Ends leases: ack (1), release (2), return (3), unread (4), reject (5). Renews leases (6).

    A release counts as a failure. A return counts as a delivery. An unread message counts as
    neither.
    unit: The unit of work that includes the acks. 0 means no unit.
    delay_ms: The time until a returned message is delivered again. -1 means the wait of the queue.
    lease_ms: The new lease time of a renewal. 0 means the previous lease time.
    """

    settle_id: Id
    action: SettleAction
    queue_id: U32
    handles: Handles
    unit: IdOrZero = 0
    delay_ms: DelayMs = DELAY_OF_QUEUE
    lease_ms: LeaseMs = 0
    reason: Reason = ""
    text: ReasonText = ""


@query(29, Need(Right.BROWSE, Kind.SOURCE, "queue"), is_long=True, left_out_from="order")
class Browse(NamedTuple):
    """Reads messages without leasing them. OK value: {items, next, ..}; next is nil at the end.

    With a selection, a page may be empty although it is not the last page.
    delayed: True to read the delayed messages instead of the available messages.
    order, all_available: The same values as in Get, or ARRIVAL. A cursor is valid for one order.
    """

    request_id: Id
    queue: Name
    after: BrowsePlace = None
    messages_max: MessagesMax = 100
    bytes_max: Seq = 1024 * 1024
    where: Selector = ""
    correlation_id: CorrelationId = b""
    group_id: GroupId = b""
    uid: EncodedUid = b""
    delayed: Flag = False
    order: BrowseOrder = 0
    all_available: Flag = False


@request(35, Need(Right.CONNECT), Growth.NOTHING, is_dropped=True)
class ReaderClose(NamedTuple):
    """Ends a reader and frees its group. OK: nil, even if the reader does not exist."""

    request_id: Id
    reader: Id


# -- queues


@request(
    40,
    (
        Need(Right.CREATE, Kind.QUEUE, "queue"),
        Need(Right.PUT, Kind.DESTINATION, "attributes.alias_of"),
        Need(Right.PUT, Kind.DESTINATION, "attributes.backout_queue"),
    ),
    Growth.ADDS,
)
class QueueCreate(NamedTuple):
    """Defines a queue: local, or remote if the name is QUEUE@MANAGER. OK value: its row."""

    request_id: Id
    queue: Name
    attributes: Attributes = {}


@request(
    41,
    (
        Need(Right.DELETE, Kind.SOURCE, "queue"),
        Need(Right.PURGE, Kind.SOURCE, "queue", when="purge"),
    ),
    Growth.OPERATES,
)
class QueueDelete(NamedTuple):
    """Deletes a queue, even with messages if purge is true. OK value: {messages}."""

    request_id: Id
    queue: Name
    purge: Flag = False


@query(42, Need(Right.SHOW, Kind.SOURCE, EACH), is_long=True)
class QueueList(NamedTuple):
    """Lists queues by name, after the name *after*. OK value: {queues, next}."""

    request_id: Id
    after: PreviousName = ""
    limit: PageLimit = 1000


@query(43, Need(Right.SHOW, Kind.SOURCE, "queue"), is_long=False)
class QueueShow(NamedTuple):
    """Shows a queue. OK value: its row with attributes, counters, consumers and origins.

    origins_after: The origin after which the page of origins begins.
    """

    request_id: Id
    queue: Name
    origins_after: PreviousName = ""


@request(44, Need(Right.PURGE, Kind.SOURCE, "queue"), Growth.OPERATES)
class QueuePurge(NamedTuple):
    """Deletes the messages that are now on a queue, unless leased. OK value: {messages}.

    The OK is sent when the job is done.
    where: A selector of the messages to delete.
    """

    request_id: Id
    queue: Name
    where: Selector = ""
    messages_max: U64 = 0


@request(
    45,
    (
        Need(Right.ALTER, Kind.SOURCE, "queue"),
        Need(Right.PUT, Kind.DESTINATION, "attributes.alias_of"),
        Need(Right.PUT, Kind.DESTINATION, "attributes.backout_queue"),
    ),
    Growth.OPERATES,
)
class QueueAlter(NamedTuple):
    """Changes attributes of a queue permanently. OK value: its row, and the changed attributes.

    attributes: The attributes to change; nil resets an attribute to its default.
    """

    request_id: Id
    queue: Name
    attributes: Attributes = {}


@request(
    46,
    (Need(Right.MOVE, Kind.SOURCE, "queue"), Need(Right.PUT, Kind.DESTINATION, "target")),
    Growth.OPERATES,
)
class QueueMove(NamedTuple):
    """Moves or copies the messages that are now on a queue, unless leased. OK value: a job's row.

    A group stays if any of its messages is leased or delayed.

    target: Empty for dead letters, each of which returns to its original queue. Those to a queue on
    which the user may not put stay, and count as skipped.
    messages_max, rate: The maximum number of messages in total, and per second. 0 means no limit.
    retries_max: The number of returns after which a dead letter stays. With a target and a
    retries_max above 0, dead letters become ordinary messages on the target. With 0, they stay dead
    letters.
    """

    request_id: Id
    queue: Name
    target: Name
    where: Selector = ""
    messages_max: U64 = 0
    rate: U32 = 0
    copy: Flag = False
    retries_max: U16 = 3


@request(
    90,
    (
        Need(Right.CREATE, Kind.TEMPLATE, "pattern"),
        Need(Right.PUT, Kind.DESTINATION, "attributes.backout_queue"),
    ),
    Growth.ADDS,
)
class TemplateSet(NamedTuple):
    """Defines a template: the attributes of queues whose names match a pattern. OK value: its row.

    attributes: All attributes of the template, which are those of a local queue. An attribute that
    is nil or missing is not defined by the template.
    """

    request_id: Id
    pattern: Name
    attributes: Attributes = {}


@request(91, Need(Right.DELETE, Kind.TEMPLATE, "pattern"), Growth.NOTHING)
class TemplateDelete(NamedTuple):
    """Deletes a template. OK value: {pattern, queues}."""

    request_id: Id
    pattern: Name


@query(92, Need(Right.SHOW, Kind.TEMPLATE, EACH), is_long=True)
class TemplateList(NamedTuple):
    """Lists templates in the order of their patterns. OK value: {templates}."""

    request_id: Id


# -- links


@request(
    60,
    Need(Right.LINK, Kind.PEER),
    Growth.ITSELF,  # The handler first checks whether the peer may learn that its stream exists.
    dialler=Role.QUEUE_MANAGER,
    listener=Role.QUEUE_MANAGER,
    ok_value=field.row(
        field.ID,
        field.U64,
        _IDS_ABOVE,
        field.optional(_UID),
        field.SEQ,
        field.U64,
        field.U64,
        field.binary(16),
    ),
)
class LinkOpen(NamedTuple):
    """Opens a path of a link's stream.

    OK value: [stream, commit_id, [ids held above it], encoded UID at the highest or nil, window,
    incarnation, lost, life]. If the incarnation differs from the incarnation of the other paths,
    messages sent over those paths may be lost. lost is the number of ids below lowest_id that the
    receiver did not have and now counts as held. life is the life of the sender in which the
    highest id arrived, or empty if this life is unknown.
    """

    request_id: Id
    stream_id: Bytes24
    base_id: Seq  # the first id of the stream
    next_id: Seq
    life: UpTo16Bytes = b""  # the sender's life, new at each start; closes the paths of other lives
    path: U8 = 0  # the number of this path; an older path with this number is closed
    ordered: Flag = False  # True if ids after a gap are not stored before the gap is closed
    # the lowest id that the sender holds; the receiver has committed all lower ids
    lowest_id: Seq = 1


@request(
    69,
    Need(Right.LINK, Kind.PEER),
    Growth.NOTHING,
    dialler=Role.QUEUE_MANAGER,
    listener=Role.QUEUE_MANAGER,
    answered_by=AnsweredBy.COMMITTED,
)
class CommitAsk(NamedTuple):
    """Asks for the highest id that is stored of a link's stream.

    The answer may repeat an earlier answer.
    """

    stream: Id


@request(70, Need(Right.FETCH, Kind.PEER), Growth.NOTHING, dialler=Role.QUEUE_MANAGER)
class LinkFetch(NamedTuple):
    """Asks a queue manager to send the messages of its link to the dialler over this connection.

    The queue manager then opens a path over this connection. The other fields have the same meaning
    as in a Welcome of the dialler. OK: nil.
    """

    request_id: Id
    path: U8
    frame_max_bytes: U64
    message_max_bytes: U64
    put_window_messages: U64
    put_window_bytes: U64


@request(
    61,
    (Need(Right.CREATE, Kind.LINK, "link"), Need(Right.CREATE, Kind.LINK, "attributes.routes")),
    Growth.ADDS,
)
class LinkCreate(NamedTuple):
    """Defines a link to another queue manager. OK value: its row."""

    request_id: Id
    link: Name
    attributes: Attributes = {}


@request(
    62,
    (Need(Right.DELETE, Kind.LINK, "link"), Need(Right.PURGE, Kind.LINK, "link", when="purge")),
    Growth.OPERATES,
)
class LinkDelete(NamedTuple):
    """Deletes a link, even with pending messages if purge is true. OK value: {messages}."""

    request_id: Id
    link: Name
    purge: Flag = False


@query(63, Need(Right.SHOW, Kind.LINK, EACH), is_long=True)
class LinkList(NamedTuple):
    """Lists links. OK value: {links}."""

    request_id: Id


@query(64, Need(Right.SHOW, Kind.LINK, "link"), is_long=False)
class LinkShow(NamedTuple):
    """Shows a link. OK value: its row."""

    request_id: Id
    link: Name


@request(65, Need(Right.ALTER, Kind.LINK, "link"), Growth.NOTHING)
class LinkStart(NamedTuple):
    """Starts a stopped or refused link. OK value: its row.

    accept: True to accept the current store of the peer, and to send all messages as a new stream.
    """

    request_id: Id
    link: Name
    accept: Flag = False


@request(66, Need(Right.ALTER, Kind.LINK, "link"), Growth.NOTHING)
class LinkStop(NamedTuple):
    """Stops a link, even across restarts. OK value: its row."""

    request_id: Id
    link: Name


@request(
    68,
    (Need(Right.ALTER, Kind.LINK, "link"), Need(Right.CREATE, Kind.LINK, "attributes.routes")),
    Growth.OPERATES,
)
class LinkAlter(NamedTuple):
    """Changes attributes of a link permanently. OK value: its row, and the changed attributes."""

    request_id: Id
    link: Name
    attributes: Attributes = {}


@request(71, Need(Right.ADMIN, Kind.LINK, "manager"), Growth.ADDS)
class LinkAllow(NamedTuple):
    """Lets a queue manager open links to this one. OK value: its row.

    store_id: The only store that is accepted under that name. If empty, the accepted store is the
    store that is already pinned, or else the first store that connects.
    """

    request_id: Id
    manager: Name
    store_id: PinnedStore = b""


@request(72, Need(Right.ADMIN, Kind.LINK, "manager"), Growth.NOTHING)
class LinkDisallow(NamedTuple):
    """Withdraws a queue manager's permission to open links.

    OK value: {connections}, the number closed.
    """

    request_id: Id
    manager: Name


# -- operations


@query(80, Need(Right.SHOW), is_long=False)
class Status(NamedTuple):
    """Reports the state of the queue manager. OK value: a map."""

    request_id: Id


@request(81, Need(Right.SNAPSHOT), Growth.NOTHING)
class Snapshot(NamedTuple):
    """Writes a snapshot of one turn to a new directory of the daemon's host. OK: the manifest.

    directory: An absolute path, or a URL.
    rate_bytes: The maximum number of bytes written per second. 0 means the configured rate.
    """

    request_id: Id
    directory: LongText
    rate_bytes: U64 = 0


@query(82, Need(Right.SHOW), is_long=True)
class ConnectionList(NamedTuple):
    """Lists open connections by number. OK value: {connections, next}."""

    request_id: Id
    after: U64 = 0
    limit: PageLimit = 1000


@request(83, Need(Right.ADMIN), Growth.NOTHING)
class ConnectionClose(NamedTuple):
    """Closes another connection. OK value: its row."""

    request_id: Id
    connection: Seq


@query(84, Need(Right.SHOW), is_long=True)
class AsideList(NamedTuple):
    """Lists the items that were set aside, by number. OK value: {items, next}."""

    request_id: Id
    after: U64 = 0
    limit: PageLimit = 1000


@request(85, Need(Right.ADMIN), Growth.NOTHING)
class AsideRetry(NamedTuple):
    """Repeats the task of an item. OK value: its row, and the time of the retry: {retried}."""

    request_id: Id
    number: U64


@request(86, Need(Right.ADMIN), Growth.NOTHING)  # It removes an item for the job that it may start.
class AsideDrop(NamedTuple):
    """Deletes an item with its row or its job. OK value: its row."""

    request_id: Id
    number: U64


@request(87, Need(Right.ADMIN), Growth.NOTHING)
class SwitchOver(NamedTuple):
    """Makes another member active, after a clean end. OK: {member, epoch, addresses}.

    member: The member to become active. Empty means the standby with the most records.
    epoch: The epoch that the sender knows. 0 means any. In a later epoch, nothing changes.
    """

    request_id: Id
    member: Text = ""
    epoch: U64 = 0


@query(110, Need(Right.SHOW), is_long=True)
class JobList(NamedTuple):
    """Lists jobs, including those that ended within the last hour. OK value: {jobs}."""

    request_id: Id


@query(111, Need(Right.SHOW), is_long=False)
class JobShow(NamedTuple):
    """Shows a job. OK value: its row."""

    request_id: Id
    job: Seq


@request(112, Need(Right.ADMIN), Growth.NOTHING)
class JobCancel(NamedTuple):
    """Ends a job. Work that the job has completed is not undone. OK value: its row."""

    request_id: Id
    job: Seq


# -- users, roles and grants


@request(50, Need(Right.ADMIN, Kind.USER, "user"), Growth.ADDS)
class UserCreate(NamedTuple):
    """Creates a user. OK value: its row.

    attributes: verifier (text: see section 17), roles (array of names), enabled (flag),
    queue_manager (the name to which the user is bound; empty for none), and the limits of the user
    (see section 17).
    """

    request_id: Id
    user: Name
    attributes: Attributes = {}


@request(51, Need(Right.ADMIN, Kind.USER, "user"), Growth.OPERATES)
class UserAlter(NamedTuple):
    """Changes attributes of a user. OK value: its row, and the number of *connections* closed.

    The connections of the user close if its verifier changed or it was disabled. A limit that is
    nil gets its default again. A lower limit closes and deletes nothing.
    """

    request_id: Id
    user: Name
    attributes: Attributes = {}


@request(52, Need(Right.ADMIN, Kind.USER, "user"), Growth.NOTHING)
class UserDelete(NamedTuple):
    """Deletes a user and closes its connections. OK value: its row, and *connections* closed."""

    request_id: Id
    user: Name


@query(53, Need(Right.SHOW, Kind.USER, EACH), is_long=True)
class UserList(NamedTuple):
    """Lists users in the order of names, after the name *after*. OK value: {users, next}."""

    request_id: Id
    after: PreviousName = ""
    limit: PageLimit = 1000


@query(
    54,
    (Need(Right.SHOW, Kind.USER, "user"), Need(Right.ADMIN, Kind.USER, "user", when="secrets")),
    is_long=True,
)
class UserShow(NamedTuple):
    """Shows a user. OK value: its row with *use*, and with its verifier if secrets is true."""

    request_id: Id
    user: Name
    secrets: Flag = False


@request(55, Need(Right.ADMIN, Kind.ROLE, "role"), Growth.ADDS)
class RoleCreate(NamedTuple):
    """Creates a role without grants. OK value: its row."""

    request_id: Id
    role: Name


@request(56, Need(Right.ADMIN, Kind.ROLE, "role"), Growth.NOTHING)
class RoleDelete(NamedTuple):
    """Deletes a role that no user has. OK value: its row."""

    request_id: Id
    role: Name


@query(57, Need(Right.SHOW, Kind.ROLE, EACH), is_long=True)
class RoleList(NamedTuple):
    """Lists roles in the order of names, the built-in ones included. OK value: {roles}."""

    request_id: Id


@query(58, Need(Right.SHOW, Kind.ROLE, "role"), is_long=True)
class RoleShow(NamedTuple):
    """Shows a role. OK value: its row."""

    request_id: Id
    role: Name


_GRANT_NEEDS = Need(Right.ADMIN, Kind.USER, "user"), Need(Right.ADMIN, Kind.ROLE, "role")


@request(73, _GRANT_NEEDS, Growth.ADDS)
class GrantCreate(NamedTuple):
    """Grants rights to a user or to a role: one of the two is given. OK value: its row.

    kind, pattern: The kind of objects, and the names of the objects. See section 17.
    """

    request_id: Id
    user: Name
    role: Name
    rights: Texts
    kind: Text
    pattern: Text = ""


@request(74, _GRANT_NEEDS, Growth.OPERATES)
class GrantDelete(NamedTuple):
    """Revokes rights of a user or of a role. OK value: its row. See GrantCreate for the fields."""

    request_id: Id
    user: Name
    role: Name
    rights: Texts
    kind: Text
    pattern: Text = ""


@query(75, Need(Right.SHOW, Kind.USER, "user"), is_long=False)
class AccessExplain(NamedTuple):
    """Explains whether a user may send a request. OK value: {allowed, decisions}.

    operation: The name of a request, such as QueueMove.
    values: The fields of the request that name objects, by name.
    """

    request_id: Id
    user: Name
    operation: Text
    values: Attributes = {}


@query(76, Need(Right.ADMIN), is_long=False)
class AccessRules(NamedTuple):
    """Lists the rules for logins, in their order. OK value: {rules, default}."""

    request_id: Id


@query(77, Need(Right.ADMIN), is_long=False)
class AccessTest(NamedTuple):
    """Finds the rule that decides about a login. OK value: {allowed, rule, why}.

    address: The address of the client, or unix.
    user: The user; empty for a connection without a user.
    method: The method of the rules, such as scram-sha-256.
    tls: "none", "required" for a connection with TLS, or "certificate" for one with a certificate.
    """

    request_id: Id
    address: Text
    user: Text
    method: Text
    tls: Text = "none"


# -- groups


@request(34, Need(Right.CONNECT), Growth.NOTHING, ok_value=field.exactly(24))
class GroupNew(NamedTuple):
    """Requests the id of a new group. OK value: 24 bytes that no other group has."""

    request_id: Id


@query(100, Need(Right.SHOW, Kind.SOURCE, "queue", through=True), is_long=True)
class GroupList(NamedTuple):
    """Lists the groups of a queue by id. OK value: {groups, next}.

    incomplete: True to list only groups with messages that are missing or have not arrived yet.
    """

    request_id: Id
    queue: Name
    after: GroupId = b""
    limit: PageLimit = 1000
    incomplete: Flag = False


@query(101, Need(Right.SHOW, Kind.SOURCE, "queue", through=True), is_long=True)
class GroupShow(NamedTuple):
    """Shows a group: its row, its members from *number* on, and the missing numbers in between."""

    request_id: Id
    queue: Name
    group_id: Bytes24
    number: GroupNumber = 1


@request(102, Need(Right.ALTER, Kind.SOURCE, "queue", through=True), Growth.OPERATES)
class GroupAlter(NamedTuple):
    """Changes the state of a group. OK value: its new row, and whether it *changed*.

    action: pause, resume, skip (to *number*, or past the due number), reassign (to *connection*, or
    to another reader), close.
    """

    request_id: Id
    queue: Name
    group_id: Bytes24
    action: GroupAction
    number: GroupNumber = 0
    connection: U64 = 0


# -- topics: a publication is an ordinary put to a topic, and a subscription is consumed as a queue


@request(
    117,
    (
        Need(Right.SUBSCRIBE, Kind.TOPIC, "topic"),
        Need(Right.CREATE, Kind.SUBSCRIPTION, "subscription"),
    ),
    Growth.ADDS,
)
class Subscribe(NamedTuple):
    """Subscribes to the topics that match a filter. OK value: the row of the subscription.

    subscription: Empty for a subscription that is not durable. The row then contains its name. If a
    durable subscription exists with the same topic, selector and attributes, its row is returned.
    where: A selector. The subscription receives only publications that match.
    retained: True to begin with the last retained publication of each topic.
    """

    request_id: Id
    topic: Name
    subscription: Name = ""
    where: Selector = ""
    attributes: Attributes = {}
    retained: Flag = True


@request(118, Need(Right.DELETE, Kind.SUBSCRIPTION, "subscription"), Growth.OPERATES)
class Unsubscribe(NamedTuple):
    """Ends a subscription and deletes all its messages. OK value: {messages}."""

    request_id: Id
    subscription: Name


@query(119, Need(Right.SHOW, Kind.SUBSCRIPTION, EACH), is_long=True)
class SubscriptionList(NamedTuple):
    """Lists subscriptions by name. OK value: {subscriptions, next}.

    topic: Lists only subscriptions whose filter matches this topic; empty: all.
    """

    request_id: Id
    after: PreviousName = ""
    limit: PageLimit = 1000
    topic: Name = ""


@request(120, Need(Right.ALTER, Kind.SUBSCRIPTION, "subscription"), Growth.OPERATES)
class SubscriptionHealthy(NamedTuple):
    """Reports that a subscriber can receive again. OK value: its row, and the *job* or nil.

    A suspended subscription resumes. Its parked publications are republished if their topic has
    republish = healthy.
    """

    request_id: Id
    subscription: Name


@request(121, Need(Right.CREATE, Kind.TOPIC, "topic"), Growth.ADDS)
class TopicSet(NamedTuple):
    """Defines the attributes of a topic and of all topics below it. OK value: its row.

    attributes: All attributes of the topic. The topic inherits attributes that are nil or missing.
    """

    request_id: Id
    topic: Name
    attributes: Attributes = {}


@request(122, Need(Right.DELETE, Kind.TOPIC, "topic"), Growth.NOTHING)
class TopicDelete(NamedTuple):
    """Deletes the definition of a topic, or only its retained publication. OK: nil."""

    request_id: Id
    topic: Name
    retained: Flag = False


@query(123, Need(Right.SHOW, Kind.TOPIC, EACH), is_long=True)
class TopicList(NamedTuple):
    """Lists topics with a definition or a retained publication. OK value: {topics, next}."""

    request_id: Id
    after: PreviousName = ""
    limit: PageLimit = 1000


@query(124, Need(Right.SHOW, Kind.TOPIC, "topic"), is_long=True)
class TopicShow(NamedTuple):
    """Shows the attributes in force for a topic, and its subscriptions. OK value: its row."""

    request_id: Id
    topic: Name


@query(125, Need(Right.SHOW, Kind.SUBSCRIPTION, EACH), is_long=True)
class TopicLacks(NamedTuple):
    """Lists subscriptions that have not consumed a publication. OK: {uid, topic, subscriptions}."""

    request_id: Id
    uid: EncodedUid


@query(126, Need(Right.SHOW, Kind.SUBSCRIPTION, EACH), is_long=True)
class RepublishList(NamedTuple):
    """Lists parked publications in order, after the position *after*. OK value: {parked, next}.

    Each item in parked is one publication for one subscription, and limit counts these items.
    where: A selector. uid: Selects one publication. subscription: Selects one subscriber.
    """

    request_id: Id
    after: ParkedPlace = None
    limit: PageLimit = 1000
    where: Selector = ""
    uid: EncodedUid = b""
    subscription: Name = ""


@request(
    127, Need(Right.REPUBLISH, Kind.SUBSCRIPTION, "subscriptions", or_all=True), Growth.OPERATES
)
class Republish(NamedTuple):
    """Delivers parked publications again, only to the subscribers that failed, or drops them.

    The request starts a job. OK value: its row. A publication for an absent subscriber waits until
    the subscriber returns.

    uid, where, subscriptions: Select publications. If none of them is given, all parked
    publications are selected.
    rate, messages_max: The maximum number of publications per second, and in total. 0 means no
    limit.
    """

    request_id: Id
    drop: Flag = False
    uid: EncodedUid = b""
    where: Selector = ""
    subscriptions: Names = []
    rate: U32 = 0
    messages_max: U64 = 0


# -- history, and the export cursors that retain it


@query(113, Need(Right.HISTORY), is_long=True)
class HistoryRead(NamedTuple):
    """Reads rows of history. OK value: {manager, store_id, first, next, rows}.

    after, until: Numbers of rows. The answer begins after row *after* and ends with row *until*. If
    until is 0, the answer has no end.
    bytes_max: The maximum size of all rows together. The first row is sent even if it is longer.
    """

    request_id: Id
    after: U64 = 0
    until: U64 = 0
    bytes_max: U32 = 1_048_576


@query(114, Need(Right.SHOW), is_long=False)
class HistoryShow(NamedTuple):
    """Shows the size and range of the history, and its cursors. OK value: its row."""

    request_id: Id


@request(115, Need(Right.EXPORT, Kind.CURSOR, "cursor"), Growth.ADDS)
class CursorCommit(NamedTuple):
    """Reports that an export has all rows up to a number. Creates the cursor if it does not exist.

    A late or repeated report has no effect. OK value: the cursor's row.
    """

    request_id: Id
    cursor: Name
    position: U64


@request(116, Need(Right.DELETE, Kind.CURSOR, "cursor"), Growth.NOTHING)
class CursorDelete(NamedTuple):
    """Deletes a cursor. History is no longer kept for this cursor. OK: nil."""

    request_id: Id
    cursor: Name


# -- the unions, for type checkers

Greeting: TypeAlias = (
    Hello | Welcome | AuthChallenge | AuthAnswer | TokenRenew | Goaway | Ping | Pong | Piece
)
Answer: TypeAlias = Ok | Error | Ended | Committed | Deliver | Settled | Blocked
# An Ok, an Error, a Deliver or an Ended refers to one of these requests by its id.
RequestWithId: TypeAlias = (
    ProducerOpen
    | UnitBegin
    | UnitPut
    | UnitBackout
    | Cancel
    | Get
    | Consume
    | Credit
    | Browse
    | ReaderClose
    | QueueCreate
    | QueueDelete
    | QueueList
    | QueueShow
    | QueuePurge
    | QueueAlter
    | QueueMove
    | TemplateSet
    | TemplateDelete
    | TemplateList
    | LinkOpen
    | LinkFetch
    | LinkCreate
    | LinkDelete
    | LinkList
    | LinkShow
    | LinkStart
    | LinkStop
    | LinkAlter
    | LinkAllow
    | LinkDisallow
    | Status
    | Snapshot
    | ConnectionList
    | ConnectionClose
    | AsideList
    | AsideRetry
    | AsideDrop
    | SwitchOver
    | JobList
    | JobShow
    | JobCancel
    | UserCreate
    | UserAlter
    | UserDelete
    | UserList
    | UserShow
    | RoleCreate
    | RoleDelete
    | RoleList
    | RoleShow
    | GrantCreate
    | GrantDelete
    | AccessExplain
    | AccessRules
    | AccessTest
    | GroupNew
    | GroupList
    | GroupShow
    | GroupAlter
    | Subscribe
    | Unsubscribe
    | SubscriptionList
    | SubscriptionHealthy
    | TopicSet
    | TopicDelete
    | TopicList
    | TopicShow
    | TopicLacks
    | RepublishList
    | Republish
    | HistoryRead
    | HistoryShow
    | CursorCommit
    | CursorDelete
)
MessageWithId: TypeAlias = RequestWithId | TokenRenew | Ok | Error | Ended | Deliver
Request: TypeAlias = RequestWithId | Put | UnitCommit | Settle | CommitAsk
Message: TypeAlias = Greeting | Answer | Request

OPERATIONS: dict[int, Operation] = declared()  # all messages above, by number


class OperationUnknown(Exception):
    """A well-formed message whose operation is unknown to this version."""

    def __init__(self, operation: int, request_id: int) -> None:
        super().__init__(f"operation {operation} is unknown")
        self.operation = operation
        self.request_id = request_id


Received: TypeAlias = Message | OperationUnknown
