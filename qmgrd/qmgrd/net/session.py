"""One connection on the event loop: bytes to the peer's core, bytes from it to the socket."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from qmgr_config.address import Address
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgrd.core.peer import Peer, goodbye

# uvloop's own low-water mark is 16 bytes, which makes for stop and go.
WRITE_HIGH_BYTES = 1024 * 1024
WRITE_LOW_BYTES = 256 * 1024
UNREAD_MAX_BYTES = 128 * 1024 * 1024  # of answers that a peer does not fetch; then it is cut off
LINGER_S = 1.0  # for a peer to read a goodbye
UNIX = "unix"  # the origin of connections over the unix socket
FETCH_S = 10.0  # and for one that has closed, or was, to fetch what lay in front of it


class Host(Protocol):
    """What a session needs of the daemon."""

    def now_ms(self) -> int:
        """Return the monotonic clock."""

    def want_turn(self) -> None:
        """Have a turn run soon."""

    def session_entered(self, session: "Session") -> None:
        """Take note of a new session."""

    def session_closed(self, session: "Session", why: str) -> None:
        """Take note that a session is gone."""


class Session(asyncio.Protocol):
    """The shell around a :class:`Peer`, which is made when there is a connection."""

    peer: Peer

    def __init__(self, host: Host, make_peer: "Callable[[Session], Peer]") -> None:
        self.address = ""
        self.origin = ""  # the host of the peer, without its port, or UNIX
        self._make_peer = make_peer
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._lingering: asyncio.TimerHandle | None = None  # set once one of us said goodbye
        self._why = "the peer closed the connection"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: a link says hello, a listener waits for it."""
        self.peer = self._make_peer(self)
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        peername = transport.get_extra_info("peername")
        is_tcp = isinstance(peername, tuple)
        self.address = str(Address(*peername[:2])) if is_tcp else UNIX
        self.origin = peername[0] if is_tcp else UNIX
        self._host.session_entered(self)
        if self.peer.dial:
            self._transport.write(self.peer.hello())

    def data_received(self, data: bytes) -> None:
        """Cut what came into messages; the turn does the rest."""
        transport = self._open_transport()
        if transport is None:
            return
        try:
            answers = self.peer.receive(data, self._host.now_ms())
        except RemoteProtocolError as error:
            self.say_goodbye(goodbye(error))
        else:
            if self.peer.goaway is None:
                if answers:
                    self.write(answers)
            elif answers:  # It was sent away.
                self._why = self.peer.goaway.text
                self._leave(answers)
            else:
                self._why = f"the peer left: {self.peer.goaway.text}"
                self._close()
        if self.peer.is_ahead and self._open_transport() is not None:
            transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)
        self._host.want_turn()

    def _read_on(self) -> None:
        """Read again once the turns have caught up; the loop comes round with each of them."""
        transport = self._open_transport()
        if transport is None:
            return
        if self.peer.is_ahead:
            asyncio.get_running_loop().call_soon(self._read_on)
        else:
            self.peer.receive(b"", self._host.now_ms())  # What it said meanwhile is in the socket.
            transport.resume_reading()

    def eof_received(self) -> None:
        """Close as well: who sends no more is gone."""
        if self._open_transport() is not None:
            self._close()
            self._host.want_turn()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the core."""
        if self._lingering is not None:
            self._lingering.cancel()
        why = self._why if error is None else f"{self._why}: {error}"
        self.peer.closed(why)
        self._transport = None
        self._host.session_closed(self, why)

    def write(self, data: bytes) -> None:
        """Send *data*, unless the peer leaves too much unread."""
        transport = self._open_transport()
        if transport is None:
            return
        if transport.get_write_buffer_size() > UNREAD_MAX_BYTES:
            why = f"over {UNREAD_MAX_BYTES} bytes of answers were left unread"
            self.cut_off(m.Goaway(ErrorCode.CREDIT_EXCEEDED, why))
            return
        transport.write(data)

    def say_goodbye(self, goaway: m.Goaway) -> None:
        """Say why, and close; the core is told at once."""
        if self._open_transport() is not None:
            self._why = goaway.text
            self.peer.goaway = goaway
            self._leave(self.peer.encode(goaway))

    def cut_off(self, goaway: m.Goaway) -> None:
        """Close at once: nobody is there to fetch the goodbye, which says why in the log."""
        self.say_goodbye(goaway)
        if self._transport is not None:
            self._transport.abort()

    def _leave(self, last_words: bytes) -> None:
        """Close once the peer has closed its end, or had time to.

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
        """Close, and tell the core; cut off a peer that does not even fetch what is written.

        Its socket and all that waits in it would stay for as long as it likes.
        """
        transport = self._transport
        assert transport is not None
        transport.close()
        loop = asyncio.get_running_loop()
        self._lingering = loop.call_later(FETCH_S, transport.abort)
        self.peer.closed(self._why)

    def _open_transport(self) -> asyncio.Transport | None:
        """Return the transport, unless the connection is going or gone."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._lingering is not None:
            return None
        return transport

    def pause_reading(self) -> None:
        """Take nothing more from the peer: the daemon stops."""
        transport = self._open_transport()
        if transport is not None:
            transport.pause_reading()

    @property
    def is_reading(self) -> bool:
        """Whether what the peer says is heard."""
        return self._transport is not None and self._transport.is_reading()

    def unwritten_bytes(self) -> int:
        """Return how much the peer has still to fetch."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def facts(self) -> dict[str, Any]:
        """What operators are told of it that the core does not know."""
        return {
            "address": self.address,
            **self.peer.waiting,
            "unsent_bytes": self.unwritten_bytes(),
        }

    def poll(self, now_ms: int) -> None:
        """Send a heartbeat if one is due; cut off a peer that is silent."""
        if not self.is_reading:
            return  # It is we who do not listen.
        try:
            ping = self.peer.poll(now_ms)
        except RemoteProtocolError as error:
            self.cut_off(goodbye(error))
        else:
            if ping:
                self.write(ping)
