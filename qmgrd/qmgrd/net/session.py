"""One connection on the event loop: bytes to the peer's core, bytes from it to the socket."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol, cast

from qmgr_config.address import Address
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgrd.core.limits.outflow import ENOUGH_BYTES, SHARE_BYTES
from qmgrd.core.peer import Peer, goodbye
from qmgrd.net import other_protocol
from qmgrd.net.large_frames import LargeFrames
from qmgrd.net.unsent import COUNTED_BYTES, Unsent

# uvloop's own low-water mark is 16 bytes, which makes for stop and go.
WRITE_HIGH_BYTES = ENOUGH_BYTES  # Beyond it the core makes no more for this peer.
WRITE_LOW_BYTES = WRITE_HIGH_BYTES // 4  # Below it the core goes on.
LINGER_S = 1.0  # for a peer to read a goodbye
FETCH_S = 10.0  # and for one that has closed, or was, to fetch what lay in front of it
UNIX = "unix"  # the origin of connections over the unix socket


class Host(Protocol):
    """What a session needs of the daemon."""

    frames: LargeFrames
    unsent: Unsent

    def now_ms(self) -> int:
        """Returns the monotonic clock."""

    def want_turn(self) -> None:
        """Have a turn run soon."""

    def session_entered(self, session: "Session") -> None:
        """Takes note of a new session."""

    def session_ahead(self, session: "Session") -> None:
        """Calls :meth:`Session.read_on` after each turn, until the turns have caught up."""

    def session_blocked(self, session: "Session", *, is_blocked: bool) -> None:
        """Takes note whether the peer has too much to fetch."""

    def session_failed(self, session: "Session", error: Exception) -> None:
        """Takes note that *session* met *error* here and is to be closed."""

    def session_closed(self, session: "Session", why: str) -> None:
        """Takes note that a session is gone."""


class Session(asyncio.BufferedProtocol):
    """The shell around a :class:`Peer`, which is made when there is a connection.

    Invariant: ``_pauses`` names why the peer is not read from; it is read from if there is nothing.
    """

    peer: Peer

    def __init__(self, host: Host, make_peer: "Callable[[Session], Peer]") -> None:
        self.address = ""
        self.origin = ""  # the host of the peer, without its port, or UNIX
        self._make_peer = make_peer
        self._host = host
        self._frames = host.frames
        # One call less for each read: the loop asks the object that has the buffer.
        self.get_buffer = host.frames.buffer  # type: ignore[method-assign]
        self._transport: asyncio.Transport | None = None
        self._lingering: asyncio.TimerHandle | None = None  # set once one of us said goodbye
        self._why = "the peer closed the connection"
        self._pauses: set[str] = set()
        self._partial_bytes = 0  # of a frame, as of the last read
        self._written_bytes = 0
        self._is_cut_off = False
        self._longest_bytes = 0  # of what was written since nothing was unsent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins: a link says hello, a listener waits for it."""
        self.peer = self._make_peer(self)
        self._transport = cast(asyncio.Transport, transport)
        self.set_marks(is_tight=self._host.unsent.is_tight)
        peername = transport.get_extra_info("peername")
        is_tcp = isinstance(peername, tuple)
        self.address = str(Address(*peername[:2])) if is_tcp else UNIX
        self.origin = peername[0] if is_tcp else UNIX
        self._host.session_entered(self)
        if self.peer.dial:
            self._transport.write(self.peer.hello())

    def set_marks(self, *, is_tight: bool) -> None:
        """Sets how much the peer may have to fetch before it is blocked."""
        transport = self._open_transport()
        if transport is not None:
            high, low = WRITE_HIGH_BYTES, WRITE_LOW_BYTES
            if is_tight:
                high, low = SHARE_BYTES, SHARE_BYTES // 4
            transport.set_write_buffer_limits(high=high, low=low)

    def pause_writing(self) -> None:
        """Makes no more for a peer that has too much to fetch."""
        self._host.session_blocked(self, is_blocked=True)

    def resume_writing(self) -> None:
        """Goes on for a peer that has fetched what it was sent."""
        self._host.session_blocked(self, is_blocked=False)

    def buffer_updated(self, nbytes: int) -> None:
        """Cuts what came into messages; the turn does the rest."""
        if self._open_transport() is None:
            return
        peer = self.peer
        data = self._frames.last[:nbytes].tobytes()
        try:
            answers = peer.receive(data, self._host.now_ms())
        except RemoteProtocolError as error:
            self._break_off(error, data)
        except MemoryError as error:
            self.fail(error)
            return
        else:
            if peer.goaway is not None:
                self._part(peer.goaway, answers)
            elif answers:
                self.write(answers)
        held_bytes, before = peer.partial_bytes, self._partial_bytes
        if held_bytes or before:
            self._partial_bytes = held_bytes
            is_new = held_bytes != before + nbytes
            self._frames.holds(self, held_bytes, peer.frame_bytes, is_new=is_new)
        if peer.is_ahead and self._open_transport() is not None:
            self._pause("turns")
            self._host.session_ahead(self)
        self._host.want_turn()

    def _break_off(self, error: RemoteProtocolError, data: bytes) -> None:
        """Says goodbye as *error* says; a stranger is answered in its own protocol if we know it."""
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

    def _part(self, goaway: m.Goaway, answers: bytes) -> None:
        """Closes, as one of us said goodbye: the peer, unless there are *answers*."""
        if answers:
            self._why = goaway.text
            self._leave(answers)
        else:
            self._why = f"the peer left: {goaway.text}"
            self._close()

    def read_on(self) -> bool:
        """Reads again if the turns have caught up; return whether they have."""
        if self._open_transport() is not None and self.peer.is_ahead:
            return False
        self._unpause("turns")
        return True

    def wait_for_place(self, *, is_waiting: bool) -> None:
        """Leaves the rest of a large frame in the socket while there is no room for it."""
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
            self.peer.receive(b"", self._host.now_ms())  # What it said meanwhile is in the socket.
            transport.resume_reading()

    def eof_received(self) -> None:
        """Closes as well: who sends no more is gone."""
        if self._open_transport() is not None:
            self._close()
            self._host.want_turn()

    def connection_lost(self, error: Exception | None) -> None:
        """Tells the core."""
        if self._lingering is not None:
            self._lingering.cancel()
        why = self._why if error is None else f"{self._why}: {error}"
        self.peer.closed(why)
        self._transport = None
        self._frames.forget(self)
        self._host.session_closed(self, why)

    def write(self, data: bytes) -> None:
        """Sends *data*, unless the peer leaves too much unread."""
        transport = self._open_transport()
        if transport is None:
            return
        unsent_bytes, size_bytes = transport.get_write_buffer_size(), len(data)
        if unsent_bytes > self._host.unsent.bytes_max:
            why = f"over {self._host.unsent.bytes_max} bytes of answers were left unread"
            self.cut_off(m.Goaway(ErrorCode.CREDIT_EXCEEDED, why))
            return
        self._written_bytes += size_bytes
        if not unsent_bytes or size_bytes > self._longest_bytes:
            self._longest_bytes = size_bytes
        if size_bytes >= COUNTED_BYTES:
            self._host.unsent.wrote(size_bytes)
        transport.write(data)

    def say_goodbye(self, goaway: m.Goaway) -> None:
        """Says why, and close; the core is told at once."""
        if self._open_transport() is not None:
            self._why = goaway.text
            self.peer.goaway = goaway
            self._leave(self.peer.encode(goaway))

    def cut_off(self, goaway: m.Goaway, *, is_silent: bool = False) -> None:
        """Closes at once. The goodbye says why in the log; the peer may not be there to fetch it.

        Args:
            is_silent: whether the goodbye is not even written, as that may fail.
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
        """Closes once the peer has closed its end, or had time to.

        Closing with bytes of the peer unread would reset the connection, and lose the last words.
        """
        transport = self._open_transport()
        assert transport is not None
        transport.write(last_words)
        transport.write_eof()
        if not transport.is_reading():
            transport.resume_reading()
        loop = asyncio.get_running_loop()
        self._lingering = loop.call_later(LINGER_S, self._close)
        self.peer.closed(self._why)

    def _close(self) -> None:
        """Closes, and tells the core; cut off a peer that does not even fetch what is written.

        Its socket and all that waits in it would stay for as long as it likes.
        """
        transport = self._transport
        assert transport is not None
        transport.close()
        loop = asyncio.get_running_loop()
        self._lingering = loop.call_later(FETCH_S, transport.abort)
        self.peer.closed(self._why)

    def _open_transport(self) -> asyncio.Transport | None:
        """Returns the transport, unless the connection is going or gone."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._lingering is not None:
            return None
        return transport

    def pause_reading(self) -> None:
        """Takes nothing more from the peer: the daemon stops."""
        self._pause("stop")

    @property
    def is_reading(self) -> bool:
        """Whether what the peer says is heard."""
        return self._transport is not None and self._transport.is_reading()

    def unwritten_bytes(self) -> int:
        """Returns how much the peer has still to fetch."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def unsent_bytes(self) -> int:
        """Returns how much memory that takes: what is written at once stays until it is fetched."""
        if self._is_cut_off:
            return 0
        unsent_bytes = self.unwritten_bytes()
        return max(unsent_bytes, self._longest_bytes) if unsent_bytes else 0

    def fetched_bytes(self) -> int:
        """Returns how much of what was written has left for the peer."""
        return self._written_bytes - self.unwritten_bytes()

    @property
    def facts(self) -> dict[str, Any]:
        """What operators are told of it that the core does not know."""
        return {
            "address": self.address,
            **self.peer.waiting,
            "unsent_bytes": self.unwritten_bytes(),
        }

    def poll(self, now_ms: int) -> None:
        """Sends a heartbeat if one is due; cut off a peer that is silent."""
        if not self.is_reading:
            return  # It is we who do not listen.
        try:
            ping = self.peer.poll(now_ms)
        except RemoteProtocolError as error:
            self.cut_off(goodbye(error))
        else:
            if ping:
                self.write(ping)

    def fail(self, error: Exception) -> None:
        """Closes, as something failed here; other connections go on."""
        self._host.session_failed(self, error)


def write_all(sessions: dict[int, Session], sends: list[tuple[int, m.Message]]) -> None:
    """Writes messages to their connections; one that fails costs no other connection."""
    writes: dict[int, list[bytes]] = defaultdict(list)
    for number, message in sends:
        session = sessions.get(number)
        if session is not None:
            try:
                writes[number].append(session.peer.encode(message))
            except Exception as error:  # An edge: memory may be short, or a value too large.
                session.fail(error)
    for number, parts in writes.items():
        session = sessions[number]
        try:
            session.write(parts[0] if len(parts) == 1 else b"".join(parts))
        except Exception as error:  # As above.
            session.fail(error)
