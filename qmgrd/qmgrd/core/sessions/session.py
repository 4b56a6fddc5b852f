"""The state of a connection, which ends with the connection."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.connection import FRAME_MAX_LEAST_BYTES
from qmgr_protocol.errors import CreditExceeded, ErrorCode, RemoteProtocolError, RequestError
from qmgr_protocol.need import Kind, Right
from qmgrd.core.access.access import Access
from qmgrd.core.access.login import OPEN, Identity
from qmgrd.core.context.producer import Producer
from qmgrd.core.link.inbox import InboundPath
from qmgrd.core.link.path import Path
from qmgrd.core.queue.group.held_groups import Reader
from qmgrd.core.queue.lease import Consumer, Lessee
from qmgrd.core.queue.lease_number import LeaseNumbers
from qmgrd.core.queue.queue import Queue
from qmgrd.core.sessions.incoming_bodies import IncomingBodies
from qmgrd.core.sessions.unit import SessionUnit

STREAMS_MAX = 100


class RequestNotAllowed(RemoteProtocolError):
    """The peer may not send this request. Closes the connection, as some requests have no id."""

    code = ErrorCode.NOT_AUTHORIZED

    def __init__(self, request: str) -> None:
        super().__init__(f"{request} is not allowed to this peer")


class StreamUnknown(RemoteProtocolError):
    """A put names a stream that this connection did not open."""

    code = ErrorCode.STREAM_UNKNOWN

    def __init__(self, stream: int) -> None:
        super().__init__(f"stream {stream} is not open on this connection")


class StreamFenced(RemoteProtocolError):
    """A newer connection has taken over the stream. The older connection is closed."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__("a newer connection took over this stream")
        self.code = code


class SessionFenced(RemoteProtocolError):
    """A newer connection has resumed the session. The older connection is closed."""

    code = ErrorCode.SESSION_FENCED

    def __init__(self) -> None:
        super().__init__("a newer connection has resumed this session")


@dataclass(slots=True)
class StreamAnswers:
    """The replies that a stream receives at the end of the turn."""

    refused: list[list[object]] = field(default_factory=list)
    stamped: list[list[int]] = field(default_factory=list)
    # The numbers of subscriptions that matched publications.
    matched: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class UnitPutAnswer:
    """The reply to a long put in a unit of work, which is sent after its last part."""

    error: RequestError | None = None  # the reason why the first part was refused as a whole
    refused: list[list[Any]] = field(default_factory=list)
    stamped: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class Session:
    """The core's state of one connection."""

    connection: int
    name: str  # the name that the peer claims
    store_id: bytes  # the store id of a queue manager; empty for a client
    numbers: LeaseNumbers  # the lease numbers, which belong to the session
    path: Path | None = None  # the path of the link that dialled this connection, or None
    software: str = ""
    opened_ms: int = 0  # store clock time at which the connection opened
    identity: Identity = OPEN
    address: str = ""  # the host at the other end, or "unix"
    access: Access | None = None  # rights of the user; None if everything is allowed
    is_enforced: bool = True  # whether rights limit lists, and are not only checked for the log
    # Checks that the user has a right on a queue, topic or subscription. Raises RequestError if it
    # has not. None if everything is allowed.
    check_right: Callable[[Right, str], None] | None = None
    next_stream: int = 1
    streams: dict[int, Producer | InboundPath] = field(default_factory=dict)
    consumers: dict[int, Consumer] = field(default_factory=dict)
    # Lessees by queue id, ``lease_ms`` and whether they are started.
    lessees: dict[tuple[int, int, bool], Lessee] = field(default_factory=dict)
    # Subscriptions that end with the connection.
    subscriptions: dict[str, None] = field(default_factory=dict)
    units: dict[int, SessionUnit] = field(default_factory=dict)
    unit_put_answer: UnitPutAnswer = field(default_factory=UnitPutAnswer)
    unit_bytes: int = 0  # the number of bytes in memory for the puts of the open units
    readers: dict[int, Reader] = field(default_factory=dict)  # readers of gets, by reader number
    lessees_max: int = 64  # the number of lessees above which those without leases are dropped
    # The replies of this turn, by stream.
    answers: dict[int, StreamAnswers] = field(default_factory=dict)
    incoming: IncomingBodies | None = None  # long records that arrive, once a piece has arrived
    frame_bytes: int = FRAME_MAX_LEAST_BYTES  # the longest frame that the peer accepts
    piece_bytes: int = 0  # the size of the pieces of long messages for the peer; 0 without pieces
    settled_id: int = 0
    exceptions: list[list[int]] = field(default_factory=list)  # the failed handles of this turn
    # The failed handles of an incomplete settle request
    part_exceptions: list[list[int]] = field(default_factory=list)

    @property
    def by(self) -> str:
        """The user or the name of the other end, for the log."""
        return self.identity.user or self.name

    @property
    def owner(self) -> str:
        """The text by which the user's jobs and subscriptions refer to it; "" without a user."""
        return self.access.owner if self.access is not None else ""

    def shows(self, kind: Kind, name: str) -> bool:
        """Returns whether a list for this connection contains the object *name* of *kind*."""
        is_shown = self.shown(kind)
        return is_shown is None or is_shown(name)

    def shown(self, kind: Kind) -> Callable[[str], bool] | None:
        """Returns a function for which names of *kind* lists contain; None if they contain all."""
        access = self.access
        if access is None or access.is_administrator or not self.is_enforced:
            return None
        return lambda name: access.may(Right.SHOW, kind, name)

    def check_streams(self) -> None:
        """Raises RequestError PRODUCERS_EXHAUSTED if no further stream may be opened."""
        if len(self.streams) >= STREAMS_MAX:
            raise RequestError(
                ErrorCode.PRODUCERS_EXHAUSTED,
                f"{len(self.streams)} streams are open on this connection (the limit is "
                f"{STREAMS_MAX})",
            )

    @property
    def unseen_refusals(self) -> int:
        """The number of refused ids of all producers that are not marked as seen."""
        streams = self.streams.values()
        return sum(len(stream.refused) for stream in streams if isinstance(stream, Producer))

    def unseen_error(self, limit: int) -> CreditExceeded | None:
        """Returns an error if more than *limit* refused ids are not marked as seen, or None.

        The ids stay refused. The producers receive the refusals when they open their streams again.
        """
        count = self.unseen_refusals
        if count <= limit:
            return None
        return CreditExceeded("refused puts not marked as seen", count, limit)

    def check_user_streams(self) -> None:
        """Raises RequestError USER_STREAMS_EXHAUSTED if the user may open no further stream."""
        if self.access is not None and self.access.limits.streams_max:
            self.access.check_use("streams_max", self.access.streams)

    def add_stream(self, stream: Producer | InboundPath) -> int:
        """Adds *stream* and returns its number on this connection."""
        number, self.next_stream = self.next_stream, self.next_stream + 1
        self.streams[number] = stream
        return number

    def check_consumers(self) -> None:
        """Raises RequestError USER_CONSUMERS_EXHAUSTED if the user may open no further consumer."""
        if self.access is not None and self.access.limits.consumers_max:
            self.access.check_use("consumers_max", self.access.consumers)

    def add_consumer(self, consumer: Consumer) -> None:
        """Adds a consumer or a get. Leases may outlast a get, because it ends with its reply."""
        self.consumers[consumer.request_id] = consumer

    def lessee(self, queue: Queue, lease_ms: int, *, is_started: bool = True) -> Lessee:
        """Returns the lessee of this connection for leases of *lease_ms* on *queue*."""
        key = queue.id, lease_ms, is_started
        found = self.lessees.get(key)
        if found is not None:
            return found
        found = Lessee(queue, self.numbers, self.name, lease_ms, is_started=is_started)
        self.lessees[key] = found
        if len(self.lessees) > self.lessees_max:
            used = {open_.lessee for open_ in self.consumers.values()}
            self.lessees = {k: x for k, x in self.lessees.items() if x.leases or x in used}
            self.lessees_max = 64 + 2 * len(self.lessees)
            self.lessees[key] = found
        return found

    def all_lessees(self) -> Iterator[Lessee]:
        """Yields the lessees of this connection and of its open units."""
        yield from self.lessees.values()
        for unit in self.units.values():
            yield from unit.lessees.values()

    def settled(self) -> m.Settled | None:
        """Returns the reply to the settle requests of this turn, or None. Resets the reply."""
        if not self.settled_id:
            return None
        answer = m.Settled(self.settled_id, self.exceptions)
        self.settled_id, self.exceptions = 0, []
        return answer


def error_of(request_id: int, error: RequestError) -> m.Error:
    """Returns the reply to a request that failed with *error*."""
    return m.Error(request_id, error.code, error.error_class, error.retry_after_ms, error.text)
