"""All messages, each declared once: its number, its fields, who may send it, what it may do.

PROTOCOL.md, section 10, describes the same for people. operation.py explains the decorators. A
field's type carries its limits; the types that several messages share are in field_type.py.

This file is one long table. The parts are: constants, types of fields, messages of the connection,
answers, puts, units of work, gets and settles, queues, links, operations, groups, topics, history.
"""
# ruff: noqa: RUF012 - the defaults of the fields: nobody changes the value of a message's field

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
    Seq,
    Text,
    Texts,
    UpTo16Bytes,
    UpTo64Bytes,
)
from qmgr_protocol.operation import (
    AnsweredBy,
    Growth,
    Operation,
    Right,
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
# priority, arrival, lease number, delivered, failed, state, put time; then the record
DELIVERY = struct.Struct(">BQQHHBQ")
DELIVERY_BYTES = DELIVERY.size
STATE_REDELIVERED, STATE_MAYBE_REDELIVERED, STATE_LEASED = 1, 2, 4
# After the record of a delivery: the topic of a publication (u8 length, text); the time that is
# left (u64, ms); the note (a map).
STATE_TOPIC, STATE_EXPIRES, STATE_NOTED = 64, 8, 16
STATE_TAKEN_OVER = 32  # With this message the group came to this consumer or reader.
STATE_REPUBLISHED = 128  # The subscriber failed on it, and it was republished.
REMAINING = struct.Struct(">Q")
# How a lease ends: consumed; failed; given back; given back unseen; failed for good. Or it is
# renewed.
ACK, RELEASE, RETURN, UNREAD, REJECT, RENEW = 1, 2, 3, 4, 5, 6
DELAY_OF_QUEUE = -1
REASON_MAX, REASON_TEXT_MAX, SELECTOR_MAX = 64, 1_000, 4_096
# Keys of the extras that a link adds to a record.
EXTRA_EXPIRY_MS, EXTRA_DELAY_MS, EXTRA_NOTE = "expiry_ms", "delay_ms", "note"
# The order of messages: as usual; a group at a time; several groups at a time; by arrival.
PHYSICAL, LOGICAL, PINNED, ARRIVAL = 0, 1, 2, 3
GET_MAX_MESSAGES, HANDLES_MAX_BYTES = 10_000, HANDLE.size * 10_000
WAIT_MAX_MS, LEASE_MAX_MS = 7 * 24 * 3_600_000, 24 * 3_600_000
HELD_RUNS_MAX = 1_000  # If there are more, only the lowest are sent.


# -- types of fields


def _rows(*columns: field.Check, length_max: int = LENGTH_MAX) -> field.Check:
    return field.array(length_max, field.row(*columns))


_IDS_ABOVE = field.array(LENGTH_MAX, field.SEQ)
_REFUSED = _rows(field.SEQ, field.U32, field.LONG_TEXT)
_STAMPED = _rows(field.SEQ, field.U64, field.SEQ)
_LEASE_MS = field.integer(0, LEASE_MAX_MS)
_UID = field.binary(72)

AuthData: TypeAlias = Annotated[bytes, field.binary(1_024)]
OkValue: TypeAlias = Annotated[Any, field.shallow(16)]
Refused: TypeAlias = Annotated[list[list[Any]], _REFUSED]
Stamped: TypeAlias = Annotated[list[list[int]], _STAMPED]
Held: TypeAlias = Annotated[list[list[int]], _rows(field.SEQ, field.SEQ, length_max=HELD_RUNS_MAX)]
Matched: TypeAlias = Annotated[list[list[int]], _rows(field.SEQ, field.SEQ, field.U32)]
Exceptions: TypeAlias = Annotated[list[list[int]], _rows(field.ID, field.U32, field.U32)]
_EXTRAS = _rows(
    field.U32, field.mapping(10, field.text(20), field.either(field.binary(65_536), field.U64))
)
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
    """Opens a connection: the first message of the dialler.

    session: from the last welcome, to resume that session; empty for a new one.
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


@message(2, moves=(Move(State.GREETING, Side.LISTENER, State.OPEN),), left_out_from="session")
class Welcome(NamedTuple):
    """Answers a hello: who the listener is, and the limits of this connection.

    session: a secret of the client, with which its next connection resumes the session.
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


@message(
    3,
    moves=(
        Move(State.IDLE, Side.LISTENER, State.CLOSED),
        Move(State.GREETING, Side.LISTENER, State.CLOSED),
        Move(State.GREETING, Side.DIALLER, State.CLOSED),
        Move(State.OPEN, Side.DIALLER, State.CLOSED),
        Move(State.OPEN, Side.LISTENER, State.CLOSED),
    ),
)
class Goaway(NamedTuple):
    """Announces why the sender closes the connection after this message."""

    code: U32
    text: LongText = ""
    retry_after_ms: U64 = 0


@message(4, dialler=Role.ANY, listener=Role.ANY)
class Ping(NamedTuple):
    """Asks for a pong with the same number."""

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
    """Reports that all ids up to commit_id are durable, or refused as listed.

    refused: [id, code, text].
    stamped: [first id, its timestamp, how many]; both count up.
    held, over a link: [first id, how many] of the ids above commit_id that are durable.
    taken: how many records came over this connection, whether stored or refused.
    matched, of publications: [first id, how many, subscriptions that match each].
    """

    stream: Id
    commit_id: U64
    refused: Refused = []
    stamped: Stamped = []
    held: Held = []
    taken: U64 = 0
    matched: Matched = []


@message(26, listener=Role.ANY)
class Deliver(NamedTuple):
    """Delivers messages that are leased to a get or a consumer.

    items: each is a DELIVERY head and a record.
    """

    request_id: Id
    queue_id: U32
    items: Binaries


@message(28, listener=Role.ANY)
class Settled(NamedTuple):
    """Reports that all settles up to settle_id are durable, except [settle_id, index, code]."""

    settle_id: Id
    exceptions: Exceptions = []


@message(67, dialler=Role.QUEUE_MANAGER, listener=Role.ANY)
class Blocked(NamedTuple):
    """Reports that a link's receiver cannot store an id now; the sender sends it again later.

    taken: as in Committed, including the put that has the id.
    """

    stream: Id
    seq_id: Seq
    code: U32
    retry_after_ms: U64 = 0
    text: LongText = ""
    taken: U64 = 0


# -- puts


@request(
    20,
    Right.CONNECT,
    Growth.OPERATES,  # Units of work that only get need a stream to commit.
    ok_value=field.row(field.ID, field.U64, _IDS_ABOVE, _REFUSED, _STAMPED),
)
class ProducerOpen(NamedTuple):
    """Opens a stream of numbered puts.

    OK value: [stream, commit_id, [ids held above it], refusals not seen yet, stamped]; the last two
    are as in Committed.
    instance: a random number of the running program, so that no other program resumes the stream.
    """

    request_id: Id
    producer_id: Bytes16
    resume: Flag = False
    instance: U64 = 0


@request(
    21,
    Right.PUT,
    Growth.ITSELF,
    listener=Role.QUEUE_MANAGER,
    answered_by=AnsweredBy.COMMITTED,
    left_out_from="extras",
)
class Put(NamedTuple):
    """Puts records, numbered from first_id, on a queue.

    seen: the highest commit id that the sender has received; refusals up to it are forgotten.
    queue: empty on a link, with empty records, for ids whose messages no longer exist.
    extras: on a link, [index, map]: the time that a record has left, its delay, its note.
    """

    stream: Id
    first_id: Seq
    seen: U64
    queue: Name
    records: Binaries
    extras: Annotated[list[list[Any]], _EXTRAS] = []


# -- units of work


@request(30, Right.CONNECT, Growth.NOTHING)
class UnitBegin(NamedTuple):
    """Begins the unit of work with that number. It ends with the connection. OK: nil."""

    request_id: Id
    unit: Id


@request(
    31,
    Right.PUT,
    Growth.ITSELF,
    ok_value=field.row(
        _rows(field.U32, field.U32, field.LONG_TEXT), _rows(field.U32, field.U64, field.U32)
    ),
)
class UnitPut(NamedTuple):
    """Puts records in a unit of work. OK value: [refused [index, code, text], stamped].

    stamped: runs [index of the first, its timestamp, how many]; both count up.
    """

    request_id: Id
    unit: Id
    queue: Name
    records: Binaries


@request(32, Right.CONNECT, Growth.ITSELF, answered_by=AnsweredBy.COMMITTED)
class UnitCommit(NamedTuple):
    """Commits a unit of work. It is numbered like a put, and may be sent again like a put.

    puts, gets: how many messages the unit must hold. If it holds others, it is backed out.
    """

    stream: Id
    seq_id: Seq
    seen: U64
    unit: Id
    puts: U32
    gets: U32


@request(33, Right.CONNECT, Growth.NOTHING)
class UnitBackout(NamedTuple):
    """Backs out a unit of work. OK value: [puts, gets] undone.

    reason, text: why.
    """

    request_id: Id
    unit: Id
    reason: Reason = ""
    text: ReasonText = ""


# -- gets and settles


@request(8, Right.CONNECT, Growth.NOTHING, answered_by=AnsweredBy.NONE, is_dropped=True)
class Cancel(NamedTuple):
    """Ends a waiting get or a consumer. The last answer of that request is an Ended."""

    request_id: Id


@request(
    23,
    Right.GET,
    Growth.NOTHING,
    answered_by=AnsweredBy.DELIVER,
    is_dropped=True,
    left_out_from="order",
)
class Get(NamedTuple):
    """Leases up to messages_max. Answered by one Deliver, or by an OK with nil after wait_ms.

    where: a selector. uid: encoded. At most one of the four fields that select is given.
    order: physical (0), or logical (1): the next of the reader's group, else the first of another.
    all_available: a group is delivered only once all of it is available.
    number: with group_id, the one message of that number in the group.
    reader: remembers on this connection which group it is in; 0 = none.
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
    Right.GET,
    Growth.NOTHING,
    ok_value=field.row(field.U32, _LEASE_MS),
    is_dropped=True,
    left_out_from="order",
)
class Consume(NamedTuple):
    """Opens a consumer, named by its request id. OK value: [queue id, lease_ms].

    order, all_available: as in Get, or pinned (2): one consumer at a time has all of a group.
    start_later: a lease starts with its first renewal; before that, no consumer has seen the
    message.
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


@request(25, Right.CONNECT, Growth.NOTHING, answered_by=AnsweredBy.NONE, is_dropped=True)
class Credit(NamedTuple):
    """Lets a consumer receive that many more messages, and bytes of records."""

    request_id: Id
    messages: U32
    bytes: U64


@request(27, Right.GET, Growth.NOTHING, answered_by=AnsweredBy.SETTLED, left_out_from="unit")
class Settle(NamedTuple):
    """Ends leases: ack (1), release (2), return (3), unread (4), reject (5); or renews (6) them.

    A release counts as a failure, a return as a delivery, unread as neither.
    unit: the unit of work that the acks are part of; 0 = none.
    delay_ms: until a returned message is delivered again; -1 = as the queue defines it.
    lease_ms: of a renewal, from now on; 0 = as long as the lease was.
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


@query(29, Right.BROWSE, is_long=True, left_out_from="order")
class Browse(NamedTuple):
    """Reads without leasing. OK value: {items, next, ..}; next is nil at the end.

    A selection may leave a page empty although it is not the last page.
    delayed: reads the delayed messages instead of the available ones.
    order, all_available: as in Get; or ARRIVAL. A cursor is valid in one order.
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


@request(35, Right.CONNECT, Growth.NOTHING, is_dropped=True)
class ReaderClose(NamedTuple):
    """Ends a reader and frees its group. OK: nil, also if the reader does not exist."""

    request_id: Id
    reader: Id


# -- queues


@request(40, Right.ADMIN, Growth.ADDS)
class QueueCreate(NamedTuple):
    """Defines a queue: local, or remote if the name is QUEUE@MANAGER. OK value: its row."""

    request_id: Id
    queue: Name
    attributes: Attributes = {}


@request(41, Right.ADMIN, Growth.OPERATES)
class QueueDelete(NamedTuple):
    """Deletes a queue; with purge also one that holds messages. OK value: {messages}."""

    request_id: Id
    queue: Name
    purge: Flag = False


@query(42, is_long=True)
class QueueList(NamedTuple):
    """Lists queues in the order of names, after a name. OK value: {queues, next}."""

    request_id: Id
    after: Name = ""
    limit: PageLimit = 1000


@query(43, is_long=False)
class QueueShow(NamedTuple):
    """Shows a queue. OK value: its row with attributes, counters, consumers and origins.

    origins_after: the page of the table of origins begins after this one.
    """

    request_id: Id
    queue: Name
    origins_after: Name = ""


@request(44, Right.ADMIN, Growth.OPERATES)
class QueuePurge(NamedTuple):
    """Removes the messages that are on a queue now and not leased. OK value: {messages}.

    The OK is sent when the job is done.
    where: a selector of the messages to remove.
    """

    request_id: Id
    queue: Name
    where: Selector = ""
    messages_max: U64 = 0


@request(45, Right.ADMIN, Growth.OPERATES)
class QueueAlter(NamedTuple):
    """Changes attributes of a queue permanently. OK value: its row, and what has changed.

    attributes: those to change; nil means the default.
    """

    request_id: Id
    queue: Name
    attributes: Attributes = {}


@request(46, Right.ADMIN, Growth.OPERATES)
class QueueMove(NamedTuple):
    """Moves or copies the messages that are on a queue now and not leased. OK value: a job's row.

    A group stays if some of it is leased or delayed.

    target: empty for dead letters that return, each to the queue that it comes from.
    messages_max, rate: how many in all, and in a second; 0 = any.
    retries_max: dead letters that were returned so often already stay. With a target, dead letters
    are returned, too, if it is above 0; else they stay dead letters.
    """

    request_id: Id
    queue: Name
    target: Name
    where: Selector = ""
    messages_max: U64 = 0
    rate: U32 = 0
    copy: Flag = False
    retries_max: U16 = 3


@request(90, Right.ADMIN, Growth.ADDS)
class TemplateSet(NamedTuple):
    """Defines a template: the attributes of queues whose names match a pattern. OK value: its row.

    attributes: all of them, as of a local queue; if one is nil or missing, the template does not
    define it.
    """

    request_id: Id
    pattern: Name
    attributes: Attributes = {}


@request(91, Right.ADMIN, Growth.NOTHING)
class TemplateDelete(NamedTuple):
    """Deletes a template. OK value: {pattern, queues}."""

    request_id: Id
    pattern: Name


@query(92, is_long=True)
class TemplateList(NamedTuple):
    """Lists templates in the order of their patterns. OK value: {templates}."""

    request_id: Id


# -- links


@request(
    60,
    Right.LINK,
    Growth.ITSELF,  # First the handler checks that the peer may know whether its stream exists.
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
    incarnation, lost, life]. If the incarnation differs from that of the other paths, what they
    brought may be lost. Lost are ids below lowest_id that the receiver lacked, and now counts as
    held. The life is the one in which the highest came; empty if it is not known.
    """

    request_id: Id
    stream_id: Bytes24
    base_id: Seq  # the first of the stream
    next_id: Seq
    life: UpTo16Bytes = b""  # of the sender: a new one at each start; closes paths of other lives
    path: U8 = 0  # closes the path that has this number
    ordered: Flag = False  # ids after a gap are not stored before the gap is closed
    lowest_id: Seq = 1  # the receiver has committed all below; the sender no longer has them


@request(
    69,
    Right.LINK,
    Growth.NOTHING,
    dialler=Role.QUEUE_MANAGER,
    listener=Role.QUEUE_MANAGER,
    answered_by=AnsweredBy.COMMITTED,
)
class CommitAsk(NamedTuple):
    """Asks, for a link's sender, how far its stream is stored. The answer may repeat an old one."""

    stream: Id


@request(70, Right.LINK, Growth.NOTHING, dialler=Role.QUEUE_MANAGER)
class LinkFetch(NamedTuple):
    """Asks a queue manager to send over this connection what its link to the dialler holds.

    The queue manager then opens a path here. The other fields are those of a Welcome of the
    dialler. OK: nil.
    """

    request_id: Id
    path: U8
    frame_max_bytes: U64
    message_max_bytes: U64
    put_window_messages: U64
    put_window_bytes: U64


@request(61, Right.ADMIN, Growth.ADDS)
class LinkCreate(NamedTuple):
    """Defines a link to another queue manager. OK value: its row."""

    request_id: Id
    link: Name
    attributes: Attributes = {}


@request(62, Right.ADMIN, Growth.OPERATES)
class LinkDelete(NamedTuple):
    """Deletes a link; with purge also one with pending messages. OK value: {messages}."""

    request_id: Id
    link: Name
    purge: Flag = False


@query(63, is_long=True)
class LinkList(NamedTuple):
    """Lists links. OK value: {links}."""

    request_id: Id


@query(64, is_long=False)
class LinkShow(NamedTuple):
    """Shows a link. OK value: its row."""

    request_id: Id
    link: Name


@request(65, Right.ADMIN, Growth.NOTHING)
class LinkStart(NamedTuple):
    """Starts a stopped or refused link. OK value: its row.

    accept: accepts the peer as it is now, and sends all that is held here to it as a new stream.
    """

    request_id: Id
    link: Name
    accept: Flag = False


@request(66, Right.ADMIN, Growth.NOTHING)
class LinkStop(NamedTuple):
    """Stops a link, also over restarts. OK value: its row."""

    request_id: Id
    link: Name


@request(68, Right.ADMIN, Growth.OPERATES)
class LinkAlter(NamedTuple):
    """Changes the addresses of a link permanently. OK value: its row, and what has changed."""

    request_id: Id
    link: Name
    attributes: Attributes = {}


@request(71, Right.ADMIN, Growth.ADDS)
class LinkAllow(NamedTuple):
    """Lets a queue manager open links to this one. OK value: its row.

    store_id: the only store accepted under that name. Empty: the one pinned already, or the first
    that connects.
    """

    request_id: Id
    manager: Name
    store_id: PinnedStore = b""


@request(72, Right.ADMIN, Growth.NOTHING)
class LinkDisallow(NamedTuple):
    """Withdraws a queue manager's permission to open links. OK value: {connections} closed."""

    request_id: Id
    manager: Name


# -- operations


@query(80, is_long=False)
class Status(NamedTuple):
    """Reports the state of the queue manager. OK value: a map."""

    request_id: Id


@request(81, Right.ADMIN, Growth.NOTHING)
class Snapshot(NamedTuple):
    """Writes a snapshot of one turn to a new directory of the daemon's host. OK: the manifest.

    directory: an absolute path, or a URL.
    rate_bytes: the most to write in a second; 0 = as configured.
    """

    request_id: Id
    directory: LongText
    rate_bytes: U64 = 0


@query(82, is_long=True)
class ConnectionList(NamedTuple):
    """Lists open connections in the order of numbers, after one. OK value: {connections, next}."""

    request_id: Id
    after: U64 = 0
    limit: PageLimit = 1000


@request(83, Right.ADMIN, Growth.NOTHING)
class ConnectionClose(NamedTuple):
    """Closes another connection. OK value: its row."""

    request_id: Id
    connection: Seq


@query(84, is_long=True)
class AsideList(NamedTuple):
    """Lists the items set aside in the order of numbers, after one. OK value: {items, next}."""

    request_id: Id
    after: U64 = 0
    limit: PageLimit = 1000


@request(85, Right.ADMIN, Growth.NOTHING)
class AsideRetry(NamedTuple):
    """Repeats the work of an item. OK value: its row, and when: {retried}."""

    request_id: Id
    number: U64


@request(86, Right.ADMIN, Growth.NOTHING)  # It removes an item for the job that it may start.
class AsideDrop(NamedTuple):
    """Deletes an item with the row or the job that it holds. OK value: its row."""

    request_id: Id
    number: U64


@query(110, is_long=True)
class JobList(NamedTuple):
    """Lists jobs, including those that ended within the last hour. OK value: {jobs}."""

    request_id: Id


@query(111, is_long=False)
class JobShow(NamedTuple):
    """Shows a job. OK value: its row."""

    request_id: Id
    job: Seq


@request(112, Right.ADMIN, Growth.NOTHING)
class JobCancel(NamedTuple):
    """Ends a job without undoing what it did. OK value: its row."""

    request_id: Id
    job: Seq


# -- groups


@request(34, Right.PUT, Growth.NOTHING, ok_value=field.exactly(24))
class GroupNew(NamedTuple):
    """Asks for the id of a new group. OK value: 24 bytes that no other group has."""

    request_id: Id


@query(100, is_long=True)
class GroupList(NamedTuple):
    """Lists the groups of a queue in the order of ids, after one. OK value: {groups, next}.

    incomplete: lists only groups that lack messages, or whose messages have not all come yet.
    """

    request_id: Id
    queue: Name
    after: GroupId = b""
    limit: PageLimit = 1000
    incomplete: Flag = False


@query(101, is_long=True)
class GroupShow(NamedTuple):
    """Shows a group: its row, its members from a number on, and the missing numbers between."""

    request_id: Id
    queue: Name
    group_id: Bytes24
    number: GroupNumber = 1


@request(102, Right.ADMIN, Growth.OPERATES)
class GroupAlter(NamedTuple):
    """Intervenes in a group. OK value: its row after that, and whether it *changed*.

    action: pause, resume, skip (to *number*, or the next one), reassign (to *connection*, or to
    another one), close.
    """

    request_id: Id
    queue: Name
    group_id: Bytes24
    action: GroupAction
    number: GroupNumber = 0
    connection: U64 = 0


# -- topics: a publication is an ordinary put to a topic, a subscription is consumed like a queue


@request(117, Right.SUBSCRIBE, Growth.ADDS)
class Subscribe(NamedTuple):
    """Subscribes to the topics that match a filter. OK value: the row of the subscription.

    subscription: empty for one that is not durable; the row has its new name. If a durable one
    exists with the same topic, selector and attributes, it is answered as it is.
    where: a selector; the subscription does not receive publications that do not match.
    retained: begins with the last retained publication of each topic.
    """

    request_id: Id
    topic: Name
    subscription: Name = ""
    where: Selector = ""
    attributes: Attributes = {}
    retained: Flag = True


@request(118, Right.SUBSCRIBE, Growth.OPERATES)
class Unsubscribe(NamedTuple):
    """Ends a subscription and removes all that it holds. OK value: {messages}."""

    request_id: Id
    subscription: Name


@query(119, is_long=True)
class SubscriptionList(NamedTuple):
    """Lists subscriptions in the order of names, after a name. OK value: {subscriptions, next}.

    topic: lists only those whose filter matches the topic; empty: all.
    """

    request_id: Id
    after: Name = ""
    limit: PageLimit = 1000
    topic: Name = ""


@request(120, Right.SUBSCRIBE, Growth.OPERATES)
class SubscriptionHealthy(NamedTuple):
    """Reports that a subscriber can receive again. OK value: its row, and the *job* or nil.

    A suspended subscription resumes. Its parked publications are republished if the policy of the
    topic is republish = healthy.
    """

    request_id: Id
    subscription: Name


@request(121, Right.ADMIN, Growth.ADDS)
class TopicSet(NamedTuple):
    """Defines the attributes of a topic and of all topics below it. OK value: its row.

    attributes: all of them; if one is nil or missing, the topic inherits it from the topic above.
    """

    request_id: Id
    topic: Name
    attributes: Attributes = {}


@request(122, Right.ADMIN, Growth.NOTHING)
class TopicDelete(NamedTuple):
    """Deletes the definition of a topic; or, with retained, its retained publication. OK: nil."""

    request_id: Id
    topic: Name
    retained: Flag = False


@query(123, is_long=True)
class TopicList(NamedTuple):
    """Lists topics with a definition or a retained publication. OK value: {topics, next}."""

    request_id: Id
    after: Name = ""
    limit: PageLimit = 1000


@query(124, is_long=True)
class TopicShow(NamedTuple):
    """Shows the attributes in force for a topic, and its subscriptions. OK value: its row."""

    request_id: Id
    topic: Name


@query(125, is_long=True)
class TopicLacks(NamedTuple):
    """Asks which subscriptions have not consumed a publication. OK: {uid, topic, subscriptions}."""

    request_id: Id
    uid: EncodedUid


@query(126, is_long=True)
class RepublishList(NamedTuple):
    """Lists parked publications in order, after a place. OK value: {parked, next}.

    Each item of parked is one publication for one subscription; limit counts these.
    where: a selector; uid: of one publication; subscription: of one subscriber.
    """

    request_id: Id
    after: ParkedPlace = None
    limit: PageLimit = 1000
    where: Selector = ""
    uid: EncodedUid = b""
    subscription: Name = ""


@request(127, Right.ADMIN, Growth.OPERATES)
class Republish(NamedTuple):
    """Delivers parked publications again, only to the subscribers that failed; or drops them.

    A job; OK value: its row. For a subscriber that is away it waits until that one is back.

    uid, where, subscriptions: which; if none is given, all that is parked now.
    rate, messages_max: how many in a second, and in all; 0 = any.
    """

    request_id: Id
    drop: Flag = False
    uid: EncodedUid = b""
    where: Selector = ""
    subscriptions: Names = []
    rate: U32 = 0
    messages_max: U64 = 0


# -- history, and the export cursors that keep it


@query(113, is_long=True)
class HistoryRead(NamedTuple):
    """Reads rows of history after a number. OK value: {manager, store_id, first, next, rows}.

    after, until: numbers of rows: after the one, up to and including the other; 0: all.
    bytes_max: of all rows together; the first row is sent even if it is longer.
    """

    request_id: Id
    after: U64 = 0
    until: U64 = 0
    bytes_max: U32 = 1_048_576


@query(114, is_long=False)
class HistoryShow(NamedTuple):
    """Shows the extent of the journal, and its cursors. OK value: its row."""

    request_id: Id


@request(115, Right.ADMIN, Growth.ADDS)
class CursorCommit(NamedTuple):
    """Reports that an export has all rows up to a number. Creates the cursor if needed.

    A report that is late or repeated changes nothing. OK value: the cursor's row.
    """

    request_id: Id
    cursor: Name
    position: U64


@request(116, Right.ADMIN, Growth.NOTHING)
class CursorDelete(NamedTuple):
    """Deletes a cursor: no more history is kept for it. OK: nil."""

    request_id: Id
    cursor: Name


# -- the unions, for type checkers

Greeting: TypeAlias = Hello | Welcome | Goaway | Ping | Pong
Answer: TypeAlias = Ok | Error | Ended | Committed | Deliver | Settled | Blocked
# An Ok, an Error, a Deliver or an Ended names such a request by its id.
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
    | JobList
    | JobShow
    | JobCancel
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
WithRequestId: TypeAlias = RequestWithId | Ok | Error | Ended | Deliver
Request: TypeAlias = RequestWithId | Put | UnitCommit | Settle | CommitAsk
Message: TypeAlias = Greeting | Answer | Request

OPERATIONS: dict[int, Operation] = declared()  # all of the above, by number


class OperationUnknown(Exception):
    """A well-formed message of an operation that this version does not know."""

    def __init__(self, operation: int, request_id: int) -> None:
        super().__init__(f"operation {operation} is not known")
        self.operation = operation
        self.request_id = request_id


Received: TypeAlias = Message | OperationUnknown
