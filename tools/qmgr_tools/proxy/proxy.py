"""A TCP proxy between two queue managers that simulates a bad network.

    dialler ──forth──▶ proxy ──forth──▶ target
            ◀──back───       ◀──back───

It delays, limits the rate, stalls, cuts at any byte, and refuses connections: one or all, in one
direction or both. Its inlets may lose, double and reorder bytes (fault.py). Without any of this it
only forwards bytes, at hundreds of MB/s. Its buffers are bounded: it reads no more than it can
pass, so a slow target slows the dialler as it would without a proxy.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from typing import cast

from qmgr_config.address import Address
from qmgr_tools.proxy.fault import Inlet
from qmgr_tools.proxy.pipe import WRITE_HIGH_BYTES, WRITE_LOW_BYTES, Pipe, Shape

SOCKET_BYTES = 256 * 1024  # The kernel would buffer several MB, whatever the rate.
HOST = "127.0.0.1"
DIAL_MAX_S = 10
RESET_AT_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER, for no time


class Way(Enum):
    """A direction: the dialler's bytes go forth."""

    FORTH = "forth"
    BACK = "back"


BOTH = tuple(Way)


Ear = Callable[["ProxyConnection", Way, bytes], None]
News = Callable[[str, "ProxyConnection"], None]  # "opened", "closed" or "target not reached"
MakeInlet = Callable[["ProxyConnection", Way, Pipe], Inlet]  # returns the inlet of a pipe


class _End(asyncio.Protocol):
    """One of the two sockets of a connection: reads to the outgoing pipe, writes the incoming.

    Invariant: ``transport`` is set as long as the socket is open.
    """

    def __init__(
        self, connection: "ProxyConnection", outgoing: Pipe, incoming: Pipe, inlet: Inlet
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.outgoing, self.incoming = outgoing, incoming
        self._inlet = inlet  # of the outgoing pipe
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the limits of the socket."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        self._set(socket.SO_RCVBUF, SOCKET_BYTES)
        self.outgoing.read_from(self.transport)
        self._connection.made(self)

    def data_received(self, data: bytes) -> None:
        """Forward the data."""
        self._connection.heard(self, data)
        self._inlet.take(data)

    def eof_received(self) -> bool:
        """Forward the end after all data."""
        self._inlet.end()
        return True  # The other direction stays open.

    def pause_writing(self) -> None:
        """Stop writing for now."""
        self.incoming.sink_full(True)

    def resume_writing(self) -> None:
        """Write again."""
        self.incoming.sink_full(False)

    def connection_lost(self, error: Exception | None) -> None:
        """End both directions."""
        self.transport = None
        self.incoming.sink_gone()
        self._inlet.end()
        self._connection.lost(self)

    def close(self) -> None:
        """Close after all data is written."""
        if self.transport is not None:
            self.transport.close()

    def write_eof(self) -> None:
        """Say that no more comes, once all is written."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()

    def reset(self) -> None:
        """Close with a reset; what is not written yet is lost."""
        if self.transport is not None:
            self._set(socket.SO_LINGER, RESET_AT_CLOSE)
            self.transport.abort()

    def _set(self, option: int, value: int | bytes) -> None:
        assert self.transport is not None
        with suppress(OSError):  # The socket is already closed.
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, option, value)


class ProxyConnection:
    """A proxied connection; it forwards bytes once the target is connected.

    ``pipes`` are its two directions. It ends when both of its sockets are closed.
    """

    def __init__(self, proxy: "Proxy", number: int) -> None:
        self.number = number  # in order of acceptance, from 0
        forth = Pipe(proxy.shapes[Way.FORTH], lambda: self._ended(self._near, self._far))
        back = Pipe(proxy.shapes[Way.BACK], lambda: self._ended(self._far, self._near))
        self.pipes = {Way.FORTH: forth, Way.BACK: back}
        self._near = _End(self, forth, back, proxy.inlet(self, Way.FORTH, forth))
        self._far = _End(self, back, forth, proxy.inlet(self, Way.BACK, back))
        self._proxy = proxy
        self._is_dialling = True
        self.stall(proxy.stalled)

    def shape(self, shape: Shape, ways: Iterable[Way] = BOTH) -> None:
        """Change delay and rate."""
        for way in ways:
            self.pipes[way].shape(shape)

    def stall(self, ways: Iterable[Way] = BOTH) -> None:
        """Pass nothing until resumed, not even the end of a socket; both stay open."""
        for way in ways:
            self.pipes[way].stall()

    def resume(self, ways: Iterable[Way] = BOTH) -> None:
        """Pass bytes again, the waiting ones first."""
        for way in ways:
            self.pipes[way].resume()

    def cut(self) -> None:
        """Reset both sockets; bytes in transit are lost."""
        self._near.reset()
        self._far.reset()

    def cut_after(self, count: int, way: Way) -> None:
        """Pass *count* more bytes that way, then cut; the reader sees the end after the last."""
        self.pipes[way].cut_after(count)

    @property
    def is_up(self) -> bool:
        """Whether both sockets are open and not closing."""
        ends = (self._near.transport, self._far.transport)
        return not any(transport is None or transport.is_closing() for transport in ends)

    async def dial(self, host: str, port: int) -> None:
        """Connect to the target, or reset the dialler's socket."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_MAX_S):
                await loop.create_connection(lambda: self._far, host, port)
        except OSError:  # TimeoutError is one.
            self._proxy.news("target not reached", self)
            self._near.reset()

    def dialled(self, _: object) -> None:
        """Handle the end of dialling, successful or not."""
        self._is_dialling = False
        self._check_end()

    def near_end(self) -> asyncio.Protocol:
        """Return the protocol of the dialler's socket."""
        return self._near

    def made(self, end: asyncio.Protocol) -> None:
        """Handle the connection of *end*; once the target is connected, bytes flow."""
        if end is self._near:
            self._proxy.took(self)
        elif self._near.transport is None:  # The dialler has disconnected.
            self._far.reset()
        else:
            assert self._far.transport is not None
            self.pipes[Way.FORTH].write_to(self._far.transport)
            self.pipes[Way.BACK].write_to(self._near.transport)

    def heard(self, end: _End, data: bytes) -> None:
        """Call the proxy's ear, if set, with bytes that *end* has read."""
        if self._proxy.ear is not None:
            self._proxy.ear(self, Way.FORTH if end is self._near else Way.BACK, data)

    def lost(self, end: _End) -> None:
        """Handle the closing of *end*."""
        if end.outgoing.has_ended:  # Otherwise the other end closes after the last byte.
            (self._far if end is self._near else self._near).close()
        self._check_end()

    def _ended(self, source: _End, sink: _End) -> None:
        """Close *sink*, or its writing side, after the last byte."""
        if source.outgoing.is_cut:
            source.reset()
        if source.transport is None or source.outgoing.is_cut:
            sink.close()
        elif source.incoming.has_ended:
            source.close()
            sink.close()
        else:
            sink.write_eof()

    def _check_end(self) -> None:
        is_closed = self._near.transport is None and self._far.transport is None
        if is_closed and not self._is_dialling:
            self._proxy.over(self)


class Proxy:
    """Listens on one port and forwards each connection to one target.

    Calls on the proxy apply to all present and later connections, calls on one of ``connections``
    to that one only. Invariant: the proxy keeps its port until it is closed.
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
        """Create a proxy for *host*:*port*; *ear* is called with all bytes when they are read.

        Args:
            listen: the address to listen at; port 0 is any free port.
            inlet: returns the inlet for each direction of a new connection; the pipe itself passes
                everything.
            news: called when connections open, fail and close.
        """
        self.ear = ear
        self.news = news
        self.inlet = inlet
        self._listen = listen
        self.shapes = dict.fromkeys(Way, shape or Shape())
        self.stalled: set[Way] = set()
        self.taken = 0  # connections accepted so far
        self._target = (host, port)
        self._connections: dict[ProxyConnection, asyncio.Task[None]] = {}
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._place = socket.socket(family)  # It keeps the port while the proxy refuses.
        self._server: asyncio.Server | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> "Proxy":
        """Listen.

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
        """Raise OSError if the port is in use: SO_REUSEPORT would share it."""
        with socket.socket(self._place.family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(self._listen)
            probe.listen()

    async def close(self) -> None:
        """Cut all connections and stop listening; returns when all sockets are closed."""
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
        """The address at which it listens, as host:port."""
        return str(Address(self._listen[0], self.port))

    @property
    def port(self) -> int:
        """The port on which it listens."""
        port: int = self._place.getsockname()[1]
        return port

    @property
    def connections(self) -> list[ProxyConnection]:
        """The connections that are up, oldest first."""
        return [connection for connection in self._connections if connection.is_up]

    @property
    def is_accepting(self) -> bool:
        """Whether new connections are accepted."""
        return self._server is not None

    def shape(self, shape: Shape, ways: Iterable[Way] = BOTH) -> None:
        """Change delay and rate of each connection."""
        ways = tuple(ways)
        self.shapes |= dict.fromkeys(ways, shape)
        for connection in self._connections:
            connection.shape(shape, ways)

    def stall(self, ways: Iterable[Way] = BOTH) -> None:
        """Pass nothing until resumed; connections are accepted, and stay open."""
        ways = tuple(ways)
        self.stalled.update(ways)
        for connection in self._connections:
            connection.stall(ways)

    def resume(self, ways: Iterable[Way] = BOTH) -> None:
        """Pass bytes again, also on connections that were stalled individually."""
        ways = tuple(ways)
        self.stalled.difference_update(ways)
        for connection in self._connections:
            connection.resume(ways)

    def cut(self) -> None:
        """Cut all connections; new ones are accepted."""
        for connection in list(self._connections):
            connection.cut()

    def refuse(self) -> None:
        """Refuse new connections; existing ones continue."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def accept(self) -> None:
        """Accept new connections, on the same port."""
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                self._take, self._listen[0], self.port, reuse_port=True
            )

    async def heal(self) -> None:
        """Undo all shapes, stalls and refusals; cut connections stay cut."""
        self.shape(Shape())
        self.resume()
        await self.accept()

    def took(self, connection: ProxyConnection) -> None:
        """Dial the target for an accepted connection."""
        if self._place.fileno() < 0:  # The proxy was closed meanwhile.
            connection.cut()
            return
        self._idle.clear()
        self.news("opened", connection)
        dialling = asyncio.get_running_loop().create_task(connection.dial(*self._target))
        dialling.add_done_callback(connection.dialled)
        self._connections[connection] = dialling

    def over(self, connection: ProxyConnection) -> None:
        """Forget a connection."""
        if self._connections.pop(connection, None) is not None:
            self.news("closed", connection)
        if not self._connections:
            self._idle.set()

    def _take(self) -> asyncio.Protocol:
        connection = ProxyConnection(self, self.taken)
        self.taken += 1
        return connection.near_end()
