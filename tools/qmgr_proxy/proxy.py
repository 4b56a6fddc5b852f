"""A TCP proxy between two queue managers that simulates a bad network.

    dialler ──forth──▶ proxy ──forth──▶ target
            ◀──back───       ◀──back───

The proxy can delay and stall data, limit its rate, cut connections at any byte, and refuse them.
Each action applies to one connection or all, in one direction or both. Inlets may lose, duplicate
and reorder bytes (fault.py). By default the proxy only passes bytes, at hundreds of MB/s. The
proxy's memory is limited because it reads no more than it can pass. A dialler therefore observes a
slow target as it does without a proxy.
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

SOCKET_BYTES = 256 * 1024  # By default the kernel would buffer several MB at any rate.
HOST = "127.0.0.1"
DIAL_MAX_S = 10
RESET_AT_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with zero seconds


class Way(Enum):
    """A direction. Data from the dialler goes forth."""

    FORTH = "forth"
    BACK = "back"


BOTH = tuple(Way)


Ear = Callable[["ProxyConnection", Way, bytes], None]
News = Callable[[str, "ProxyConnection"], None]  # "opened", "closed" or "target not reached"
MakeInlet = Callable[["ProxyConnection", Way, Pipe], Inlet]  # creates the stage in front of a pipe


class _End(asyncio.Protocol):
    """One of the two sockets of a connection, which feeds *outgoing* and is fed by *incoming*.

    Invariant: ``transport`` is set while the socket is open.
    """

    def __init__(
        self, connection: "ProxyConnection", outgoing: Pipe, incoming: Pipe, inlet: Inlet
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.outgoing, self.incoming = outgoing, incoming
        self._inlet = inlet  # inlet of the outgoing pipe
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sets the limits of the socket."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        self._set(socket.SO_RCVBUF, SOCKET_BYTES)
        self.outgoing.read_from(self.transport)
        self._connection.made(self)

    def data_received(self, data: bytes) -> None:
        """Forwards data."""
        self._connection.heard(self, data)
        self._inlet.take(data)

    def eof_received(self) -> bool:
        """Forwards the end of the data."""
        self._inlet.end()
        return True  # The other direction continues.

    def pause_writing(self) -> None:
        """Stops accepting data until the socket can write again."""
        self.incoming.sink_full(True)

    def resume_writing(self) -> None:
        """Accepts data again."""
        self.incoming.sink_full(False)

    def connection_lost(self, error: Exception | None) -> None:
        """Ends both directions."""
        self.transport = None
        self.incoming.sink_gone()
        self._inlet.end()
        self._connection.lost(self)

    def close(self) -> None:
        """Closes the socket after all data is written."""
        if self.transport is not None:
            self.transport.close()

    def write_eof(self) -> None:
        """Sends the end of the data after all data is written."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()

    def reset(self) -> None:
        """Closes the socket with a reset, which loses unwritten data."""
        if self.transport is not None:
            self._set(socket.SO_LINGER, RESET_AT_CLOSE)
            self.transport.abort()

    def _set(self, option: int, value: int | bytes) -> None:
        assert self.transport is not None
        with suppress(OSError):  # The socket is already closed.
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, option, value)


class ProxyConnection:
    """A proxied connection, which is connected or is waiting for the target.

    ``pipes`` has the two directions. The connection is over when both sockets are closed.
    """

    def __init__(self, proxy: "Proxy", number: int) -> None:
        self.number = number  # number of the accepted connection, from 0
        forth = Pipe(proxy.shapes[Way.FORTH], lambda: self._ended(self._near, self._far))
        back = Pipe(proxy.shapes[Way.BACK], lambda: self._ended(self._far, self._near))
        self.pipes = {Way.FORTH: forth, Way.BACK: back}
        self._near = _End(self, forth, back, proxy.inlet(self, Way.FORTH, forth))
        self._far = _End(self, back, forth, proxy.inlet(self, Way.BACK, back))
        self._proxy = proxy
        self._is_dialling = True
        self.stall(proxy.stalled)

    def shape(self, shape: Shape, ways: Iterable[Way] = BOTH) -> None:
        """Changes the delay and the rate limit."""
        for way in ways:
            self.pipes[way].shape(shape)

    def stall(self, ways: Iterable[Way] = BOTH) -> None:
        """Stops passing data and ends of data until resumed. The sockets stay open."""
        for way in ways:
            self.pipes[way].stall()

    def resume(self, ways: Iterable[Way] = BOTH) -> None:
        """Passes bytes again, held bytes first."""
        for way in ways:
            self.pipes[way].resume()

    def cut(self) -> None:
        """Resets both sockets, which loses data in transit."""
        self._near.reset()
        self._far.reset()

    def cut_after(self, count: int, way: Way) -> None:
        """Cuts the connection after *count* more bytes in one direction.

        The reader receives the end after the last of these bytes.
        """
        self.pipes[way].cut_after(count)

    @property
    def is_up(self) -> bool:
        """Whether both sockets are open and neither is closing."""
        ends = (self._near.transport, self._far.transport)
        return not any(transport is None or transport.is_closing() for transport in ends)

    async def dial(self, host: str, port: int) -> None:
        """Connects to the target, or resets the dialler's socket."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_MAX_S):
                await loop.create_connection(lambda: self._far, host, port)
        except BaseException as error:
            # If the socket was just connected, uvloop closes it without calling connection_lost().
            self._far.transport = None
            if not isinstance(error, OSError):  # includes TimeoutError
                raise
            self._proxy.news("target not reached", self)
            self._near.reset()

    def dialled(self, _: object) -> None:
        """Records that dialling ended, successfully or not."""
        self._is_dialling = False
        self._see_whether_over()

    def near_end(self) -> asyncio.Protocol:
        """Returns the protocol for the dialler's socket."""
        return self._near

    def made(self, end: asyncio.Protocol) -> None:
        """Records that *end* is connected. When both ends are connected, bytes flow."""
        if end is self._near:
            self._proxy.took(self)
        elif self._near.transport is None:  # The dialler has already closed its socket.
            self._far.reset()
        else:
            assert self._far.transport is not None
            self.pipes[Way.FORTH].write_to(self._far.transport)
            self.pipes[Way.BACK].write_to(self._near.transport)

    def heard(self, end: _End, data: bytes) -> None:
        """Passes data that *end* has read to the proxy's *ear*, if set, before forwarding."""
        if self._proxy.ear is not None:
            self._proxy.ear(self, Way.FORTH if end is self._near else Way.BACK, data)

    def lost(self, end: _End) -> None:
        """Records that *end* is closed."""
        # Otherwise the other end is closed after all data has passed.
        if end.outgoing.has_ended:
            (self._far if end is self._near else self._near).close()
        self._see_whether_over()

    def _ended(self, source: _End, sink: _End) -> None:
        """Ends the data to *sink*. Closes both sockets after a cut, or if both directions ended."""
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
    """A proxy that listens on one port and forwards each connection to one target.

    Calls on the proxy apply to all current and later connections. Calls on one of ``connections``
    apply only to that connection. Invariant: the proxy owns the port until it is closed.
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
        """Creates a proxy that forwards to *host*:*port* after it is started.

        Args:
            ear: A function that is called with all data that is read.
            listen: The address to listen on. Port 0 means any free port.
            inlet: A function that creates the stage in front of each direction of a new connection.
                By default, the pipe itself is the stage and passes all data.
            news: A function that is called for events of connections.
        """
        self.ear = ear
        self.news = news
        self.inlet = inlet
        self._listen = listen
        self.shapes = dict.fromkeys(Way, shape or Shape())
        self.stalled: set[Way] = set()
        self.taken = 0  # number of accepted connections
        self._target = (host, port)
        self._connections: dict[ProxyConnection, asyncio.Task[None]] = {}
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._place = socket.socket(family)  # reserves the port while not listening
        self._server: asyncio.Server | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> "Proxy":
        """Listens on the port, and returns the proxy.

        Raises:
            OSError: If the port is in use.
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
        """Raises OSError if the port is in use. SO_REUSEPORT would share it."""
        with socket.socket(self._place.family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(self._listen)
            probe.listen()

    async def close(self) -> None:
        """Cuts all connections, stops listening, and waits until all sockets are closed."""
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
        """The address to connect to, as host:port."""
        return str(Address(self._listen[0], self.port))

    @property
    def port(self) -> int:
        """The port to connect to."""
        port: int = self._place.getsockname()[1]
        return port

    @property
    def connections(self) -> list[ProxyConnection]:
        """The open connections, oldest first."""
        return [connection for connection in self._connections if connection.is_up]

    @property
    def is_accepting(self) -> bool:
        """Whether new connections are accepted."""
        return self._server is not None

    def shape(self, shape: Shape, ways: Iterable[Way] = BOTH) -> None:
        """Changes the delay and the rate limit of each connection."""
        ways = tuple(ways)
        self.shapes |= dict.fromkeys(ways, shape)
        for connection in self._connections:
            connection.shape(shape, ways)

    def stall(self, ways: Iterable[Way] = BOTH) -> None:
        """Stops passing data until resumed. Connections are accepted and stay open."""
        ways = tuple(ways)
        self.stalled.update(ways)
        for connection in self._connections:
            connection.stall(ways)

    def resume(self, ways: Iterable[Way] = BOTH) -> None:
        """Passes bytes again, including those of connections that were stalled separately."""
        ways = tuple(ways)
        self.stalled.difference_update(ways)
        for connection in self._connections:
            connection.resume(ways)

    def cut(self) -> None:
        """Cuts all connections. New connections are still accepted."""
        for connection in list(self._connections):
            connection.cut()

    def refuse(self) -> None:
        """Makes the system refuse new connections. Existing connections continue."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def accept(self) -> None:
        """Accepts new connections on the same port as before."""
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                self._take, self._listen[0], self.port, reuse_port=True
            )

    async def heal(self) -> None:
        """Removes delays, limits and stalls, and accepts connections. Cut ones stay cut."""
        self.shape(Shape())
        self.resume()
        await self.accept()

    def took(self, connection: ProxyConnection) -> None:
        """Dials the target for an accepted connection."""
        if self._place.fileno() < 0:  # The connection arrived while the proxy was closing.
            connection.cut()
            return
        self._idle.clear()
        self.news("opened", connection)
        dialling = asyncio.get_running_loop().create_task(connection.dial(*self._target))
        dialling.add_done_callback(connection.dialled)
        self._connections[connection] = dialling

    def over(self, connection: ProxyConnection) -> None:
        """Removes a closed connection."""
        if self._connections.pop(connection, None) is not None:
            self.news("closed", connection)
        if not self._connections:
            self._idle.set()

    def _take(self) -> asyncio.Protocol:
        connection = ProxyConnection(self, self.taken)
        self.taken += 1
        return connection.near_end()
