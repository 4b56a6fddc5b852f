"""A client core on the loop: its connection, and those who wait for its results.

    verbs ──▶ core ──flush──▶ Wire ──▶ socket
    futures ◀──dispatch── core ◀────── Wire

Whatever is asked for in one turn of the loop is sent at its end, together.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from qmgr_client.aio.timer import Timer
from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import Message, PutResult
from qmgr_client.sansio import events as e
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.settles import PLAIN, Terms
from qmgr_client.sansio.units import Unit
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid

# uvloop's own low-water mark is 16 bytes, which makes for stop and go.
WRITE_HIGH_BYTES = 1024 * 1024
WRITE_LOW_BYTES = 256 * 1024
CLOSE_MAX_MS = 1_000  # for the last bytes of a connection that is closed


class Wire(asyncio.Protocol):
    """One connection on the loop. What comes late, from a connection given up, is dropped."""

    def __init__(self, session: "Session") -> None:
        self.transport: asyncio.Transport | None = None
        self.is_paused = False
        self._session = session

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        self._session.connected(self)

    def data_received(self, data: bytes) -> None:
        """Hand over what the queue manager sent."""
        self._session.received(self, data)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell that it is over."""
        self.transport = None
        self._session.lost(self, error)

    def pause_writing(self) -> None:
        """Hold back: the socket is full. What waits meanwhile is sent in fewer, larger frames."""
        self.is_paused = True

    def resume_writing(self) -> None:
        """Go on."""
        self.is_paused = False
        self._session.wake()


class Stream:
    """What a consumer's iterator waits for."""

    __slots__ = ("changed", "error", "has_ended")

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.has_ended = False
        self.error: RequestError | None = None


class Unopened:
    """What a client has for a session before it is opened."""

    def __getattr__(self, name: str) -> Any:
        text = "the client is not open: use it in an async with, or await open()"
        raise ConnectionEnded(ErrorCode.CANCELLED, text)


class Session:
    """A client core, its connection, and those who wait for its results.

    Invariant: each ticket of a put, settle or request that nobody has given up is in ``_futures``,
    each open consumer in ``_streams``; a flush is scheduled at most once.
    """

    def __init__(self, core: ClientCore) -> None:
        self.core = core
        self.greeted: asyncio.Future[str] | None = None  # of this dial: "" or why not
        self.over: asyncio.Future[None] | None = None  # of this connection
        self.why = ""  # it was lost
        self.retry_after_ms = 0  # as the queue manager says
        self.processing: set[tuple[int, bytes]] = set()  # lease keys that a block is to settle
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, Stream] = {}
        self._room: deque[asyncio.Future[None]] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._is_closing = False
        self._flush_scheduled = False
        self.timer = Timer(self)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            e.PutDone: self._on_put_done,
            e.Settled: self._on_settled,
            e.RequestDone: self._on_done,
            e.RequestFailed: self._on_failed,
            e.Delivered: self._on_delivered,
            e.ConsumerEnded: self._on_ended,
            e.ProducerLost: self._on_producer_lost,
            e.Ready: self._on_ready,
            e.Disconnected: self._on_disconnected,
            e.Failed: self._on_end,
        }

    def now_ms(self) -> int:
        """Return the loop's clock."""
        return int(self._loop.time() * 1000)

    # For the verbs

    def put(self, queue: str, record: bytes, uid: Uid | None) -> "asyncio.Future[PutResult]":
        """Hand a put to the core; the future has its result."""
        self._check_open()
        return self.result(self.core.put(queue, record, uid))

    def settle(
        self, message: Message, action: int, terms: Terms = PLAIN, unit: Unit | None = None
    ) -> "asyncio.Future[None]":
        """Hand a settle to the core; the future has its result."""
        self._check_open()
        ticket = self.core.settle(message, action, terms, unit)
        if self.processing:
            self.processing.discard(message.lease_key)
        return self.result(ticket)

    def renew(self, message: Message, lease_ms: int) -> "asyncio.Future[None]":
        """Hand a renewal to the core; the future has its result."""
        self._check_open()
        return self.result(self.core.renew(message, lease_ms, self.now_ms()))

    def commit(self, unit: Unit) -> "asyncio.Future[PutResult]":
        """Hand the commit of a unit of work to the core; the future has its result."""
        self._check_open()
        return self.result(self.core.commit(unit))

    def request(
        self, kind: type[Any], *fields: Any, unit: Unit | None = None
    ) -> tuple[int, "asyncio.Future[Any]"]:
        """Hand a request to the core; return its ticket and the future of its result."""
        ticket = self.core.request(self.now_ms(), kind, *fields, unit=unit)
        return ticket, self.result(ticket)

    def _check_open(self) -> None:
        if self._is_closing:
            raise ConnectionEnded(ErrorCode.CANCELLED, "the client is being closed")

    def abandon(self, ticket: int) -> None:
        """Give up a request."""
        if self._futures.pop(ticket, None) is not None:
            self.core.abandon(ticket)
            self.wake()

    def result(self, ticket: int) -> "asyncio.Future[Any]":
        """Return the future of what the core has given *ticket* for."""
        future = self._futures[ticket] = self._loop.create_future()
        if not self._flush_scheduled:
            self.wake()
        return future

    async def room(self) -> None:
        """Return when the core may take in another put, or is done."""
        while not self.core.can_put and self.core.failed is None:
            future: asyncio.Future[None] = self._loop.create_future()
            self._room.append(future)
            await future

    def consume(
        self,
        queue: str,
        prefetch: int,
        bytes_max: int,
        lease_ms: int,
        selection: tuple[str, bytes, bytes],
        groups: tuple[int, bool],
        *,
        auto_renew: bool = False,
    ) -> tuple[int, Stream]:
        """Open a consumer; return its ticket, and what tells its news."""
        ticket = self.core.consume(
            queue, prefetch, bytes_max, lease_ms, selection, groups, auto_renew=auto_renew
        )
        stream = self._streams[ticket] = Stream()
        self.wake()
        return ticket, stream

    def next_message(self, ticket: int) -> Message | None:
        """Return the next message that a consumer has, if one has come."""
        if self._is_closing:
            return None  # It could not be settled any more.
        message = self.core.next_message(ticket, self.now_ms())
        if self.core.has_credit:
            self.wake()
        self.timer.update()
        return message

    def start_next(self, ticket: int) -> bool:
        """Start the lease of a consumer's next message if it is time; return whether it was sent.

        A turn of the loop later it has left, also with uvloop.
        """
        if self._is_closing or not self.core.start_next(ticket, self.now_ms()):
            return False
        self._write()
        self.timer.update()
        return True

    def cancel(self, ticket: int) -> None:
        """End a consumer."""
        self.core.cancel(ticket)
        self.wake()

    def forget(self, ticket: int) -> None:
        """End a consumer whose news nobody wants any more."""
        if self._streams.pop(ticket, None) is not None:
            self.cancel(ticket)

    def forget_soon(self, ticket: int) -> None:
        """As :meth:`forget`, from any thread, and at any time."""
        with suppress(RuntimeError):  # The loop is closed, and the connection with it.
            self._loop.call_soon_threadsafe(self.forget, ticket)

    async def settled_down(self) -> None:
        """Return when no put and no settle waits for its result; none is taken from now on."""
        self._is_closing = True
        if self.core.outstanding:
            self._idle = self._loop.create_future()
            await self._idle

    # Between core and socket

    def wake(self) -> None:
        """Have what waits sent at the end of this turn of the loop."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        self._write()
        self._dispatch()
        self._let_in()

    def _write(self) -> None:
        wire = self._wire
        if wire is None or wire.transport is None or wire.transport.is_closing():
            return
        while not wire.is_paused and (data := self.core.data_to_send(self.now_ms())):
            wire.transport.write(data)

    def _let_in(self) -> None:
        """Wake those who wait for room, about as many as there is room for."""
        if self._room and self.core.can_put:
            for _ in range(min(len(self._room), self.core.welcome.put_window_messages)):
                future = self._room.popleft()
                if not future.done():
                    future.set_result(None)

    def connected(self, wire: Wire) -> None:
        """Begin on a new connection."""
        self._wire = wire
        self.over = self._loop.create_future()
        if self.core.failed is None:
            self.core.connected(self.now_ms())
            self._write()

    def received(self, wire: Wire, data: bytes) -> None:
        """Take what the queue manager sent."""
        if wire is self._wire:
            self.core.receive(data, self.now_ms())
            self.timer.update()
            self._dispatch()
            self.wake()

    def lost(self, wire: Wire, error: Exception | None) -> None:
        """Take note that the connection is gone."""
        if wire is not self._wire:
            return
        self._wire = None
        self.why = self.why or (str(error) if error else "the queue manager closed it")
        self.core.connection_lost()
        self._dispatch()
        self._greet(self.why)
        if self.over is not None and not self.over.done():
            self.over.set_result(None)

    async def closed(self) -> None:
        """Return when the connection is closed: in good order, if that does not take long."""
        if self._wire is not None and self.over is not None:
            await asyncio.wait([self.over], timeout=CLOSE_MAX_MS / 1000)
        self.drop()

    def drop(self) -> None:
        """Cut the connection, whatever is under way on it."""
        wire = self._wire
        if wire is not None and wire.transport is not None:
            wire.transport.abort()
            self.lost(wire, None)

    # What the core tells

    def _dispatch(self) -> None:
        for event in self.core.events():
            self._handlers[type(event)](event)
        if self._idle is not None and not self.core.outstanding and not self._idle.done():
            self._idle.set_result(None)

    def _on_put_done(self, event: e.PutDone) -> None:
        future = self._futures.pop(event.ticket, None)
        if future is None or future.done():
            return
        if isinstance(event.result, RequestError):
            future.set_exception(event.result)
        else:
            future.set_result(event.result)

    def _on_settled(self, event: e.Settled) -> None:
        future = self._futures.pop(event.ticket, None)
        if future is None or future.done():
            return
        if event.error is None:
            future.set_result(None)
        else:
            future.set_exception(event.error)
            # Who acks and does not look takes it that the message may come again.
            future.exception()

    def _on_done(self, event: e.RequestDone) -> None:
        future = self._futures.pop(event.ticket, None)
        if future is not None and not future.done():
            future.set_result(event.value)

    def _on_failed(self, event: e.RequestFailed) -> None:
        future = self._futures.pop(event.ticket, None)
        if future is not None and not future.done():
            future.set_exception(event.error)

    def _on_delivered(self, event: e.Delivered) -> None:
        stream = self._streams.get(event.ticket)
        if stream is not None:
            stream.changed.set()

    def _on_ended(self, event: e.ConsumerEnded) -> None:
        stream = self._streams.get(event.ticket)
        if stream is not None:
            # Who closes the client has its consumers end as if they were cancelled.
            is_closed = self._is_closing and event.error is self.core.failed
            stream.has_ended, stream.error = True, None if is_closed else event.error
            stream.changed.set()

    def _on_producer_lost(self, event: e.ProducerLost) -> None:
        self.core.renew_producer(os.urandom(16))
        self.wake()

    def _on_ready(self, event: e.Ready) -> None:
        self._greet("")
        self.timer.update()  # The welcome defines how often heartbeats are due.

    def _on_disconnected(self, event: e.Disconnected) -> None:
        self.why, self.retry_after_ms = event.text, event.retry_after_ms
        self.drop()  # The queue manager has closed its end, or is not there to fetch a goodbye.

    def _on_end(self, event: e.Failed) -> None:
        self.why = event.error.text
        self._close_wire()
        self._greet(event.error.text)
        for future in self._room:
            if not future.done():
                future.set_result(None)
        self._room.clear()

    def _greet(self, why_not: str) -> None:
        if self.greeted is not None and not self.greeted.done():
            self.greeted.set_result(why_not)

    def _close_wire(self) -> None:
        self._write()  # A goodbye of ours may wait.
        if self._wire is not None and self._wire.transport is not None:
            self._wire.transport.close()

    def tick(self) -> None:
        """Lets the core do what is due: heartbeats, renewals, and the ends of leases."""
        self.core.tick(self.now_ms())
        self._dispatch()
        self.wake()

    def end(self, code: int, text: str) -> None:
        """End the client: all that is open fails."""
        self.core.end(ConnectionEnded(code, text))
        self._dispatch()
