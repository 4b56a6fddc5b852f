"""Every message and its fields, as in PROTOCOL.md; layout.py has their numbers and their limits."""
# ruff: noqa: RUF012 - these defaults are the messages' own: nobody changes what a message holds

import struct
from typing import Any, Literal, NamedTuple, TypeAlias

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
Message: TypeAlias = Any  # One of the classes of this module; a union of all helps nobody.


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
    """Opens a stream of numbered puts.

    OK value: [stream, commit_id, [ids held above it], refusals not seen yet as in Committed].
    instance: a random number of the running program, so that no other one resumes in its place.
    """

    request_id: int
    producer_id: bytes
    resume: bool = False
    instance: int = 0


class LinkOpen(NamedTuple):
    """Opens a link's stream.

    OK value: [stream, commit_id, [ids held above it], encoded UID at the highest or nil, window].
    """

    request_id: int
    stream_id: bytes
    base_id: int  # the first of the stream
    next_id: int


class Put(NamedTuple):
    """Puts records, numbered from first_id, on a queue. Answered by Committed.

    seen: the highest commit id that the sender has received; refusals up to it are forgotten.
    queue: empty on a link, with empty records, for ids whose messages are gone.
    """

    stream: int
    first_id: int
    seen: int
    queue: str
    records: list[bytes]


class Committed(NamedTuple):
    """Everything up to commit_id is durable, or refused as listed.

    refused: [id, code, text]; stamped: [first id, its timestamp, how many, both counting on].
    """

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
    """Lets a consumer have that many more messages, and bytes of records."""

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


class QueueAlter(NamedTuple):
    """Changes attributes of a queue, for good. OK value: its row, and what is other than before.

    attributes: those to change; nil stands for the default.
    """

    request_id: int
    queue: str
    attributes: dict[str, Any] = {}


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
    """Starts a stopped or refused link. OK value: its row.

    accept: the peer is taken as it is now, and all that is held here goes to it as a new stream.
    """

    request_id: int
    link: str
    accept: bool = False


class LinkStop(NamedTuple):
    """Stops a link, over restarts too. OK value: its row."""

    request_id: int
    link: str


class LinkAlter(NamedTuple):
    """Gives a link other addresses, for good. OK value: its row, and what is other than before."""

    request_id: int
    link: str
    attributes: dict[str, Any] = {}


class Status(NamedTuple):
    """Asks how the queue manager is. OK value: a map."""

    request_id: int


class Snapshot(NamedTuple):
    """Writes a snapshot of one turn to a new directory of the daemon's host. OK: the manifest."""

    request_id: int
    directory: str


class ConnectionList(NamedTuple):
    """Lists open connections in order of number, after a number. OK value: {connections, next}."""

    request_id: int
    after: int = 0
    limit: int = 1000


class ConnectionClose(NamedTuple):
    """Closes another connection. OK value: its row."""

    request_id: int
    connection: int


class TemplateSet(NamedTuple):
    """Defines a template: what queues have whose names fit a pattern. OK value: its row.

    attributes: all of them, as of a local queue; nil, or not named: the template says nothing.
    """

    request_id: int
    pattern: str
    attributes: dict[str, Any] = {}


class TemplateDelete(NamedTuple):
    """Deletes a template. OK value: {pattern, queues}."""

    request_id: int
    pattern: str


class TemplateList(NamedTuple):
    """Lists templates in order of their patterns. OK value: {templates}."""

    request_id: int


class OperationUnknown(Exception):
    """A well-formed message of an operation that this version does not know."""

    def __init__(self, operation: int, request_id: int) -> None:
        super().__init__(f"operation {operation} is not known")
        self.operation = operation
        self.request_id = request_id
