"""Tests of a proxy between sockets of this process, with both event loops."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from qmgr_proxy.pipe import Shape
from qmgr_proxy.proxy import SOCKET_BYTES, Proxy, ProxyConnection, Way

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LARGE = 32 * 1024 * 1024


class Target:
    """The server behind the proxy. ``came`` has the connections that the server accepted."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[Streams] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        await self.came.put((reader, writer))

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()


class Place:
    """A proxy with its target and its diallers."""

    def __init__(self, proxy: Proxy, target: Target) -> None:
        self.proxy = proxy
        self._target = target
        self._writers: list[asyncio.StreamWriter] = []

    async def dial(self) -> tuple[Streams, Streams, ProxyConnection]:
        """Returns the dialler's streams, the target's streams, and the proxied connection."""
        near = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        self._writers.append(near[1])
        far = await self._target.came.get()
        return near, far, self.proxy.connections[-1]

    def leave(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def place(shape: Shape | None = None) -> AsyncIterator[Place]:
    target = Target()
    async with target.listening() as port, Proxy("127.0.0.1", port, shape) as proxy:
        found = Place(proxy, target)
        try:
            yield found
        finally:
            found.leave()


async def until(is_so: Callable[[], bool]) -> None:
    """Waits until *is_so* returns true."""
    while not is_so():
        await asyncio.sleep(0.001)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Returns the data up to the end or a reset."""
    found = b""
    with suppress(ConnectionResetError):
        while data := await reader.read(1 << 16):
            found += data
    return found


async def poured(writer: asyncio.StreamWriter, size: int) -> None:
    for _ in range(size // (1 << 16)):
        writer.write(bytes(1 << 16))
        await writer.drain()
    writer.write_eof()


async def test_bytes_and_ends_pass_both_ways() -> None:
    async with place() as it:
        (reader, writer), (far_reader, far_writer), connection = await it.dial()
        writer.write(b"question")
        writer.write_eof()
        assert await far_reader.read() == b"question"
        far_writer.write(b"answer")  # The other direction is still open.
        far_writer.close()
        assert await reader.read() == b"answer"
        await until(lambda: not it.proxy.connections)
        assert connection.pipes[Way.FORTH].passed_bytes == 8
        assert connection.pipes[Way.BACK].passed_bytes == 6


async def test_much_passes_whole_and_fast() -> None:
    async with place() as it:
        (_, writer), (far_reader, _), _ = await it.dial()
        pouring = asyncio.create_task(poured(writer, LARGE))
        size = 0
        while data := await far_reader.read(1 << 18):
            size += len(data)
        await pouring
        assert size == LARGE


async def test_delay_costs_time_and_no_throughput() -> None:
    loop = asyncio.get_running_loop()
    async with place(Shape(delay_ms=50)) as it:
        (reader, writer), (far_reader, far_writer), _ = await it.dial()
        began = loop.time()
        writer.write(b"?")
        assert await far_reader.read(1) == b"?"
        far_writer.write(b"!")
        assert await reader.read(1) == b"!"
        assert loop.time() - began > 0.08  # In total, the delays are 100 ms, but timers are coarse.
        began = loop.time()
        pouring = asyncio.create_task(poured(writer, LARGE))
        assert len(await far_reader.read()) == LARGE
        await pouring
        assert (
            loop.time() - began < 10
        )  # If the delays of chunks were added, this would take more than 25 s.


async def test_rate_is_each_connections_own_and_each_ways() -> None:
    loop = asyncio.get_running_loop()
    async with place() as it:
        first, second = await it.dial(), await it.dial()
        it.proxy.shape(Shape(bytes_per_s=2_000_000), [Way.FORTH])
        second[2].shape(Shape())
        began = loop.time()
        for (_, writer), (_, far_writer), _ in (first, second):
            writer.write(bytes(1_000_000))
            writer.write_eof()
            far_writer.write(bytes(1_000_000))
            far_writer.write_eof()
        fast = [second[1][0], second[0][0], first[0][0]]
        assert [len(data) for data in await asyncio.gather(*map(rest, fast))] == 3 * [1_000_000]
        assert first[2].pipes[Way.FORTH].passed_bytes < 1_000_000
        assert len(await first[1][0].read()) == 1_000_000
        assert loop.time() - began > 0.35  # half a second, minus the time of the first burst


async def test_stalled_connection_stays_open_and_continues() -> None:
    async with place() as it:
        stalled, other = await it.dial(), await it.dial()
        stalled[2].stall([Way.BACK])
        for (reader, writer), (far_reader, far_writer), connection in (stalled, other):
            writer.write(b"?")
            assert await far_reader.read(1) == b"?"  # Only the other direction is stalled.
            far_writer.write(b"!")
            if connection is other[2]:
                assert await reader.read(1) == b"!"
        assert stalled[2].pipes[Way.BACK].passed_bytes == 0
        assert stalled[2].is_up
        stalled[2].resume()
        assert await stalled[0][0].read(1) == b"!"


async def test_stalled_connection_does_not_tell_of_an_end() -> None:
    async with place() as it:
        (_, writer), (far_reader, far_writer), connection = await it.dial()
        connection.stall()
        writer.write(b"last words")
        writer.transport.abort()
        _, _, other = await it.dial()
        other.cut()
        await until(lambda: not other.is_up)
        assert connection.pipes[Way.FORTH].passed_bytes == 0
        it.proxy.resume()
        assert await rest(far_reader) == b"last words"
        far_writer.close()
        await until(lambda: not it.proxy.connections)


async def test_stall_of_the_proxy_is_for_new_connections_too() -> None:
    async with place() as it:
        it.proxy.stall()
        (_, writer), (far_reader, _), connection = await it.dial()
        writer.write(b"waits")
        await it.dial()
        assert connection.pipes[Way.FORTH].passed_bytes == 0
        await it.proxy.heal()
        assert await far_reader.read(5) == b"waits"


async def test_little_is_read_of_what_cannot_be_passed() -> None:
    async with place() as it:
        (_, writer), (far_reader, far_writer), connection = await it.dial()
        far_writer.transport.pause_reading()  # type: ignore[attr-defined]
        pouring = asyncio.create_task(poured(writer, LARGE))
        pipe = connection.pipes[Way.FORTH]
        await until(lambda: not pipe.is_reading)
        assert pipe.held_bytes <= SOCKET_BYTES
        assert pipe.passed_bytes + pipe.held_bytes < LARGE // 2
        assert not pouring.done()
        far_writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await far_reader.read()) == LARGE
        await pouring


async def test_cut_ends_both_sides() -> None:
    async with place() as it:
        (reader, writer), (far_reader, _), connection = await it.dial()
        writer.write(b"passed")
        assert await far_reader.read(6) == b"passed"
        connection.cut()
        assert await rest(reader) == await rest(far_reader) == b""
        await until(lambda: not it.proxy.connections)


@pytest.mark.parametrize("count", [0, 1, 70_000])
async def test_cut_comes_behind_the_last_byte_that_passes(count: int) -> None:
    async with place() as it:
        (reader, writer), (far_reader, _), connection = await it.dial()
        connection.cut_after(count, Way.FORTH)
        writer.write(bytes(100_000))
        assert await rest(far_reader) == bytes(count)
        assert await rest(reader) == b""
        await until(lambda: not it.proxy.connections)


async def test_all_are_cut_and_new_ones_are_taken() -> None:
    async with place() as it:
        ends = [(await it.dial())[0][0] for _ in range(3)]
        it.proxy.cut()
        assert await asyncio.gather(*map(rest, ends)) == 3 * [b""]
        (_, writer), (far_reader, _), connection = await it.dial()
        writer.write(b"on")
        assert await far_reader.read(2) == b"on"
        assert connection.number == 3
        assert it.proxy.taken == 4


async def test_refused_connections_are_taken_again_on_the_same_port() -> None:
    async with place() as it:
        port = it.proxy.port
        (_, writer), (far_reader, _), _ = await it.dial()
        it.proxy.refuse()
        it.proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"on")  # The existing connection continues.
        assert await far_reader.read(2) == b"on"
        await it.proxy.accept()
        await it.dial()
        assert it.proxy.port == port
        assert it.proxy.address == f"127.0.0.1:{port}"


async def test_who_dials_is_reset_where_the_target_is_unavailable() -> None:
    with socket.socket() as silent:  # The socket is bound, but does not listen.
        silent.bind(("127.0.0.1", 0))
        async with Proxy("127.0.0.1", silent.getsockname()[1]) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            assert await rest(reader) == b""
            writer.transport.abort()
            assert proxy.connections == []


@pytest.mark.parametrize("is_stalled", [False, True])
async def test_closed_proxy_leaves_no_connection(is_stalled: bool) -> None:
    async with place() as it:
        (reader, writer), (far_reader, _), _ = await it.dial()
        if is_stalled:
            it.proxy.stall()
        writer.write(bytes(10))
        dialling: Awaitable[Streams] = asyncio.open_connection("127.0.0.1", it.proxy.port)
        late, late_writer = await dialling
        await it.proxy.close()
        assert it.proxy.connections == []
        for end in (reader, far_reader, late):
            await rest(end)
        late_writer.transport.abort()


@pytest.mark.parametrize("steps", range(5))
async def test_proxy_closes_while_it_dials(steps: int) -> None:
    """With uvloop, a connection was never over if its dial was cancelled as it succeeded."""
    with socket.create_server(("127.0.0.1", 0)) as target:
        proxy = await Proxy(*target.getsockname()).start()
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await proxy.close()
        writer.transport.abort()
