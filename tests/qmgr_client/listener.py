"""A scripted queue manager on a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast
from unittest.mock import patch

from qmgr_client.aio import QueueManager
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.states import Side
from tests.qmgr_client.keeper import Keeper

Kind = TypeVar("Kind")
CLOSE_MAX_MS = 100


class Talk:
    """One connection after its welcome was sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._far = Connection(Side.LISTENER)
        self._heard: list[Any] = []

    async def hear(self, kind: type[Kind]) -> Kind:
        """Returns the next message of *kind*. Earlier messages are discarded."""
        while True:
            while self._heard:
                message = self._heard.pop(0)
                if type(message) is kind:
                    return message
            data = await self._reader.read(1 << 16)
            assert data, f"the client left before a {kind.__name__}"
            self._heard += [message for message, _ in self._far.receive(data, 0)]

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Yields the messages of the client until it disconnects."""
        while True:
            while self._heard:
                yield self._heard.pop(0)
            data = await self._reader.read(1 << 16)
            if not data:
                return
            self._heard += [message for message, _ in self._far.receive(data, 0)]

    def say(self, *messages: Any) -> None:
        """Sends *messages*."""
        for message in messages:
            self._writer.write(self._far.send(message))

    def close(self) -> None:
        """Cuts the connection."""
        cast(asyncio.Transport, self._writer.transport).abort()

    async def left(self) -> None:
        """Returns when the client has closed its end."""
        while await self._reader.read(1 << 16):
            pass


class Listener:
    """Accepts connections. Invariant: each connection is in ``talks`` until a test takes it."""

    def __init__(self, directory: Path, welcome: dict[str, Any]) -> None:
        self.address = f"unix:{directory}/listener.sock"
        self._talks: asyncio.Queue[Talk] = asyncio.Queue()
        self._welcome: dict[str, Any] = {
            "version": 1,
            "name": "QM1",
            "store_id": b"s" * 16,
            "boot": 1,
        } | welcome
        self._open: list[Talk] = []
        self._heard: asyncio.Queue[Any] = asyncio.Queue()  # messages that a keeper received
        self.gate = asyncio.Event()  # event for which a keeper's answers wait
        self.gate.set()
        # The kind of message at which to cut, and whether that message is handled before the cut.
        self.cut_at: tuple[type[m.Received], bool] | None = None

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accepts a connection."""
        talk = Talk(reader, writer)
        self._open.append(talk)
        self._talks.put_nowait(talk)

    async def greet(self, **welcome: Any) -> Talk:
        """Welcomes the next connection and returns it."""
        talk = await self.next()
        await talk.hear(m.Hello)
        talk.say(m.Welcome(**(self._welcome | welcome)))
        return talk

    async def next(self) -> Talk:
        """Returns the next connection before its welcome."""
        return await self._talks.get()

    async def heard(self, kind: type[Kind]) -> Kind:
        """Returns the next message of *kind* that a keeper received."""
        while type(message := await self._heard.get()) is not kind:
            pass
        return message

    async def keep(self, keeper: Keeper) -> None:
        """Lets *keeper* answer all connections, one after another."""
        while True:
            talk = await self.greet()
            with suppress(ConnectionError):
                async for message in talk:
                    if self.cut_at is not None and type(message) is self.cut_at[0]:
                        if self.cut_at[1]:
                            keeper.answer(message)
                        self.cut_at = None
                        talk.close()
                        break
                    self._heard.put_nowait(message)
                    await self.gate.wait()
                    talk.say(*keeper.answer(message))
            keeper.cut()

    def close(self) -> None:
        """Cuts all connections."""
        for talk in self._open:
            talk.close()


@asynccontextmanager
async def listening(directory: Path, **welcome: Any) -> AsyncIterator[Listener]:
    """Listens on a unix socket in *directory*.

    The listener sends no answers except those that a test scripts. Clients therefore wait only
    briefly when they close.
    """
    listener = Listener(directory, welcome)
    accept: Callable[..., Any] = listener.accept
    server = await asyncio.start_unix_server(accept, f"{directory}/listener.sock")
    try:
        with patch.object(QueueManager.close, "__defaults__", (CLOSE_MAX_MS,)):
            yield listener
    finally:
        listener.close()
        server.close()


@asynccontextmanager
async def kept(listener: Listener, keeper: Keeper) -> AsyncIterator[None]:
    """Lets *keeper* answer all connections to *listener*."""
    task = asyncio.create_task(listener.keep(keeper))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
