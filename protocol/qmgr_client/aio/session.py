"""A client core on the event loop: its connection, and the futures of its results.

    verbs ──▶ core ──flush──▶ Wire ──▶ socket
    futures ◀──dispatch── core ◀────── Wire

All requests of one turn of the loop are sent together at the end of the turn.
"""

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from qmgr_client.aio.timer import SessionTimer
from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import Message, PutResult
from qmgr_client.sansio import events as e
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.settles import PLAIN, SettleTerms
from qmgr_client.sansio.units import Unit
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid
from qmgr_protocol.tls import TlsFailed, TlsOptions, end_point, explained

# The default low-water mark of uvloop is 16 bytes, which would pause writing too often.
WRITE_HIGH_BYTES = 1024 * 1024
WRITE_LOW_BYTES = 256 * 1024
WRITE_BYTES = 1024 * 1024  # approximate number of bytes to write in a turn of the loop
CLOSE_MAX_MS = 1_000  # maximum time to send the last bytes of a connection


class Wire(asyncio.Protocol):
    """One connection. Data that arrives after the connection was dropped is ignored."""

    def __init__(self, session: "Session", tls: TlsOptions | None = None) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_paused = False
        self._session = session
        self._tls = tls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the connection. Nothing is sent to an untrusted queue manager."""
        self.transport = cast(asyncio.Transport, transport)
        if self._tls is not None:
            try:
                self._tls.check(transport.get_extra_info("ssl_object"))
            except TlsFailed as error:
                self._session.distrusted(str(error))
                self.transport.abort()
                return
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        self._session.connected(self)

    @property
    def server_hash(self) -> bytes:
        """The hash of the queue manager's certificate, which binds a login, or b"" without TLS."""
        assert self.transport is not None, "the connection is open"
        channel = self.transport.get_extra_info("ssl_object")
        return b"" if channel is None else end_point(channel.getpeercert(binary_form=True))

    def data_received(self, data: bytes) -> None:
        """Passes data to the session."""
        self._session.received(self, data)

    def connection_lost(self, error: Exception | None) -> None:
        """Reports the end of the connection."""
        self.transport = None
        self._session.lost(self, error)

    def pause_writing(self) -> None:
        """Pauses sending because the socket is full. Pending puts then share larger frames."""
        self.is_paused = True

    def resume_writing(self) -> None:
        """Resumes sending."""
        self.is_paused = False
        self._session.wake()


class Stream:
    """The state changes of a consumer. The iterator of the consumer waits for them."""

    __slots__ = ("changed", "error", "has_ended")

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.has_ended = False
        self.error: RequestError | None = None


class Unopened:
    """The session of a client that has not been opened."""

    def __getattr__(self, name: str) -> Any:
        text = "the client is not open: use it in an async with block, or await open()"
        raise ConnectionEnded(ErrorCode.CANCELLED, text)


class Session:
    """A client core, its connection, and the futures of its results.

    Invariant: ``_futures`` has the ticket of each put, settle and request that was not abandoned.
    ``_streams`` has the ticket of each open consumer. At most one flush is scheduled.
    """

    def __init__(self, core: ClientCore) -> None:
        self.core = core
        # The result of the handshake: "" or the reason for a refusal.
        self.greeted: asyncio.Future[str] | None = None
        self.over: asyncio.Future[None] | None = None  # done when the connection has ended
        self.loss_reason = ""  # reason why the last connection was lost
        self.loss_code = 0  # its error code, if the queue manager ended the connection
        self.is_untrusted = False  # whether TLS ended the last connection
        self.retry_after_ms = 0  # pause before a reconnect that the queue manager requested
        # The keys of the leases that the end of a processing block will settle.
        self.processing: set[tuple[int, bytes]] = set()
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, Stream] = {}
        self._room: deque[asyncio.Future[None]] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._is_closing = False
        self._flush_scheduled = False
        self.timer = SessionTimer(self)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            e.PutDone: self._on_put_done,
            e.SettleDone: self._on_settled,
            e.RequestDone: self._on_done,
            e.RequestFailed: self._on_failed,
            e.Delivered: self._on_delivered,
            e.ConsumerEnded: self._on_ended,
            e.ProducerLost: self._on_producer_lost,
            e.Ready: self._on_ready,
            e.Disconnected: self._on_disconnected,
            e.Failed: self._on_client_failed,
        }

    def now_ms(self) -> int:
        """Returns the time of the event loop."""
        return int(self._loop.time() * 1000)

    # Called by the methods of a client

    def put(self, queue: str, record: bytes, uid: Uid | None) -> "asyncio.Future[PutResult]":
        """Passes a put to the core. Returns the future of its result."""
        self._check_open()
        return self.result(self.core.put(queue, record, uid))

    def settle(
        self, message: Message, action: int, terms: SettleTerms = PLAIN, unit: Unit | None = None
    ) -> "asyncio.Future[None]":
        """Passes a settle to the core. Returns the future of its result."""
        self._check_open()
        ticket = self.core.settle(message, action, terms, unit)
        if self.processing:
            self.processing.discard(message.lease_key)
        return self.result(ticket)

    def renew(self, message: Message, lease_ms: int) -> "asyncio.Future[None]":
        """Passes a renewal to the core. Returns the future of its result."""
        self._check_open()
        return self.result(self.core.renew(message, lease_ms, self.now_ms()))

    def commit(self, unit: Unit) -> "asyncio.Future[PutResult]":
        """Passes the commit of a unit of work to the core. Returns the future of its result."""
        self._check_open()
        return self.result(self.core.commit(unit))

    def request(
        self, kind: type[m.RequestWithId], *fields: Any, unit: Unit | None = None
    ) -> tuple[int, "asyncio.Future[Any]"]:
        """Passes a request to the core. Returns its ticket and the future of its result."""
        ticket = self.core.request(self.now_ms(), kind, *fields, unit=unit)
        return ticket, self.result(ticket)

    def _check_open(self) -> None:
        if self._is_closing:
            raise ConnectionEnded(ErrorCode.CANCELLED, "the client is being closed")

    def abandon(self, ticket: int) -> None:
        """Abandons a request."""
        if self._futures.pop(ticket, None) is not None:
            self.core.abandon(ticket)
            self.wake()

    def result(self, ticket: int) -> "asyncio.Future[Any]":
        """Returns the future of the result for *ticket*."""
        future = self._futures[ticket] = self._loop.create_future()
        if not self._flush_scheduled:
            self.wake()
        return future

    async def room(self) -> None:
        """Waits until the core has room for another put or has ended."""
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
        """Opens a consumer. Returns its ticket and the stream of its state changes."""
        ticket = self.core.consume(
            queue, prefetch, bytes_max, lease_ms, selection, groups, auto_renew=auto_renew
        )
        stream = self._streams[ticket] = Stream()
        self.wake()
        return ticket, stream

    def next_message(self, ticket: int) -> Message | None:
        """Returns the next message of a consumer, or None if no message is buffered."""
        if self._is_closing:
            return None  # A message received now could no longer be settled.
        message = self.core.next_message(ticket, self.now_ms())
        if self.core.has_credit:
            self.wake()
        self.timer.update()
        return message

    def start_next(self, ticket: int) -> bool:
        """Starts the lease of a consumer's next message if a start is due.

        Returns whether the lease was started. The request is sent within one turn of the loop, even
        with uvloop.
        """
        if self._is_closing or not self.core.start_next(ticket, self.now_ms()):
            return False
        self._write()
        self.timer.update()
        return True

    def cancel(self, ticket: int) -> None:
        """Ends a consumer."""
        self.core.cancel(ticket)
        self.wake()

    def forget(self, ticket: int) -> None:
        """Ends a consumer whose iterator was deleted."""
        if self._streams.pop(ticket, None) is not None:
            self.cancel(ticket)

    def forget_soon(self, ticket: int) -> None:
        """Schedules a call of :meth:`forget`. Any thread may call this method at any time."""
        with suppress(RuntimeError):  # The loop and the connection are closed.
            self._loop.call_soon_threadsafe(self.forget, ticket)

    async def wait_until_settled(self) -> None:
        """Waits until all puts and settles have results. New puts and settles are refused."""
        self._is_closing = True
        if self.core.outstanding:
            self._idle = self._loop.create_future()
            await self._idle

    # Between core and socket

    def wake(self) -> None:
        """Schedules a flush at the end of this turn of the loop."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        self._write()
        self._dispatch()
        self._wake_waiting()

    def _write(self) -> None:
        wire = self._wire
        if wire is None or wire.transport is None or wire.transport.is_closing():
            return
        rest = WRITE_BYTES
        while rest > 0 and not wire.is_paused and (data := self.core.data_to_send(self.now_ms())):
            wire.transport.write(data)
            rest -= len(data)
        if rest <= 0:
            self.wake()  # Other tasks run before the rest is written.

    def _wake_waiting(self) -> None:
        """Wakes about as many waiting callers as the window has room for."""
        if self._room and self.core.can_put:
            for _ in range(min(len(self._room), self.core.welcome.put_window_messages)):
                future = self._room.popleft()
                if not future.done():
                    future.set_result(None)

    def connected(self, wire: Wire) -> None:
        """Starts on a new connection."""
        self._wire = wire
        self.over = self._loop.create_future()
        if self.core.failed is None:
            self.core.connected(self.now_ms(), wire.server_hash)
            self._write()

    def distrusted(self, reason: str) -> None:
        """Ends an attempt to connect to a queue manager that TLS shows to be another one."""
        self.is_untrusted = True
        self._answer_greeting(reason)

    def received(self, wire: Wire, data: bytes) -> None:
        """Handles data from the queue manager."""
        if wire is self._wire:
            self.core.receive(data, self.now_ms())
            self.timer.update()
            self._dispatch()
            self.wake()

    def lost(self, wire: Wire, error: Exception | None) -> None:
        """Handles the loss of the connection."""
        if wire is not self._wire:
            return
        self._wire = None
        self.loss_reason = self.loss_reason or (
            explained(error) if error else "the queue manager closed the connection"
        )
        self.is_untrusted = isinstance(error, ssl.SSLError)
        self.core.connection_lost()
        self._dispatch()
        self._answer_greeting(self.loss_reason)
        if self.over is not None and not self.over.done():
            self.over.set_result(None)

    async def closed(self) -> None:
        """Waits up to CLOSE_MAX_MS for the orderly end of the connection, then drops it."""
        if self._wire is not None and self.over is not None:
            await asyncio.wait([self.over], timeout=CLOSE_MAX_MS / 1000)
        self.drop()

    def drop(self) -> None:
        """Drops the connection immediately."""
        wire = self._wire
        if wire is not None and wire.transport is not None:
            wire.transport.abort()
            self.lost(wire, None)

    # Events of the core

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

    def _on_settled(self, event: e.SettleDone) -> None:
        future = self._futures.pop(event.ticket, None)
        if future is None or future.done():
            return
        if event.error is None:
            future.set_result(None)
        else:
            future.set_exception(event.error)
            # A caller that ignores the result accepts a possible redelivery of the message.
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
            # If the application closes the client, its consumers end as if they were cancelled.
            is_closed = self._is_closing and event.error is self.core.failed
            stream.has_ended, stream.error = True, None if is_closed else event.error
            stream.changed.set()

    def _on_producer_lost(self, event: e.ProducerLost) -> None:
        self.core.renew_producer(os.urandom(16))
        self.wake()

    def _on_ready(self, event: e.Ready) -> None:
        self._answer_greeting("")
        self.timer.update()  # The welcome defines the heartbeat interval.

    def _on_disconnected(self, event: e.Disconnected) -> None:
        self.loss_reason, self.loss_code = event.text, event.code
        self.retry_after_ms = event.retry_after_ms
        self.drop()  # The queue manager has closed its end or does not answer.

    def _on_client_failed(self, event: e.Failed) -> None:
        self.loss_reason = event.error.text
        self._close_wire()
        self._answer_greeting(event.error.text)
        for future in self._room:
            if not future.done():
                future.set_result(None)
        self._room.clear()

    def _answer_greeting(self, reason: str) -> None:
        if self.greeted is not None and not self.greeted.done():
            self.greeted.set_result(reason)

    def _close_wire(self) -> None:
        self._write()  # A goodbye may still be pending.
        if self._wire is not None and self._wire.transport is not None:
            self._wire.transport.close()

    def tick(self) -> None:
        """Runs the due work of the core: heartbeats, renewals and the ends of leases."""
        self.core.tick(self.now_ms())
        self._dispatch()
        self.wake()

    def end(self, code: int, text: str) -> None:
        """Ends the client. All open requests fail."""
        self.core.end(ConnectionEnded(code, text))
        self._dispatch()
