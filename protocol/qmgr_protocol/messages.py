"""Every message and its fields, as in PROTOCOL.md; layout.py has their numbers and their limits.

Those of connection_messages.py, admin_messages.py, history_messages.py and topic_messages.py can be
had from here, too.
"""
# ruff: noqa: RUF012 - these defaults are the messages' own: nobody changes what a message holds

import struct
from typing import Any, NamedTuple, TypeAlias

from qmgr_protocol.admin_messages import *  # noqa: F403
from qmgr_protocol.connection_messages import *  # noqa: F403
from qmgr_protocol.history_messages import *  # noqa: F403
from qmgr_protocol.record import DELAY_MAX_MS as DELAY_MAX_MS
from qmgr_protocol.topic_messages import *  # noqa: F403

MAGIC = "qmgr"
VERSION = 1
HANDLE = struct.Struct(">BQQ")  # priority, arrival, lease number
# priority, arrival, lease number, delivered, failed, state, put time; then the record
DELIVERY = struct.Struct(">BQQHHBQ")
DELIVERY_BYTES = DELIVERY.size
STATE_REDELIVERED, STATE_MAYBE_REDELIVERED, STATE_LEASED = 1, 2, 4
# What follows the record in a delivery: of a publication its topic (u8 length, text); the time it
# has left (u64, ms); its note (a map).
STATE_TOPIC, STATE_EXPIRES, STATE_NOTED = 64, 8, 16
STATE_TAKEN_OVER = 32  # with this message its group came to this consumer or reader
STATE_REPUBLISHED = 128  # its subscriber failed, and it was decided to send it once more
REMAINING = struct.Struct(">Q")
# How a lease ends: consumed; failed; given back; given back unseen; failed for good. Or goes on.
ACK, RELEASE, RETURN, UNREAD, REJECT, RENEW = 1, 2, 3, 4, 5, 6
DELAY_OF_QUEUE = -1
REASON_MAX, REASON_TEXT_MAX, SELECTOR_MAX = 64, 1_000, 4_096
# What a link says of a record beside the record itself.
EXTRA_EXPIRY_MS, EXTRA_DELAY_MS, EXTRA_NOTE = "expiry_ms", "delay_ms", "note"
# The order of messages: as usual; a group at a time; several groups at a time; as they came.
PHYSICAL, LOGICAL, PINNED, ARRIVAL = 0, 1, 2, 3
GET_MAX_MESSAGES, HANDLES_MAX_BYTES = 10_000, HANDLE.size * 10_000
WAIT_MAX_MS, LEASE_MAX_MS = 7 * 24 * 3_600_000, 24 * 3_600_000

Binary: TypeAlias = bytes  # beside a field of that name
Message: TypeAlias = Any  # One of the classes of this module; a union of all helps nobody.


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
    """Opens a path of a link's stream.

    OK value: [stream, commit_id, [ids held above it], encoded UID at the highest or nil, window,
    incarnation, lost, life]. Another incarnation than of the other paths: what they had brought may
    be gone. Lost are ids below lowest_id that the receiver lacked, and now takes as held. The life
    is that in which the highest came, empty where it is not known.
    """

    request_id: int
    stream_id: bytes
    base_id: int  # the first of the stream
    next_id: int
    life: bytes = b""  # of the sender: another one at each start of it; closes paths of others
    path: int = 0  # closes the one that has this number
    ordered: bool = False  # what comes behind a gap is not stored before it is closed
    lowest_id: int = 1  # the sender has nothing below it: the receiver had committed that


class Put(NamedTuple):
    """Puts records, numbered from first_id, on a queue. Answered by Committed.

    seen: the highest commit id that the sender has received; refusals up to it are forgotten.
    queue: empty on a link, with empty records, for ids whose messages are gone.
    extras: on a link, [index, map]: the time a record has left, its delay, its note.
    """

    stream: int
    first_id: int
    seen: int
    queue: str
    records: list[bytes]
    extras: list[list[Any]] = []


HELD_RUNS_MAX = 1_000  # the lowest are told, of more


class Committed(NamedTuple):
    """Everything up to commit_id is durable, or refused as listed.

    refused: [id, code, text]; stamped: [first id, its timestamp, how many, both counting on];
    held, over a link: [first id, how many] of what is durable above commit_id; taken: how many
    records came over this connection, whatever became of them; matched, of publications:
    [first id, how many, subscriptions that each fits].
    """

    stream: int
    commit_id: int
    refused: list[list[Any]] = []
    stamped: list[list[int]] = []
    held: list[list[int]] = []
    taken: int = 0
    matched: list[list[int]] = []


class Blocked(NamedTuple):
    """A link's receiver cannot store an id now; the sender sends again after a while.

    taken: as of Committed, with the put that has the id.
    """

    stream: int
    seq_id: int
    code: int
    retry_after_ms: int = 0
    text: str = ""
    taken: int = 0


class CommitAsk(NamedTuple):
    """A link's sender asks how far its stream is stored. Answered by Committed, new or not."""

    stream: int


class LinkFetch(NamedTuple):
    """Asks a queue manager to send over this connection what its link to the dialler holds.

    It opens a path here then. The other fields are as of Welcome, of who asks. OK: nil.
    """

    request_id: int
    path: int
    frame_max_bytes: int
    message_max_bytes: int
    put_window_messages: int
    put_window_bytes: int


class UnitBegin(NamedTuple):
    """Begins a unit of work of that number, which lives and dies with the connection. OK: nil."""

    request_id: int
    unit: int


class UnitPut(NamedTuple):
    """Puts records in a unit of work. OK value: [refused [index, code, text], stamped].

    stamped: runs [index of the first, its timestamp, how many, both counting on].
    """

    request_id: int
    unit: int
    queue: str
    records: list[bytes]


class UnitCommit(NamedTuple):
    """Commits a unit of work, numbered like a put. Answered by Committed, again if sent again.

    puts, gets: how many messages the unit is to hold; where it holds others it is backed out.
    """

    stream: int
    seq_id: int
    seen: int
    unit: int
    puts: int
    gets: int


class UnitBackout(NamedTuple):
    """Backs out a unit of work; reason and text say why. OK value: [puts, gets] undone."""

    request_id: int
    unit: int
    reason: str = ""
    text: str = ""


class Get(NamedTuple):
    """Leases up to messages_max. Answered by one Deliver, or by OK nil when the wait is over.

    where: a selector. uid: encoded. At most one of the four that select is given.
    order: physical (0), or logical (1): the next of the reader's group, else the first of another.
    all_available: of a group nothing before all of it can be had.
    number: with group_id the one message of that number in it.
    reader: keeps on this connection which group it is in; 0 = none.
    """

    request_id: int
    queue: str
    messages_max: int = 1
    wait_ms: int = 0
    lease_ms: int = 0
    bytes_max: int = 1024 * 1024
    where: str = ""
    correlation_id: bytes = b""
    group_id: bytes = b""
    uid: bytes = b""
    order: int = 0
    all_available: bool = False
    number: int = 0
    reader: int = 0


class Consume(NamedTuple):
    """Opens a consumer, named by its request id. OK value: [queue id, lease_ms].

    order, all_available: as of a get, or pinned (2): of each group all is one consumer's at a time.
    start_later: a lease starts with its first renewal; until then nobody has seen the message.
    """

    request_id: int
    queue: str
    messages: int
    bytes: int
    lease_ms: int = 0
    where: str = ""
    correlation_id: Binary = b""
    group_id: Binary = b""
    order: int = 0
    all_available: bool = False
    start_later: bool = False


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
    """Ends leases: ack (1), release (2), return (3), unread (4), reject (5); or renews (6) them.

    Answered by Settled. A release counts as a failure, a return as a delivery, unread as neither.
    unit: the acks are part of that unit of work, 0 = of none.
    delay_ms: of what comes back, until it is delivered again; -1 = as the queue has it.
    lease_ms: of a renewal, from now on; 0 = as long as the lease was.
    """

    settle_id: int
    action: int
    queue_id: int
    handles: bytes
    unit: int = 0
    delay_ms: int = DELAY_OF_QUEUE
    lease_ms: int = 0
    reason: str = ""
    text: str = ""


class Settled(NamedTuple):
    """Every settle up to settle_id is durable, but for exceptions [settle_id, index, code]."""

    settle_id: int
    exceptions: list[list[int]] = []


class Browse(NamedTuple):
    """Reads without leasing. OK value: {items, next, ..}; next is nil at the end.

    A selection may leave a page empty that is not the last.
    delayed: those that wait for their time, instead of those that can be got.
    order, all_available: as of a get; or ARRIVAL. A cursor is of one order.
    """

    request_id: int
    queue: str
    after: list[int] | None = None
    messages_max: int = 100
    bytes_max: int = 1024 * 1024
    where: str = ""
    correlation_id: bytes = b""
    group_id: bytes = b""
    uid: bytes = b""
    delayed: bool = False
    order: int = 0
    all_available: bool = False


class GroupNew(NamedTuple):
    """Asks for the id of a new group. OK value: 24 bytes that no other group has."""

    request_id: int


class ReaderClose(NamedTuple):
    """Ends a reader: the group that it is in is anybody's. OK: nil, also where there is none."""

    request_id: int
    reader: int


class OperationUnknown(Exception):
    """A well-formed message of an operation that this version does not know."""

    def __init__(self, operation: int, request_id: int) -> None:
        super().__init__(f"operation {operation} is not known")
        self.operation = operation
        self.request_id = request_id
