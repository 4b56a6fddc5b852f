"""Every message, its fields and their checks, as in PROTOCOL.md.

A message travels as an array: the operation number, then the fields in this order. Elements beyond
those known are ignored and fields that are missing at the end take their default, so that a
message can grow.
"""

import struct
from typing import Any, Literal, NamedTuple, TypeAlias

from qmgr_protocol.errors import FieldInvalid, RemoteProtocolError
from qmgr_protocol.field import (
    NAME,
    TEXT,
    U8,
    U32,
    U64,
    Check,
    anything,
    array,
    binary,
    blobs,
    integer,
    mapping,
    optional,
    row,
    text,
)

MAGIC = "qmgr"
VERSION = 1
HANDLE = struct.Struct(">BQQ")  # priority, arrival, lease number
# priority, arrival, lease number, delivered, failed, state, put time; then the record
DELIVERY = struct.Struct(">BQQHHBQ")
DELIVERY_BYTES = DELIVERY.size
STATE_REDELIVERED, STATE_MAYBE_REDELIVERED, STATE_LEASED = 1, 2, 4
ACK, RELEASE = 1, 2
HANDLES_MAX_BYTES = HANDLE.size * 10_000
WAIT_MAX_MS = 7 * 24 * 3_600_000
LEASE_MAX_MS = 24 * 3_600_000
GET_MAX_MESSAGES = 10_000

Role: TypeAlias = Literal["client", "queue-manager"]


class Hello(NamedTuple):
    """Opens a connection: first message of whoever dialled."""

    magic: str
    version_min: int
    version_max: int
    role: str
    name: str
    features: list[str] = []
    store_id: bytes = b""
    boot: int = 0
    software: str = ""
    frame_max_bytes: int = 8 * 1024 * 1024
    auth_method: str = "none"
    auth_data: bytes = b""


class Welcome(NamedTuple):
    """Answers a hello: what this connection may do, and who answers."""

    version: int
    name: str
    store_id: bytes
    boot: int
    features: list[str] = []
    software: str = ""
    frame_max_bytes: int = 8 * 1024 * 1024
    message_max_bytes: int = 4 * 1024 * 1024
    put_window_messages: int = 4096
    put_window_bytes: int = 16 * 1024 * 1024
    request_window: int = 1024
    heartbeat_ms: int = 10_000
    liveness_ms: int = 30_000


class Goaway(NamedTuple):
    """The sender closes after this, and says why."""

    code: int
    text: str = ""
    retry_after_ms: int = 0


class Ping(NamedTuple):
    """Asks for a pong with the same number."""

    number: int = 0


class Pong(NamedTuple):
    """Answers a ping."""

    number: int = 0


class Ok(NamedTuple):
    """A request is done and durable; the value is described with the request."""

    request_id: int
    value: Any = None


class Error(NamedTuple):
    """A request was not done."""

    request_id: int
    code: int
    error_class: int
    retry_after_ms: int = 0
    text: str = ""


class Cancel(NamedTuple):
    """Ends a waiting get or a consumer; that one's last answer is an Ended."""

    request_id: int


class Ended(NamedTuple):
    """The last message of a get or consumer that was cancelled or whose queue is gone."""

    request_id: int
    code: int
    text: str = ""


class ProducerOpen(NamedTuple):
    """Opens a stream of numbered puts. OK value: [stream, commit_id, [ids held above it]]."""

    request_id: int
    producer_id: bytes
    resume: bool = False


class LinkOpen(NamedTuple):
    """Opens a link's stream. OK value: [stream, commit_id, [ids above], uid at commit_id | nil]."""

    request_id: int
    stream_id: bytes
    first_held: int
    next_id: int


class Put(NamedTuple):
    """Puts records, numbered from first_id, on a queue. Answered by Committed."""

    stream: int
    first_id: int
    seen: int
    queue: str
    records: list[bytes]


class Committed(NamedTuple):
    """Everything up to commit_id is durable, or refused as listed."""

    stream: int
    commit_id: int
    refused: list[list[Any]] = []
    stamped: list[list[int]] = []


class Blocked(NamedTuple):
    """A link's receiver cannot store an id now; the sender sends again after a while."""

    stream: int
    seq_id: int
    code: int
    retry_after_ms: int = 0
    text: str = ""


class Get(NamedTuple):
    """Leases up to max_messages. Answered by one Deliver, or by OK nil when the wait is over."""

    request_id: int
    queue: str
    messages_max: int = 1
    wait_ms: int = 0
    lease_ms: int = 0
    bytes_max: int = 1024 * 1024


class Consume(NamedTuple):
    """Opens a consumer, named by its request id. OK value: [queue id, lease_ms]."""

    request_id: int
    queue: str
    messages: int
    bytes: int
    lease_ms: int = 0


class Credit(NamedTuple):
    """Lets a consumer have that many more messages and bytes."""

    request_id: int
    messages: int
    bytes: int


class Deliver(NamedTuple):
    """Messages leased to a get or a consumer: DELIVERY head and record in each item."""

    request_id: int
    queue_id: int
    items: list[bytes]


class Settle(NamedTuple):
    """Acknowledges (1) or releases (2) leased messages. Answered by Settled."""

    settle_id: int
    action: int
    queue_id: int
    handles: bytes


class Settled(NamedTuple):
    """Every settle up to settle_id is durable, but for exceptions [settle_id, index, code]."""

    settle_id: int
    exceptions: list[list[int]] = []


class Browse(NamedTuple):
    """Reads without leasing. OK value: {items, next}."""

    request_id: int
    queue: str
    after: list[int] | None = None
    messages_max: int = 100
    bytes_max: int = 1024 * 1024


class QueueCreate(NamedTuple):
    """Defines a queue: local, or remote where the name is QUEUE@MANAGER. OK value: its row."""

    request_id: int
    queue: str
    attributes: dict[str, Any] = {}


class QueueDelete(NamedTuple):
    """Deletes a queue; with purge also one that holds messages. OK value: {messages}."""

    request_id: int
    queue: str
    purge: bool = False


class QueueList(NamedTuple):
    """Lists queues in order of name, after a name. OK value: {queues, next}."""

    request_id: int
    after: str = ""
    limit: int = 1000


class QueueShow(NamedTuple):
    """Shows a queue. OK value: its row with attributes, counters, consumers and origins."""

    request_id: int
    queue: str


class QueuePurge(NamedTuple):
    """Removes what is on a queue now and not leased. OK value: {messages}, when it is done."""

    request_id: int
    queue: str


class LinkCreate(NamedTuple):
    """Defines a link to another queue manager. OK value: its row."""

    request_id: int
    link: str
    attributes: dict[str, Any] = {}


class LinkDelete(NamedTuple):
    """Deletes a link; with purge also one with messages waiting. OK value: {messages}."""

    request_id: int
    link: str
    purge: bool = False


class LinkList(NamedTuple):
    """Lists links. OK value: {links}."""

    request_id: int


class LinkShow(NamedTuple):
    """Shows a link. OK value: its row."""

    request_id: int
    link: str


class LinkStart(NamedTuple):
    """Starts a stopped or refused link. OK value: its row."""

    request_id: int
    link: str


class LinkStop(NamedTuple):
    """Stops a link, over restarts too. OK value: its row."""

    request_id: int
    link: str


class Status(NamedTuple):
    """Asks how the queue manager is. OK value: a map."""

    request_id: int


class Snapshot(NamedTuple):
    """Writes a snapshot of one turn to a new directory of the daemon's host. OK: the manifest."""

    request_id: int
    directory: str


def _flag(value: Any) -> str:
    return "" if type(value) is bool else f"{value!r} is not true or false"


_ID = integer(1, 2**32 - 1)
_SEQ = integer(1, 2**63 - 1)
_LEASE = integer(0, LEASE_MAX_MS)
_POSITION = optional(row(U8, U64))
_STORE = binary(16)

# operation: (number, class, checks in the order of the fields)
_TABLE: tuple[tuple[int, type[Any], tuple[Check, ...]], ...] = (
    (1, Hello, (TEXT, U32, U32, TEXT, NAME, array(100, TEXT), _STORE, U64, TEXT, U64, TEXT,
                binary(1024))),
    (2, Welcome, (U32, NAME, _STORE, U64, array(100, TEXT), TEXT, U64, U64, U64, U64, U64, U64,
                  U64)),
    (3, Goaway, (U32, text(4096), U64)),
    (4, Ping, (U64,)),
    (5, Pong, (U64,)),
    (6, Ok, (_ID, anything)),
    (7, Error, (_ID, U32, U8, U64, text(4096))),
    (8, Cancel, (_ID,)),
    (9, Ended, (_ID, U32, text(4096))),
    (20, ProducerOpen, (_ID, binary(16, 16), _flag)),
    (21, Put, (_ID, _SEQ, U64, NAME, blobs)),
    (22, Committed, (_ID, U64, array(20_000, row(_SEQ, U32, text(4096))),
                     array(20_000, row(_SEQ, U64, _SEQ)))),
    (23, Get, (_ID, NAME, integer(1, GET_MAX_MESSAGES), integer(0, WAIT_MAX_MS), _LEASE, _SEQ)),
    (24, Consume, (_ID, NAME, U32, U64, _LEASE)),
    (25, Credit, (_ID, U32, U64)),
    (26, Deliver, (_ID, U32, blobs)),
    (27, Settle, (_ID, integer(ACK, RELEASE), U32, binary(HANDLES_MAX_BYTES, HANDLE.size))),
    (28, Settled, (_ID, array(20_000, row(_ID, U32, U32)))),
    (29, Browse, (_ID, NAME, _POSITION, integer(1, GET_MAX_MESSAGES), _SEQ)),
    (40, QueueCreate, (_ID, NAME, mapping(100))),
    (41, QueueDelete, (_ID, NAME, _flag)),
    (42, QueueList, (_ID, NAME, integer(1, 10_000))),
    (43, QueueShow, (_ID, NAME)),
    (44, QueuePurge, (_ID, NAME)),
    (60, LinkOpen, (_ID, binary(24, 24), _SEQ, _SEQ)),
    (61, LinkCreate, (_ID, NAME, mapping(100))),
    (62, LinkDelete, (_ID, NAME, _flag)),
    (63, LinkList, (_ID,)),
    (64, LinkShow, (_ID, NAME)),
    (65, LinkStart, (_ID, NAME)),
    (66, LinkStop, (_ID, NAME)),
    (67, Blocked, (_ID, _SEQ, U32, U64, text(4096))),
    (80, Status, (_ID,)),
    (81, Snapshot, (_ID, text(4096))),
)  # fmt: skip

Message: TypeAlias = Any  # One of the classes of this module; a union of 37 helps nobody.
OPERATIONS: dict[int, type[Any]] = {number: kind for number, kind, _ in _TABLE}
NUMBERS: dict[type[Any], int] = {kind: number for number, kind, _ in _TABLE}
_CHECKS = {number: (kind, checks, len(checks)) for number, kind, checks in _TABLE}


class OperationUnknown(Exception):
    """A well-formed message of an operation that this version does not know."""

    def __init__(self, operation: int, request_id: int) -> None:
        super().__init__(f"operation {operation} is not known")
        self.operation = operation
        self.request_id = request_id


def parse(array_: list[Any]) -> Message:
    """Return the message that a decoded frame holds.

    Raises:
        OperationUnknown: the peer may be newer; its request is refused, the connection stays.
        FieldInvalid: a field is missing, of the wrong type or out of range.
    """
    found = _CHECKS.get(array_[0])
    if found is None:
        second = array_[1] if len(array_) > 1 else None
        raise OperationUnknown(array_[0], second if type(second) is int and second > 0 else 0)
    kind, checks, count = found
    fields = array_[1 : count + 1]
    for index, value in enumerate(fields):
        if why := checks[index](value):
            raise FieldInvalid(kind.__name__, kind._fields[index], why)
    try:
        return kind(*fields)
    except TypeError:
        missing = kind._fields[len(fields)]
        raise FieldInvalid(kind.__name__, missing, "is missing") from None


def to_array(message: Message) -> tuple[Any, ...]:
    """Return *message* as the array that a frame carries."""
    return (NUMBERS[type(message)], *message)


__all__ = ["RemoteProtocolError", *(kind.__name__ for kind in NUMBERS)]
