"""A client of a daemon on the event loop, with direct access to the protocol."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.states import Side

_open: WeakSet["Wire"] = WeakSet()  # wires that no test has closed


def abort_all() -> None:
    """Closes all open wires, so that the event loop can close.

    uvloop waits for open transports, and the traceback of a failed test keeps its wires alive.
    """
    for wire in list(_open):
        if wire.loop is asyncio.get_running_loop():
            wire.writer.transport.abort()


class Wire:
    """One connection. ``received`` has the messages that no call has returned yet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.received: list[Any] = []
        self.protocol = Connection(Side.DIALLER)
        self._last_id = 0
        self.loop = asyncio.get_running_loop()
        _open.add(self)

    @classmethod
    async def dial(cls, address: str, source: str = "") -> "Wire":
        """Connects without sending anything. *source* is the local address, if it matters."""
        if address.startswith("unix:"):
            streams = await asyncio.open_unix_connection(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            streams = await asyncio.open_connection(
                host, int(port), local_addr=(source, 0) if source else None
            )
        return cls(*streams)

    @classmethod
    async def connect(cls, address: str, name: str = "app", source: str = "") -> "Wire":
        """Connects and does the handshake."""
        wire = await cls.dial(address, source)
        wire.send(m.Hello(m.MAGIC, 1, 1, "client", name))
        await wire.next(m.Welcome)
        return wire

    def send(self, *messages: Any) -> None:
        self.writer.write(b"".join(map(self.protocol.send, messages)))

    async def next(self, kind: type[Any]) -> Any:
        """Returns the next message of *kind*. Earlier messages of other kinds stay in ``received``.

        Raises: EOFError: The connection ended first.
        """
        while True:
            for message in self.received:
                if type(message) is kind:
                    self.received.remove(message)
                    return message
            data = await self.reader.read(1 << 16)
            if not data:
                raise EOFError(f"no {kind.__name__}; received {self.received}")
            self.received += [message for message, _ in self.protocol.receive(data, 0)]

    async def ask(self, kind: Callable[..., Any], *fields: Any) -> Any:
        """Returns the value of the answer to a request.

        Raises: RequestError: The answer is an error.
        """
        self._last_id += 1
        self.send(kind(self._last_id, *fields))
        while True:
            for message in self.received:
                if type(message) in (m.Ok, m.Error) and message.request_id == self._last_id:
                    self.received.remove(message)
                    if type(message) is m.Ok:
                        return message.value
                    raise RequestError(ErrorCode(message.code), message.text)
            data = await self.reader.read(1 << 16)
            if not data:
                raise EOFError(f"no answer; received {self.received}")
            self.received += [message for message, _ in self.protocol.receive(data, 0)]

    async def put(self, producer_id: bytes, queue: str, *batch: bytes) -> m.Committed:
        """Puts records with the next ids of a producer; returns the answer."""
        stream, commit_id = (await self.ask(m.ProducerOpen, producer_id))[:2]
        self.send(m.Put(stream, commit_id + 1, 0, queue, list(batch)))
        refused: list[Any] = []
        stamped: list[Any] = []
        while True:  # The parts of a long put may have an answer each.
            committed: m.Committed = await self.next(m.Committed)
            refused, stamped = refused + committed.refused, stamped + committed.stamped
            if committed.commit_id >= commit_id + len(batch):
                return committed._replace(refused=refused, stamped=stamped)

    async def bodies(self, queue: str) -> list[bytes]:
        """Returns the bodies of the messages on a queue."""
        value = await self.ask(m.Browse, queue)
        heads = m.DELIVERY_BYTES + 24
        return [item[heads : -8 - item[m.DELIVERY_BYTES + 4]] for item in value["items"]]

    async def close(self) -> None:
        _open.discard(self)
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()
