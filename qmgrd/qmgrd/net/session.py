"""One connection on the event loop: passes bytes between the socket and the peer's core."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol, cast

from qmgr_config.address import Address
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgrd.core.access.origin import network_of
from qmgrd.core.limits.unread_replies import ENOUGH_BYTES, SHARE_BYTES
from qmgrd.core.peer import Peer, goodbye
from qmgrd.net import other_protocol
from qmgrd.net.large_frames import LargeFrames
from qmgrd.net.owner import is_owner
from qmgrd.net.unsent import COUNTED_BYTES, Unsent

# With uvloop's default low-water mark of 16 bytes, writing would stop and start constantly.
# Above this number of unread bytes, the core stops producing for the peer.
WRITE_HIGH_BYTES = ENOUGH_BYTES
WRITE_LOW_BYTES = WRITE_HIGH_BYTES // 4  # Below this number of unread bytes, the core continues.
LINGER_S = 1.0  # time for a peer to read a goodbye
# Time that a peer has to read the remaining replies after either side sent a goodbye.
FETCH_S = 10.0
UNIX = "unix"  # the origin of all connections over the unix socket
RESET = "reset"  # the origin of TCP connections that the peer reset before they were accepted


class SessionHost(Protocol):
    """The part of the daemon that a session uses."""

    frames: LargeFrames
    unsent: Unsent

    def now_ms(self) -> int:
        """Returns the monotonic clock."""

    def want_turn(self) -> None:
        """Schedules a turn."""

    def session_entered(self, session: "SocketSession") -> None:
        """Registers a new session."""

    def session_advanced(self, session: "SocketSession") -> None:
        """Records progress in the handshake of *session*."""

    def session_ahead(self, session: "SocketSession") -> None:
        """Calls :meth:`SocketSession.read_on` after each turn until the turns have caught up."""

    def session_blocked(self, session: "SocketSession", *, is_blocked: bool) -> None:
        """Records whether the peer has too much unread data."""

    def session_failed(self, session: "SocketSession", error: Exception) -> None:
        """Closes *session* after the internal error *error*."""

    def session_closed(self, session: "SocketSession", why: str) -> None:
        """Unregisters a closed session."""


class SocketSession(asyncio.BufferedProtocol):
    """The shell around a :class:`Peer`, which is created when the connection is made.

    Invariant: ``_pauses`` contains the reasons not to read from the peer. The session reads if it
        is empty.
    """

    peer: Peer

    def __init__(self, host: SessionHost, make_peer: "Callable[[SocketSession], Peer]") -> None:
        self.address = ""
        self.origin = ""  # host of the peer without its port, or UNIX, or RESET
        self.network = ""  # the origin, or its network if the peer can choose from it
        self.is_known = False  # whether a user has logged in from its network before
        self.is_owner = False  # whether the daemon's user or root opened a unix connection
        self._make_peer = make_peer
        self._host = host
        self._frames = host.frames
        # Saves one call per read, because the loop calls the owner of the buffer directly.
        self.get_buffer = host.frames.buffer  # type: ignore[method-assign]
        self._transport: asyncio.Transport | None = None
        # Set after either side has sent a goodbye.
        self._lingering: asyncio.TimerHandle | None = None
        self._why = "the peer closed the connection"
        self._pauses: set[str] = set()
        # Number of bytes of an incomplete frame that had been received at the last read.
        self._partial_bytes = 0
        self._written_bytes = 0
        self._is_cut_off = False
        # Size of the longest frame written since the last time that all data was sent.
        self._longest_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins the handshake: a link sends a hello, a listener waits for it."""
        is_unix = transport.get_extra_info("socket").family == socket.AF_UNIX
        peername = transport.get_extra_info("peername")
        is_reset = not (is_unix or peername)  # Data that arrived before a reset can still be read.
        if is_unix or is_reset:
            self.address = self.origin = UNIX if is_unix else RESET
        else:
            self.address, self.origin = str(Address(*peername[:2])), peername[0]
        self.network = network_of(self.origin)
        self.is_owner = is_unix and is_owner(transport)
        self.peer = self._make_peer(self)
        self._transport = cast(asyncio.Transport, transport)
        self.set_marks(is_room_short=self._host.unsent.is_room_short)
        self._host.session_entered(self)
        if is_reset:
            self._transport.abort()
        else:
            self._begin(self._transport)

    def _begin(self, transport: asyncio.Transport) -> None:
        """Sends the hello of a link."""
        if self.peer.dial:
            transport.write(self._encoded(self.peer.hello()))

    def set_marks(self, *, is_room_short: bool) -> None:
        """Sets the amount of unread data above which the peer is blocked."""
        transport = self._open_transport()
        if transport is not None:
            high, low = WRITE_HIGH_BYTES, WRITE_LOW_BYTES
            if is_room_short:
                high, low = SHARE_BYTES, SHARE_BYTES // 4
            transport.set_write_buffer_limits(high=high, low=low)

    def pause_writing(self) -> None:
        """Stops producing for a peer that has too much unread data."""
        self._host.session_blocked(self, is_blocked=True)

    def resume_writing(self) -> None:
        """Resumes producing for a peer that has read its data."""
        self._host.session_blocked(self, is_blocked=False)

    def buffer_updated(self, nbytes: int) -> None:
        """Splits received bytes into messages, for the next turn."""
        if self._open_transport() is not None:
            self._received(self._frames.last[:nbytes].tobytes())

    def _received(self, data: bytes) -> None:
        peer = self.peer
        try:
            answers = peer.receive(data, self._host.now_ms())
        except RemoteProtocolError as error:
            self._end_after_error(error, data)
        except MemoryError as error:
            self.fail(error)
            return
        else:
            if peer.goaway is not None:
                self._end_after_goaway(peer.goaway, answers)
            elif answers:
                self.write(answers)
        held_bytes, before = peer.partial_bytes, self._partial_bytes
        if held_bytes or before:
            self._partial_bytes = held_bytes
            is_new = held_bytes != before + len(data)
            self._frames.holds(self, held_bytes, peer.frame_bytes, is_new=is_new)
        if peer.is_ahead and self._open_transport() is not None:
            self._pause("turns")
            self._host.session_ahead(self)
        self._host.want_turn()

    def _end_after_error(self, error: RemoteProtocolError, data: bytes) -> None:
        """Sends a goodbye because of *error*.

        A peer that speaks another known protocol gets a reply in it.
        """
        is_stranger = not self.peer.is_open and self.peer.dial is None
        other = other_protocol.recognized(data) if is_stranger else None
        if other is None:
            self.say_goodbye(goodbye(error))
            return
        farewell = m.Goaway(error.code, other.why)
        if other.answer:
            self.peer.goaway, self._why = farewell, other.why
            self._leave(other.answer)
        else:
            self.say_goodbye(farewell)

    def _end_after_goaway(self, goaway: m.Goaway, answers: bytes) -> None:
        """Closes the connection after the peer's goodbye, or sends the last *answers* first."""
        if answers:
            self._why = goaway.text
            self._leave(answers)
        else:
            self._why = f"the peer left: {goaway.text}"
            self._close()

    def read_on(self) -> bool:
        """Resumes reading if the turns have caught up. Returns whether they have."""
        if self._open_transport() is not None and self.peer.is_ahead:
            return False
        self._unpause("turns")
        return True

    def wait_for_place(self, *, is_waiting: bool) -> None:
        """Leaves the rest of a large frame in the socket until there is room for it."""
        if is_waiting:
            self._pause("frame")
        else:
            self._unpause("frame")

    def _pause(self, why: str) -> None:
        transport = self._open_transport()
        if transport is not None:
            self._pauses.add(why)
            transport.pause_reading()

    def _unpause(self, why: str) -> None:
        self._pauses.discard(why)
        transport = self._open_transport()
        if transport is not None and not self._pauses and not transport.is_reading():
            # Processes the data that the peer sent in the meantime.
            self.peer.receive(b"", self._host.now_ms())
            transport.resume_reading()

    def eof_received(self) -> None:
        """Closes this side as well, because a peer that has closed its side does not continue."""
        if self._open_transport() is not None:
            self._close()
            self._host.want_turn()

    def connection_lost(self, error: Exception | None) -> None:
        """Reports the closed connection to the core. Does nothing for one that is not open."""
        if self._transport is None:
            return
        if self._lingering is not None:
            self._lingering.cancel()
        why = self._why if error is None else f"{self._why}: {error}"
        self.peer.closed(why)
        self._transport = None
        self._frames.forget(self)
        self._host.session_closed(self, why)

    def write(self, data: bytes) -> None:
        """Sends *data*, unless the peer has too much unread data."""
        transport = self._open_transport()
        if transport is None:
            return
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes > self._host.unsent.bytes_max:
            why = f"the peer left more than {self._host.unsent.bytes_max} bytes of replies unread"
            self.cut_off(m.Goaway(ErrorCode.CREDIT_EXCEEDED, why))
            return
        data = self._encoded(data)
        size_bytes = len(data)
        self._written_bytes += size_bytes
        if not unsent_bytes or size_bytes > self._longest_bytes:
            self._longest_bytes = size_bytes
        if size_bytes >= COUNTED_BYTES:
            self._host.unsent.wrote(size_bytes)
            self.peer.wrote(size_bytes)
        transport.write(data)

    def say_goodbye(self, goaway: m.Goaway) -> None:
        """Sends the reason and closes the connection. The core is informed immediately."""
        if self._open_transport() is not None:
            self._why = goaway.text
            self.peer.goaway = goaway
            self._leave(self.peer.encode(goaway))

    def cut_off(self, goaway: m.Goaway, *, is_silent: bool = False) -> None:
        """Closes the connection immediately.

        The log shows the goodbye, but the peer may not receive it.

        Args:
            is_silent: Whether to close without a goodbye, because sending may fail.
        """
        if not is_silent:
            self.say_goodbye(goaway)
        elif self._open_transport() is not None:
            self._why, self.peer.goaway = goaway.text, goaway
            self.peer.closed(self._why)
        if self._transport is not None:
            self._is_cut_off = True
            self._transport.abort()

    def _leave(self, last_words: bytes) -> None:
        """Closes the connection after the peer has closed its end, or has had time to do so.

        Closing while bytes from the peer are unread would reset the connection and lose the
        goodbye.
        """
        transport = self._open_transport()
        assert transport is not None
        transport.write(self._encoded(last_words) + self._farewell())
        transport.write_eof()
        if not transport.is_reading():
            transport.resume_reading()
        loop = asyncio.get_running_loop()
        self._lingering = loop.call_later(LINGER_S, self._close)
        self.peer.closed(self._why)

    def _close(self) -> None:
        """Closes the connection, informs the core, and cuts off a peer that does not read its data.

        Without the cut-off, the peer could keep the socket and its buffers open indefinitely.
        """
        transport = self._transport
        assert transport is not None
        if farewell := self._farewell():
            transport.write(farewell)
        transport.close()
        loop = asyncio.get_running_loop()
        self._lingering = loop.call_later(FETCH_S, transport.abort)
        self.peer.closed(self._why)

    def _encoded(self, data: bytes) -> bytes:
        """Returns *data* as the bytes that the socket carries."""
        return data

    def _farewell(self) -> bytes:
        """Returns the last bytes of this direction of the connection."""
        return b""

    def _open_transport(self) -> asyncio.Transport | None:
        """Returns the transport, unless the connection is closing or closed."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._lingering is not None:
            return None
        return transport

    def pause_reading(self) -> None:
        """Stops reading from the peer because the daemon stops."""
        self._pause("stop")

    @property
    def is_reading(self) -> bool:
        """Whether the session reads from the peer."""
        return self._transport is not None and self._transport.is_reading()

    def unwritten_bytes(self) -> int:
        """Returns the number of bytes that the peer has not read yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def unsent_bytes(self) -> int:
        """Returns the memory used by unread data.

        Bytes of one write are kept until all of them are read.
        """
        if self._is_cut_off:
            return 0
        unsent_bytes = self.unwritten_bytes()
        return max(unsent_bytes, self._longest_bytes) if unsent_bytes else 0

    def fetched_bytes(self) -> int:
        """Returns the number of written bytes that were sent to the peer."""
        return self._written_bytes - self.unwritten_bytes()

    @property
    def facts(self) -> dict[str, Any]:
        """The shell's information about the connection, for operators."""
        return {
            "address": self.address,
            **self.peer.facts(self._host.now_ms()),
            "unsent_bytes": self.unwritten_bytes(),
        }

    def poll(self, now_ms: int) -> None:
        """Sends a heartbeat if one is due. Cuts off a silent peer."""
        if not (self.is_reading or self.peer.is_delayed):
            return  # Silence has no meaning while the session does not read.
        try:
            ping = self.peer.poll(now_ms)
        except RemoteProtocolError as error:
            self.cut_off(goodbye(error))
        else:
            if ping:
                self.write(ping)

    def check_token(self, now_ms: int) -> None:
        """Ends the connection of an expired token. Renews the token of a link, if that is due."""
        if self._open_transport() is None:
            return
        peer = self.peer
        try:
            peer.renewal.check(now_ms)
        except RemoteProtocolError as error:
            self.say_goodbye(goodbye(error))
            return
        own = peer.renewal.own
        # Reads the file of the token.
        token = own.renewal(now_ms) if own is not None and peer.is_open else b""
        if token:
            self.write(peer.renew(token))

    def fail(self, error: Exception) -> None:
        """Closes the connection after an internal error. Other connections are not affected."""
        self._host.session_failed(self, error)


def write_all(sessions: dict[int, SocketSession], sends: list[tuple[int, m.Message]]) -> None:
    """Writes messages to their connections.

    An error closes only the connection on which it occurs.
    """
    writes: dict[int, list[bytes]] = defaultdict(list)
    for number, message in sends:
        session = sessions.get(number)
        if session is not None:
            try:
                writes[number].append(session.peer.encode(message))
            except Exception as error:
                # Any exception is possible here: memory may be short, or a value may be too large.
                session.fail(error)
    for number, parts in writes.items():
        session = sessions[number]
        try:
            session.write(parts[0] if len(parts) == 1 else b"".join(parts))
        except Exception as error:  # Any exception is possible here as well.
            session.fail(error)
