"""The client for asyncio: the core's verbs as coroutines, over one connection that is made again."""

import asyncio
import itertools
import os
import random
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

from qmgr_client import events as e
from qmgr_client.core import ClientCore
from qmgr_client.errors import ConnectFailed, ConnectionEnded, MessageDamaged
from qmgr_client.message import Message, Outgoing, PutResult, decode, encode
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError

REDIAL_MIN_S, REDIAL_MAX_S = 0.1, 10.0
WRITE_HIGH_BYTES, WRITE_LOW_BYTES = 1024 * 1024, 256 * 1024
CLOSE_MAX_S = 10.0


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _Wire(asyncio.Protocol):
    """The socket's side: bytes to the core, and back."""

    def __init__(self, owner: "QueueManager") -> None:
        self.owner = owner
        self.transport: asyncio.Transport | None = None
        self.writable = True
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)

    def data_received(self, data: bytes) -> None:
        self.owner._core.receive(data, _now_ms())
        self.owner._want_flush()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.owner._want_flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if not self.lost.done():
            self.lost.set_result(None)


class QueueManager:
    """A connection to a queue manager. Use it by ``async with``."""

    def __init__(
        self, address: str, *, name: str, producer_id: bytes | None, reconnect: bool,
        wait_ms: int, coalesce: bool,
    ) -> None:  # fmt: skip
        self._address = address
        self._reconnect = reconnect
        self._wait_ms = wait_ms
        self._core = ClientCore(name, producer_id or os.urandom(16), coalesce=coalesce)
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._consumers: dict[int, asyncio.Event] = {}
        self._ended: dict[int, RequestError | None] = {}
        self._wire: _Wire | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._flush_wanted = False
        self._ready = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._redial_after_s = 0.0

    async def __aenter__(self) -> "QueueManager":
        deadline = time.monotonic() + self._wait_ms / 1000
        while (why := await self._dial()) is not None:
            if time.monotonic() >= deadline:
                raise ConnectFailed(self._address, why, "is qmgrd running, and listening there?")
            await asyncio.sleep(0.1)
        self._tasks = [asyncio.create_task(self._keep()), asyncio.create_task(self._poll())]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for what is under way, for a while, and hang up."""
        deadline = time.monotonic() + CLOSE_MAX_S
        while self._core.failed is None and self._core.outstanding:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.005)
        self._core.end(ConnectionEnded(ErrorCode.CANCELLED, "the client was closed"))
        self._flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._wire is not None and self._wire.transport is not None:
            self._wire.transport.close()
            await self._wire.lost

    async def _dial(self) -> str | None:
        loop = asyncio.get_running_loop()
        wire = _Wire(self)
        try:
            if self._address.startswith("unix:"):
                await loop.create_unix_connection(lambda: wire, self._address[5:])
            else:
                host, _, port = self._address.rpartition(":")
                await loop.create_connection(lambda: wire, host.strip("[]"), int(port))
        except OSError as error:
            return str(error.strerror or error)
        self._wire = wire
        self._core.connected(_now_ms())
        self._flush()
        return None

    async def _keep(self) -> None:
        wait_s = REDIAL_MIN_S
        while self._core.failed is None:
            assert self._wire is not None
            await self._wire.lost
            self._ready.clear()
            self._core.connection_lost()
            if not self._reconnect:
                self._core.end(ConnectionEnded(ErrorCode.CANCELLED, "the connection was lost"))
            while self._core.failed is None:
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                if await self._dial() is None:
                    wait_s = REDIAL_MIN_S
                    break
                wait_s = min(wait_s * 2, 1.0)
            self._want_flush()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._core.poll(_now_ms())
            self._flush()

    def _want_flush(self) -> None:
        if not self._flush_wanted:
            self._flush_wanted = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_wanted = False
        self._happen()
        wire = self._wire
        now_ms = _now_ms()
        while wire is not None and wire.transport is not None and wire.writable:
            data = self._core.data_to_send(now_ms)
            if not data:
                break
            wire.transport.write(data)
        self._happen()
        if self._core.can_put or self._core.failed is not None:
            self._room.set()
        else:
            self._room.clear()

    def _happen(self) -> None:
        for event in self._core.events():
            kind = type(event)
            if kind is e.PutDone:
                self._resolve(event.ticket, event.result)
            elif kind is e.Settled:
                self._resolve(event.ticket, event.error)
            elif kind is e.RequestDone:
                self._resolve(event.ticket, event.value)
            elif kind is e.RequestFailed:
                self._resolve(event.ticket, event.error)
            elif kind is e.Delivered:
                self._wake(event.ticket)
            elif kind is e.ConsumerEnded:
                self._ended[event.ticket] = event.error
                self._wake(event.ticket)
            elif kind is e.ProducerLost:
                self._core.renew_producer(os.urandom(16))
            elif kind is e.Ready:
                self._ready.set()
            elif kind in (e.Disconnected, e.Failed):
                if self._wire is not None and self._wire.transport is not None:
                    self._wire.transport.close()

    def _resolve(self, ticket: int, result: Any) -> None:
        future = self._futures.pop(ticket, None)
        if future is None or future.done():
            return
        if isinstance(result, RequestError):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _wake(self, ticket: int) -> None:
        if ticket in self._consumers:
            self._consumers[ticket].set()

    def _future(self, ticket: int) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        self._futures[ticket] = future
        self._want_flush()
        return future

    async def submit(self, queue: str, body: bytes, **fields: Any) -> "asyncio.Future[PutResult]":
        """Take in a put once there is room; the future has its result when it is on disk."""
        outgoing = Outgoing(body, **fields)
        record = encode(outgoing)
        while not self._room.is_set():
            await self._room.wait()
        if not self._core.can_put:
            self._room.clear()
        return self._future(self._core.put(queue, record, outgoing.uid))

    async def put(self, queue: str, body: bytes, **fields: Any) -> PutResult:
        """Put a message; return when it is on disk."""
        return await (await self.submit(queue, body, **fields))

    async def put_many(
        self, queue: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Put messages in order; return the result of each."""
        futures = []
        for item in items:
            outgoing = item if isinstance(item, Outgoing) else Outgoing(item)
            futures.append(await self.submit(queue, **outgoing._asdict()))
        done = await asyncio.gather(*futures, return_exceptions=True)
        return cast("list[PutResult | RequestError]", done)

    async def ack_soon(self, message: Message) -> "asyncio.Future[None]":
        """Take in an ack; the future is done when it is on disk."""
        return self._future(self._core.settle(message, m.ACK))

    async def ack(self, message: Message) -> None:
        """Acknowledge a message; return when that is on disk."""
        await (await self.ack_soon(message))

    async def ack_many(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages; return when all of that is on disk."""
        await asyncio.gather(*[await self.ack_soon(message) for message in messages])

    async def release(self, message: Message) -> None:
        """Give a message back, as failed."""
        await self._future(self._core.settle(message, m.RELEASE))

    async def consume(
        self, queue: str, prefetch: int = 256, lease_ms: int = 0
    ) -> AsyncIterator[Message]:
        """Yield messages as they come, each under a lease."""
        ticket = self._core.consume(queue, prefetch, lease_ms=lease_ms)
        wake = self._consumers[ticket] = asyncio.Event()
        self._want_flush()
        try:
            while True:
                message = self._core.next_message(ticket, _now_ms())
                if message is not None:
                    if message.damage:
                        raise MessageDamaged(message)
                    yield message
                    continue
                if ticket in self._ended:
                    error = self._ended.pop(ticket)
                    if error is not None:
                        raise error
                    return
                wake.clear()
                self._want_flush()
                await wake.wait()
        finally:
            del self._consumers[ticket]
            if self._core.failed is None:
                self._core.cancel(ticket)
                self._want_flush()

    async def request(self, kind: type[Any], *fields: Any) -> Any:
        """Make a request and return its value."""
        return await self._future(self._core.request(_now_ms(), kind, *fields))

    async def get_many(
        self, queue: str, messages_max: int, wait_ms: int = 0, lease_ms: int = 0
    ) -> list[Message]:
        """Lease up to so many messages, waiting for the first."""
        found = await self.request(m.Get, queue, messages_max, wait_ms, lease_ms)
        return list(found or [])

    async def get(self, queue: str, wait_ms: int = 0, lease_ms: int = 0) -> Message | None:
        """Lease the next message, or return None when the wait is over."""
        found = await self.get_many(queue, 1, wait_ms, lease_ms)
        return found[0] if found else None

    async def browse(self, queue: str, limit: int = 100) -> AsyncIterator[Message]:
        """Yield messages without leasing them."""
        after = None
        while limit > 0:
            page = await self.request(m.Browse, queue, after, min(limit, 1000))
            for item in page["items"]:
                yield decode(item, queue, 0)
            limit -= len(page["items"])
            after = page["next"]
            if after is None:
                return

    async def queue_create(self, queue: str, **attributes: Any) -> dict[str, Any]:
        """Define a queue."""
        return dict(await self.request(m.QueueCreate, queue, attributes))

    async def queue_delete(self, queue: str, purge: bool = False) -> dict[str, Any]:
        """Delete a queue."""
        return dict(await self.request(m.QueueDelete, queue, purge))

    async def queue_list(self) -> list[dict[str, Any]]:
        """Return the rows of all queues."""
        rows: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = await self.request(m.QueueList, after)
            rows += page["queues"]
            after = page["next"]
        return rows

    async def queue_show(self, queue: str) -> dict[str, Any]:
        """Return the row of a queue."""
        return dict(await self.request(m.QueueShow, queue))

    async def queue_purge(self, queue: str) -> dict[str, Any]:
        """Remove what is on a queue and not leased."""
        return dict(await self.request(m.QueuePurge, queue))

    async def link_create(
        self, link: str, addresses: list[str], stopped: bool = False
    ) -> dict[str, Any]:
        """Define a link."""
        attributes = {"addresses": list(addresses), "stopped": stopped}
        return dict(await self.request(m.LinkCreate, link, attributes))

    async def link_delete(self, link: str, purge: bool = False) -> dict[str, Any]:
        """Delete a link."""
        return dict(await self.request(m.LinkDelete, link, purge))

    async def link_list(self) -> dict[str, Any]:
        """Return all links."""
        return dict(await self.request(m.LinkList))

    async def link_show(self, link: str) -> dict[str, Any]:
        """Return a link."""
        return dict(await self.request(m.LinkShow, link))

    async def link_start(self, link: str) -> dict[str, Any]:
        """Start a link."""
        return dict(await self.request(m.LinkStart, link))

    async def link_stop(self, link: str) -> dict[str, Any]:
        """Stop a link."""
        return dict(await self.request(m.LinkStop, link))

    async def status(self) -> dict[str, Any]:
        """Return how the queue manager is."""
        return dict(await self.request(m.Status))

    async def snapshot(self, directory: str) -> dict[str, Any]:
        """Write a snapshot."""
        return dict(await self.request(m.Snapshot, directory))


_names = itertools.count(1)


def connect(
    address: str, *, name: str = "", producer_id: bytes | None = None, reconnect: bool = True,
    wait_ms: int = 0, coalesce: bool = True,
) -> QueueManager:  # fmt: skip
    """Return a queue manager to be entered by ``async with``."""
    return QueueManager(
        address, name=name or f"client-{next(_names)}", producer_id=producer_id,
        reconnect=reconnect, wait_ms=wait_ms, coalesce=coalesce,
    )  # fmt: skip
