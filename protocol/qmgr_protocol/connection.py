"""One connection, without I/O: turns received bytes into messages, and messages into bytes.

The owner passes the bytes it reads to :meth:`Connection.receive`, writes the bytes that
:meth:`Connection.send` returns, and calls :meth:`Connection.poll` regularly for heartbeats.
"""

from collections.abc import Sequence
from typing import Any

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.errors import (
    ErrorClass,
    ErrorCode,
    FieldInvalid,
    LocalProtocolError,
    RemoteProtocolError,
    StateViolation,
)
from qmgr_protocol.field import ID_END, blobs
from qmgr_protocol.frame import FrameDecoder, encode
from qmgr_protocol.limits import CLIENT_NAME_MAX
from qmgr_protocol.name import is_name
from qmgr_protocol.states import Side, State
from qmgr_protocol.transitions import moves

# The lowest limit that a peer may set. A welcome is never larger.
FRAME_MAX_LEAST_BYTES = 64 * 1024
STORE_ID_BYTES = 16
JOINED_MAX_BYTES = 256 * 1024  # maximum size of a put that is joined from several puts
_PUT = layout.NUMBERS[m.Put]
_PUT_ELEMENTS = 1 + layout.written_always(m.Put)  # elements of a put without extras and bodies


class VersionUnsupported(RemoteProtocolError):
    """The two ends support no common protocol version."""

    code = ErrorCode.VERSION_UNSUPPORTED

    def __init__(self, low: int, high: int) -> None:
        super().__init__(
            f"the peer offers versions {low} to {high}; only {m.VERSION} is supported here"
        )


class LivenessExpired(RemoteProtocolError):
    """The peer sent nothing for too long."""

    code = ErrorCode.LIVENESS_EXPIRED

    def __init__(self, silent_ms: int, limit_ms: int) -> None:
        super().__init__(f"received nothing for {silent_ms} ms; the limit is {limit_ms} ms")


class Connection:
    """One end of a connection.

    Invariant: ``state`` changes only as TRANSITIONS allows. No message is sent or received in
    CLOSED. ``error`` is set if the peer broke the protocol.
    """

    def __init__(
        self, side: Side, *, now_ms: int = 0, joined_max: int = 0, frames_max: int = -1
    ) -> None:
        """Starts in state IDLE.

        Args:
            joined_max: The maximum number of records in a put that is joined from consecutive puts.
                A listener joins the puts of a client on one stream if they are received at the same
                time. A client that puts one message per frame then costs hardly more than a client
                that puts many messages per frame.
            frames_max: The maximum number of frames that :meth:`receive` decodes in one call once
                the connection is open; -1 for all.
        """
        self.side = side
        self._joined_max = joined_max
        self._frames_max = frames_max
        self.peer_side = Side.LISTENER if side is Side.DIALLER else Side.DIALLER
        self.state = State.IDLE
        self.hello: m.Hello | None = None
        self.welcome: m.Welcome | None = None
        self.error: RemoteProtocolError | None = None
        self._may_send = moves(self.state, side, "")
        self._may_receive = moves(self.state, self.peer_side, "")
        self._decoder = FrameDecoder()
        self._heard_ms = now_ms
        self._asked_ms = now_ms

    @property
    def is_closed(self) -> bool:
        """Whether either side has sent a Goaway."""
        return self.state is State.CLOSED

    @property
    def has_more(self) -> bool:
        """Whether to call :meth:`receive` again, without data, for the rest of the frames."""
        return self._decoder.has_more

    @property
    def buffered_bytes(self) -> int:
        """The number of buffered bytes of an incomplete frame.

        The number is less than 4 plus the limit of a frame.
        """
        return self._decoder.buffered_bytes

    @property
    def frame_bytes(self) -> int:
        """The full length of the incomplete frame.

        0 if no frame is incomplete, or if its length is not known yet.
        """
        return self._decoder.frame_bytes

    def send(self, message: m.Message) -> bytes:
        """Returns *message* as bytes for the peer.

        Raises:
            LocalProtocolError: This side must not send the message in this state.
        """
        after = self._may_send.get(type(message))
        if after is None:
            raise LocalProtocolError(f"{self.side.value} may not send {self._shown(message)}")
        if after is not self.state:
            try:
                self._move(after, message)
            except RemoteProtocolError as error:
                raise LocalProtocolError(str(error)) from error
        return encode(layout.to_array(message))

    def receive(self, data: bytes, now_ms: int) -> Sequence[tuple[m.Received, int]]:
        """Returns the messages that *data* completes, each with the size of its frame in bytes.

        This method does not answer pings. It returns them like other messages. For an unknown
        operation, it returns the :class:`m.OperationUnknown` that describes the message. It never
        raises: if the peer breaks the protocol, it returns the earlier messages and sets ``error``.
        """
        found: list[tuple[m.Received, int]] = []
        if self.error is not None or self.is_closed:
            return found
        self._decoder.feed(data)
        try:
            is_all = False
            while not is_all and (cuts := self._cut()):
                is_all = self.state is State.OPEN
                for array, size_bytes in cuts:
                    if found and array[0] == _PUT and self._join(found, array, size_bytes):
                        continue
                    found.append((self._take(array), size_bytes))
            error = self._decoder.error
        except RemoteProtocolError as raised:
            error = raised
        if error is not None and not self.is_closed:  # After a Goaway, errors no longer matter.
            # The frames of the traceback would keep the decoded values until a garbage collection.
            error.__cause__ = error.__context__ = None
            self.error = error.with_traceback(None)
            self._decoder = FrameDecoder()
        if found or self.state is State.OPEN:
            # A peer that sends its handshake byte by byte does not count as alive.
            self._heard_ms = now_ms
        return found

    def poll(self, now_ms: int, heartbeat_ms: int, liveness_ms: int) -> bytes:
        """Returns a ping if the peer has been silent for *heartbeat_ms*, otherwise no bytes.

        Raises:
            LivenessExpired: The peer has been silent for *liveness_ms*.
        """
        silent_ms = now_ms - self._heard_ms
        if silent_ms >= liveness_ms:
            raise LivenessExpired(silent_ms, liveness_ms)
        due_ms = max(self._heard_ms, self._asked_ms) + heartbeat_ms
        if self.state is not State.OPEN or now_ms < due_ms:
            return b""
        self._asked_ms = now_ms
        return self.send(m.Ping(now_ms))

    def _cut(self) -> list[tuple[list[Any], int]]:
        if self.state is State.OPEN:
            return self._decoder.drain(self._frames_max)
        cut = self._decoder.next()  # The handshake changes the limit of later frames.
        return [] if cut is None else [cut]

    def _join(self, found: list[tuple[m.Received, int]], array: list[Any], size_bytes: int) -> bool:
        """Joins the put *array* to the last put in *found* if *array* continues that put.

        Returns whether the puts were joined.
        """
        last, last_bytes = found[-1]
        if type(last) is not m.Put or len(array) != _PUT_ELEMENTS:
            return False
        stream, first_id, seen, queue, records, extras, bodies = last
        if (
            extras
            or bodies
            or not type(array[1]) is type(array[2]) is type(array[3]) is int
            or array[2] != first_id + len(records)
            or array[1] != stream
            or array[3] != seen
            or array[4] != queue
            or blobs(array[5])
            or not (records and array[5])
            or len(records) + len(array[5]) > self._joined_max
            or last_bytes + size_bytes > JOINED_MAX_BYTES
        ):
            return False
        records += array[5]
        found[-1] = last, last_bytes + size_bytes
        return True

    def _take(self, array: list[Any]) -> m.Received:
        try:
            message = layout.parse(array)
        except m.OperationUnknown as unknown:
            if self.state is not State.OPEN:
                raise StateViolation(f"operation {unknown.operation}", self.state.value) from None
            return unknown
        after = self._may_receive.get(type(message))
        if after is None:
            raise StateViolation(type(message).__name__, self._shown_state())
        if after is not self.state:
            self._move(after, message)
        return message

    def _move(self, after: State, message: m.Message) -> None:
        """Changes to state *after*; raises RemoteProtocolError if the handshake cannot succeed."""
        if type(message) is m.Hello:
            _check_hello(message)
            self.hello = message
            if message.role == "queue-manager":
                # A link uses answers to count its puts, so each put needs an answer.
                self._joined_max = 0
                self._decoder.is_of_link = True
            if self.side is Side.DIALLER:
                self._decoder.limit_bytes = FRAME_MAX_LEAST_BYTES
        elif type(message) is m.Welcome:
            _check_welcome(message)
            self.welcome = message
            # Each side reads frames up to the limit that its own greeting states.
            own = message if self.side is Side.LISTENER else self.hello
            assert own is not None
            is_of_client = self.hello is not None and self.hello.role == "client"
            self._decoder.is_of_client = is_of_client and self.side is Side.LISTENER
            self._decoder.limit_bytes = own.frame_max_bytes
        elif after is State.CLOSED:
            self._decoder = FrameDecoder()  # Nothing reads the rest of its buffer.
        self.state = after
        role = self.hello.role if self.hello else ""
        of_peer, of_own = self._accept_pieces()
        self._may_send = moves(after, self.side, role, accepts_pieces=of_peer)
        self._may_receive = moves(after, self.peer_side, role, accepts_pieces=of_own)

    def _accept_pieces(self) -> tuple[bool, bool]:
        """Returns whether the peer accepts pieces, and whether this side does."""
        dialler = self.hello is not None and self.hello.piece_max_bytes > 0
        listener = self.welcome is not None and self.welcome.piece_max_bytes > 0
        return (listener, dialler) if self.side is Side.DIALLER else (dialler, listener)

    def _shown(self, message: m.Message) -> str:
        return f"{type(message).__name__} when {self._shown_state()}"

    def _shown_state(self) -> str:
        role = f" as role {self.hello.role}" if self.hello else ""
        return f"{self.state.value}{role}"


def _check_hello(hello: m.Hello) -> None:
    if hello.magic != m.MAGIC:
        raise FieldInvalid("Hello", "magic", f"{hello.magic[:20]!r} is not {m.MAGIC!r}")
    if not hello.version_min <= m.VERSION <= hello.version_max:
        raise VersionUnsupported(hello.version_min, hello.version_max)
    if hello.role not in ("client", "queue-manager"):
        raise FieldInvalid("Hello", "role", f"{hello.role[:20]!r} is not client or queue-manager")
    if hello.role == "queue-manager":
        _check_queue_manager(hello)
    elif len(hello.name) > CLIENT_NAME_MAX:
        why = f"{len(hello.name)} characters; the limit for a client is {CLIENT_NAME_MAX}"
        raise FieldInvalid("Hello", "name", why)
    _check_sizes(hello)


def _check_welcome(welcome: m.Welcome) -> None:
    if welcome.version != m.VERSION:
        raise VersionUnsupported(welcome.version, welcome.version)
    _check_queue_manager(welcome)
    _check_sizes(welcome)


def _check_queue_manager(greeting: m.Hello | m.Welcome) -> None:
    kind, name, store_id = type(greeting).__name__, greeting.name, greeting.store_id
    if not is_name(name):
        raise FieldInvalid(kind, "name", f"{name[:80]!r} is not the name of a queue manager")
    if len(store_id) != STORE_ID_BYTES:
        raise FieldInvalid(kind, "store_id", f"{len(store_id)} bytes instead of {STORE_ID_BYTES}")


def _check_sizes(greeting: m.Hello | m.Welcome) -> None:
    kind, size_bytes, least = (
        type(greeting).__name__,
        greeting.frame_max_bytes,
        FRAME_MAX_LEAST_BYTES,
    )
    if size_bytes < least:
        raise FieldInvalid(kind, "frame_max_bytes", f"{size_bytes} is below {least}")
    size_bytes, least = greeting.piece_max_bytes, m.PIECE_LEAST_BYTES
    if 0 < size_bytes < least:
        raise FieldInvalid(kind, "piece_max_bytes", f"{size_bytes} is below {least}, and not 0")


def refusal(unknown: m.OperationUnknown) -> m.Error | None:
    """Returns the answer to a request of an unknown operation, or None if the request has no id."""
    if not unknown.request_id or unknown.request_id >= ID_END:
        return None
    return m.Error(
        unknown.request_id,
        ErrorCode.OPERATION_UNKNOWN,
        ErrorClass.NEVER,
        0,
        f"operation {unknown.operation} is unknown in protocol version {m.VERSION}",
    )
