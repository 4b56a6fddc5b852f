"""A member of a queue manager with standbys: a port that leads to a daemon while it is active."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.states import Side


class Member:
    """A listener that connects its dialler to the daemon at a unix socket, or answers NOT_ACTIVE.

    The daemon at the socket represents the store that all members of a queue manager share.
    """

    def __init__(self, socket: str) -> None:
        self.is_active = False
        self.address = ""
        self._path = socket.removeprefix("unix:")
        self._pipes: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listens as a standby."""
        accept: Callable[..., Any] = self._accept
        self._server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        try:
            await (self._pipe(reader, writer) if self.is_active else _refuse(reader, writer))
        except (OSError, asyncio.CancelledError):
            pass  # The connection was cut.
        finally:
            writer.close()
            self._pipes.discard(task)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(self._path)
        back = asyncio.create_task(_copy(far_reader, writer))
        try:
            await _copy(reader, far_writer)
        finally:
            far_writer.transport.abort()
            back.cancel()
            await asyncio.wait([back])

    async def step_down(self) -> None:
        """Cuts all connections, and answers NOT_ACTIVE from now on."""
        self.is_active = False
        for task in tuple(self._pipes):
            task.cancel()
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Listens no more, and cuts all connections."""
        if self._server is not None:
            self._server.close()
        await self.step_down()


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    far = Connection(Side.LISTENER)
    far.receive(await reader.read(1 << 16), 0)
    writer.write(far.send(m.Goaway(ErrorCode.NOT_ACTIVE, "another is active", 500)))
    await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def members(socket: str, count: int = 2) -> AsyncIterator[list[Member]]:
    """Starts *count* members of the daemon at *socket*. The first one is active."""
    found = [Member(socket) for _ in range(count)]
    for member in found:
        await member.start()
    found[0].is_active = True
    try:
        yield found
    finally:
        for member in found:
            await member.stop()


async def take_over(old: Member, new: Member) -> None:
    """Makes *new* the active member instead of *old*."""
    await old.step_down()
    new.is_active = True
