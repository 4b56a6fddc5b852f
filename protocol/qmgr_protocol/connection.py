"""One connection, without I/O: bytes in, messages out; messages in, bytes out.

The owner feeds what it reads to :meth:`Connection.receive`, writes what :meth:`Connection.send`
returns, and asks :meth:`Connection.poll` from time to time for heartbeats.
"""

from collections.abc import Sequence
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import (
    ErrorClass,
    ErrorCode,
    FieldInvalid,
    LocalProtocolError,
    RemoteProtocolError,
    StateViolation,
)
from qmgr_protocol.frame import FrameDecoder, encode
from qmgr_protocol.states import QUEUE_MANAGER_ONLY, TRANSITIONS, Side, State


class VersionUnsupported(RemoteProtocolError):
    """No protocol version that both ends speak."""

    code = ErrorCode.VERSION_UNSUPPORTED

    def __init__(self, low: int, high: int) -> None:
        super().__init__(f"versions {low} to {high} are offered, only {m.VERSION} is spoken here")


class LivenessExpired(RemoteProtocolError):
    """Nothing came from the peer for too long."""

    code = ErrorCode.LIVENESS_EXPIRED

    def __init__(self, silent_ms: int, limit_ms: int) -> None:
        super().__init__(f"nothing heard for {silent_ms} ms, at most {limit_ms}")


class Connection:
    """One end of a connection.

    Invariant: ``state`` moves only as TRANSITIONS says; once CLOSED nothing is sent or received.
    ``error`` is what the peer did wrong, if it did.
    """

    def __init__(self, side: Side, *, now_ms: int = 0) -> None:
        self.side = side
        self.peer_side = Side.LISTENER if side is Side.DIALLER else Side.DIALLER
        self.state = State.IDLE
        self.hello: m.Hello | None = None
        self.welcome: m.Welcome | None = None
        self.error: RemoteProtocolError | None = None
        self._decoder = FrameDecoder()
        self._heard_ms = now_ms
        self._asked_ms = now_ms

    def send(self, message: m.Message) -> bytes:
        """Return *message* as bytes for the peer.

        Raises:
            LocalProtocolError: this side may not send it in this state.
        """
        after = TRANSITIONS.get((self.state, self.side, type(message)))
        if after is None:
            name = type(message).__name__
            raise LocalProtocolError(f"{self.side.value} may not send {name} when {self.state}")
        if after is not self.state:
            self._move(after, message)
        return encode(m.to_array(message))

    def receive(self, data: bytes, now_ms: int) -> Sequence[tuple[m.Message, int]]:
        """Return the messages completed by *data*, each with the bytes that it took.

        Pings are not answered here: they are returned like the rest. A message of an unknown
        operation is returned as the :class:`m.OperationUnknown` that describes it. Never raises:
        where the peer breaks the protocol, what came before is returned and ``error`` is set.
        """
        self._heard_ms = now_ms
        found: list[tuple[m.Message, int]] = []
        if self.error is not None:
            return found
        self._decoder.feed(data)
        try:
            while cuts := self._cut():
                for array, size in cuts:
                    found.append((self._take(array), size))
            self.error = self._decoder.error
        except RemoteProtocolError as error:
            self.error = error
        return found

    def poll(self, now_ms: int, heartbeat_ms: int, liveness_ms: int) -> bytes:
        """Return a ping where the peer has been silent for *heartbeat_ms*, else nothing.

        Raises:
            LivenessExpired: it has been silent for *liveness_ms*.
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
            return self._decoder.drain()
        cut = self._decoder.next()  # The handshake moves the limit of the frames behind it.
        return [] if cut is None else [cut]

    def _take(self, array: list[Any]) -> m.Message:
        try:
            message = m.parse(array)
        except m.OperationUnknown as unknown:
            if self.state is not State.OPEN:
                raise StateViolation(f"operation {unknown.operation}", self.state.value) from None
            return unknown
        kind = type(message)
        after = TRANSITIONS.get((self.state, self.peer_side, kind))
        if after is None:
            raise StateViolation(kind.__name__, self.state.value)
        if kind in QUEUE_MANAGER_ONLY and self.hello and self.hello.role != "queue-manager":
            raise StateViolation(kind.__name__, f"{self.state.value} as role {self.hello.role}")
        if after is not self.state:
            self._move(after, message)
        return message

    def _move(self, after: State, message: m.Message) -> None:
        if type(message) is m.Hello:
            _check_hello(message)
            self.hello = message
        elif type(message) is m.Welcome:
            self.welcome = message
            # A listener reads frames as long as it says, a dialler as long as its hello says.
            own = message if self.side is Side.LISTENER else self.hello
            assert own is not None
            self._decoder.limit_bytes = own.frame_max_bytes
        self.state = after
        if type(message) is m.Hello and self.side is Side.DIALLER:
            self._decoder.limit_bytes = 64 * 1024  # A welcome has no reason to be longer.


def _check_hello(hello: m.Hello) -> None:
    if hello.magic != m.MAGIC:
        raise FieldInvalid("Hello", "magic", f"{hello.magic[:20]!r} is not {m.MAGIC!r}")
    if not hello.version_min <= m.VERSION <= hello.version_max:
        raise VersionUnsupported(hello.version_min, hello.version_max)
    if hello.role not in ("client", "queue-manager"):
        raise FieldInvalid("Hello", "role", f"{hello.role[:20]!r} is not client or queue-manager")
    if hello.frame_max_bytes < 64 * 1024:
        raise FieldInvalid("Hello", "frame_max_bytes", f"{hello.frame_max_bytes} is below 65536")


def refusal(unknown: m.OperationUnknown) -> m.Error | None:
    """Return the answer to a request of an unknown operation, or None where it has no id."""
    if not unknown.request_id or unknown.request_id >= 2**32:
        return None
    return m.Error(
        unknown.request_id,
        ErrorCode.OPERATION_UNKNOWN,
        ErrorClass.NEVER,
        0,
        f"operation {unknown.operation} is not known to protocol version {m.VERSION}",
    )
