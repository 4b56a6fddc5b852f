"""A TCP proxy between two queue managers that makes the network between them a bad one.

    dialler ──forth──▶ proxy ──forth──▶ target
            ◀──back───       ◀──back───

It delays, limits the rate, stalls, cuts at any byte, and refuses: one connection or all, one way or
both. Its inlets may lose, double and reorder bytes (proxy_fault.py). With none of this asked for it
only passes bytes, hundreds of MB/s. What it holds is bounded: it reads no more than it can pass, so
a dialler meets a slow target as it would without a proxy.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from typing import cast

from qmgr_config.address import Address
from qmgr_proxy.fault import Inlet
from qmgr_proxy.pipe import WRITE_HIGH_BYTES, WRITE_LOW_BYTES, Pipe, Shape

SOCKET_BYTES = 256 * 1024  # The kernel would take several MB by itself, whatever the rate.
HOST = "127.0.0.1"
DIAL_MAX_S = 10
RESET_AT_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER, for no time


class Way(Enum):
    """A direction: what the dialler sends goes forth."""

    FORTH = "forth"
    BACK = "back"


BOTH = tuple(Way)


Ear = Callable[["ProxyConnection", Way, bytes], None]
News = Callable[[str, "ProxyConnection"], None]  # "opened", "closed" or "target not reached"
MakeInlet = Callable[["ProxyConnection", Way, Pipe], Inlet]  # what stands in front of a pipe


class _End(asyncio.Protocol):
    """One of the two sockets of a connection: what is read goes out, what comes in is written.

    Invariant: ``transport`` is there as long as the socket is open.
    """

    def __init__(
        self, connection: "ProxyConnection", outgoing: Pipe, incoming: Pipe, inlet: Inlet
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.outgoing, self.incoming = outgoing, incoming
        self._inlet = inlet  # of the outgoing pipe
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sets the limits of the socket."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        self._set(socket.SO_RCVBUF, SOCKET_BYTES)
        self.outgoing.read_from(self.transport)
        self._connection.made(self)

    def data_received(self, data: bytes) -> None:
        """Passes it on."""
        self._connection.heard(self, data)
        self._inlet.take(data)

    def eof_received(self) -> bool:
        """Passes the end on, in its turn."""
        self._inlet.end()
        return True  # The other direction goes on.

    def pause_writing(self) -> None:
        """Takes no more for now."""
        self.incoming.sink_full(True)

    def resume_writing(self) -> None:
        """Takes more."""
        self.incoming.sink_full(False)

    def connection_lost(self, error: Exception | None) -> None:
        """Tells both directions."""
        self.transport = None
        self.incoming.sink_gone()
        self._inlet.end()
        self._connection.lost(self)

    def close(self) -> None:
        """Closes once all is written."""
        if self.transport is not None:
            self.transport.close()

    def write_eof(self) -> None:
        """Says that no more comes, once all is written."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()

    def reset(self) -> None:
        """Closes with a reset; what is not written yet is lost."""
        if self.transport is not None:
            self._set(socket.SO_LINGER, RESET_AT_CLOSE)
            self.transport.abort()

    def _set(self, option: int, value: int | bytes) -> None:
        assert self.transport is not None
        with suppress(OSError):  # It is closed already.
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, option, value)


class ProxyConnection:
    """A connection that is passed on, or will be once the target is reached.

    ``pipes`` are its two directions. It is over when both of its sockets are closed.
    """

    def __init__(self, proxy: "Proxy", number: int) -> None:
        self.number = number  # of those that the proxy took, from 0
        forth = Pipe(proxy.shapes[Way.FORTH], lambda: self._ended(self._near, self._far))
        back = Pipe(proxy.shapes[Way.BACK], lambda: self._ended(self._far, self._near))
        self.pipes = {Way.FORTH: forth, Way.BACK: back}
        self._near = _End(self, forth, back, proxy.inlet(self, Way.FORTH, forth))
        self._far = _End(self, back, forth, proxy.inlet(self, Way.BACK, back))
        self._proxy = proxy
        self._is_dialling = True
        self.stall(proxy.stalled)

    def shape(self, shape: Shape, ways: Iterable[Way] = BOTH) -> None:
        """Delays bytes and limit their rate so from now on."""
        for way in ways:
            self.pipes[way].shape(shape)

    def stall(self, ways: Iterable[Way] = BOTH) -> None:
        """Passes nothing until resumed, not even an end of a socket; they stay open."""
        for way in ways:
            self.pipes[way].stall()

    def resume(self, ways: Iterable[Way] = BOTH) -> None:
        """Passes bytes again, first those that wait."""
        for way in ways:
            self.pipes[way].resume()

    def cut(self) -> None:
        """Resets both sockets; what is on its way is lost."""
        self._near.reset()
        self._far.reset()

    def cut_after(self, count: int, way: Way) -> None:
        """Passes *count* bytes more that way, then cut; the reader sees the end behind the last."""
        self.pipes[way].cut_after(count)

    @property
    def is_up(self) -> bool:
        """Whether both sockets are open, and none of them is being closed."""
        ends = (self._near.transport, self._far.transport)
        return not any(transport is None or transport.is_closing() for transport in ends)

    async def dial(self, host: str, port: int) -> None:
        """Connects to the target, or reset the dialler's socket."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_MAX_S):
                await loop.create_connection(lambda: self._far, host, port)
        except OSError:  # TimeoutError is one.
            self._proxy.news("target not reached", self)
            self._near.reset()

    def dialled(self, _: object) -> None:
        """Takes note that no more is to be waited for, whatever came of it."""
        self._is_dialling = False
        self._see_whether_over()

    def near_end(self) -> asyncio.Protocol:
        """Returns what is to be connected with the dialler."""
        return self._near

    def made(self, end: asyncio.Protocol) -> None:
        """Takes note that *end* is connected; with the target's, bytes flow."""
        if end is self._near:
            self._proxy.took(self)
        elif self._near.transport is None:  # Who dialled did not wait.
            self._far.reset()
        else:
            assert self._far.transport is not None
            self.pipes[Way.FORTH].write_to(self._far.transport)
            self.pipes[Way.BACK].write_to(self._near.transport)

    def heard(self, end: _End, data: bytes) -> None:
        """Lets the proxy's ear, if it has one, hear what *end* has read, before it passes."""
        if self._proxy.ear is not None:
            self._proxy.ear(self, Way.FORTH if end is self._near else Way.BACK, data)

    def lost(self, end: _End) -> None:
        """Takes note that *end* is closed."""
        if end.outgoing.has_ended:  # Otherwise the other end is told when all has passed.
            (self._far if end is self._near else self._near).close()
        self._see_whether_over()

    def _ended(self, source: _End, sink: _End) -> None:
        """Tells *sink* that all has passed that it will ever get."""
        if source.outgoing.is_cut:
            source.reset()
        if source.transport is None or source.outgoing.is_cut:
            sink.close()
        elif source.incoming.has_ended:
            source.close()
            sink.close()
        else:
            sink.write_eof()

    def _see_whether_over(self) -> None:
        is_closed = self._near.transport is None and self._far.transport is None
        if is_closed and not self._is_dialling:
            self._proxy.over(self)


class Proxy:
    """Listens on one port and passes each connection on to one target.

    What is said to the proxy holds for its connections and for those to come; what is said to one
    of ``connections`` for that one only. Invariant: the port is its own until it is closed.
    """

    def __init__(
        self,
        host: str,
        port: int,
        shape: Shape | None = None,
        ear: Ear | None = None,
        listen: tuple[str, int] = (HOST, 0),
        inlet: MakeInlet = lambda connection, way, pipe: pipe,
        news: News = lambda what, connection: None,
    ) -> None:
        """Passes on to *host*:*port*, once started; *ear* hears all that is read, as it is read.

        Args:
            listen: on which address; port 0 is any that is free.
            inlet: returns what each direction of a new connection is fed by; the pipe itself
                passes everything.
            news: hears what becomes of connections.
        """
        self.ear = ear
        self.news = news
        self.inlet = inlet
        self._listen = listen
        self.shapes = dict.fromkeys(Way, shape or Shape())
        self.stalled: set[Way] = set()
        self.taken = 0  # connections, so far
        self._target = (host, port)
        self._connections: dict[ProxyConnection, asyncio.Task[None]] = {}
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._place = socket.socket(family)  # It keeps the port while nobody listens.
        self._server: asyncio.Server | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> "Proxy":
        """Listens.

        Raises:
            OSError: the port is not free.
        """
        try:
            if self._listen[1]:
                self._check_free()
            self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._place.bind(self._listen)
        except OSError:
            self._place.close()
            raise
        await self.accept()
        return self

    def _check_free(self) -> None:
        """Raises OSError where somebody listens: SO_REUSEPORT would share the port with another."""
        with socket.socket(self._place.family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(self._listen)
            probe.listen()

    async def close(self) -> None:
        """Cuts all connections, and listen no more; returns when all sockets are closed."""
        self.refuse()
        self._place.close()
        for connection, dialling in self._connections.items():
            dialling.cancel()
            connection.cut()
        await self._idle.wait()

    async def __aenter__(self) -> "Proxy":
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return str(Address(self._listen[0], self.port))

    @property
    def port(self) -> int:
        """The port on which it listens."""
        port: int = self._place.getsockname()[1]
        return port

    @property
    def connections(self) -> list[ProxyConnection]:
        """Those that are up, oldest first."""
        return [connection for connection in self._connections if connection.is_up]

    @property
    def is_accepting(self) -> bool:
        """Whether new connections are taken."""
        return self._server is not None

    def shape(self, shape: Shape, ways: Iterable[Way] = BOTH) -> None:
        """Delays bytes and limit their rate so, on each connection by itself."""
        ways = tuple(ways)
        self.shapes |= dict.fromkeys(ways, shape)
        for connection in self._connections:
            connection.shape(shape, ways)

    def stall(self, ways: Iterable[Way] = BOTH) -> None:
        """Passes nothing until resumed; connections are taken, and stay open."""
        ways = tuple(ways)
        self.stalled.update(ways)
        for connection in self._connections:
            connection.stall(ways)

    def resume(self, ways: Iterable[Way] = BOTH) -> None:
        """Passes bytes again, also those of a connection that was stalled by itself."""
        ways = tuple(ways)
        self.stalled.difference_update(ways)
        for connection in self._connections:
            connection.resume(ways)

    def cut(self) -> None:
        """Cuts all connections; new ones are taken."""
        for connection in list(self._connections):
            connection.cut()

    def refuse(self) -> None:
        """Have the system refuse new connections; those there are go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def accept(self) -> None:
        """Takes new connections, on the same port as ever."""
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                self._take, self._listen[0], self.port, reuse_port=True
            )

    async def heal(self) -> None:
        """Undos all that was said to the proxy and to its connections; what is cut stays so."""
        self.shape(Shape())
        self.resume()
        await self.accept()

    def took(self, connection: ProxyConnection) -> None:
        """Dials the target for a connection that was taken."""
        if self._place.fileno() < 0:  # It was on its way as all was closed.
            connection.cut()
            return
        self._idle.clear()
        self.news("opened", connection)
        dialling = asyncio.get_running_loop().create_task(connection.dial(*self._target))
        dialling.add_done_callback(connection.dialled)
        self._connections[connection] = dialling

    def over(self, connection: ProxyConnection) -> None:
        """Forgets a connection."""
        if self._connections.pop(connection, None) is not None:
            self.news("closed", connection)
        if not self._connections:
            self._idle.set()

    def _take(self) -> asyncio.Protocol:
        connection = ProxyConnection(self, self.taken)
        self.taken += 1
        return connection.near_end()
