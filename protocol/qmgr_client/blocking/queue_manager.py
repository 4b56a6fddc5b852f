"""The client without async.

    with connect("127.0.0.1:7470") as client:
        client.put("ORDERS", b"one ton of apples")
        for message in client.consume("ORDERS"):
            ...
            client.ack(message)

The asyncio client runs on a loop in a thread of its own; a call here is a call there. So there is
one implementation of everything that is difficult, heartbeats go out while the application is busy
or asleep, and threads may share a client. A call costs a change of threads and back, about 100
microseconds: for many messages use put_many, submit, get_many, ack_many and ack_soon.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar, Unpack

from qmgr_client import aio
from qmgr_client.aio.queue_manager import CLOSE_MAX_MS
from qmgr_client.blocking.admin import Admin
from qmgr_client.blocking.bridge import pages
from qmgr_client.blocking.groups import Groups
from qmgr_client.blocking.replies import Replies
from qmgr_client.blocking.topics import Topics
from qmgr_client.blocking.unit import UnitOfWork
from qmgr_client.blocking.work import Work
from qmgr_client.duration import Duration
from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import Message, checked_messages
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, each_outgoing
from qmgr_client.sansio.core import BYTES_MAX
from qmgr_client.selection import BrowseOrder, GroupOrder, Selection, SelectionOrUid
from qmgr_protocol.errors import ErrorCode, RequestError

Value = TypeVar("Value")


def connect(
    address: str,
    *,
    name: str = "",
    producer_id: bytes | None = None,
    reconnect: bool = True,
    wait_ms: Duration | None = 0,
    give_up_ms: Duration | None = None,
    coalesce: bool = True,
) -> "Client":
    """Return a client of the queue manager at *address*; ``with``, or ``open``, connects it.

    Arguments and errors are those of :func:`qmgr_client.aio.connect`.
    """
    return Client(
        aio.connect(
            address,
            name=name,
            producer_id=producer_id,
            reconnect=reconnect,
            wait_ms=wait_ms,
            give_up_ms=give_up_ms,
            coalesce=coalesce,
        )
    )


class Client(Groups, Topics, Work, Replies):
    """A queue manager, as its client sees it. The verbs are those of aio.QueueManager.

    Invariant: the loop runs in ``_thread``, and everything of ``_manager`` happens there.
    """

    def __init__(self, manager: aio.QueueManager) -> None:
        self._manager = manager
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0  # A fork has no copy of the thread.
        self._is_closed = False  # by the application
        self._closing = threading.Lock()  # so that one thread closes, and the others wait for it
        self._gate = threading.Lock()  # between calls that begin and the end of the loop

    def __enter__(self) -> "Client":
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The queue manager's name."""
        return self._manager.name

    @property
    def admin(self) -> Admin:
        """What operators ask of it: queues, links, topics, jobs, history."""
        return Admin(self._call, self._manager.admin)

    def open(self) -> None:
        """Connect, and stay so until :meth:`close`.

        Raises:
            ConnectFailed: what, where, and what to try.
            ConnectionEnded: the queue manager wants no such client.
        """
        if self._thread is not None:
            raise RuntimeError("the client is open already: open a client once, or connect another")
        self._loop, self._process = asyncio.new_event_loop(), os.getpid()
        # A daemon thread: an application that forgets close can still end.
        self._thread = threading.Thread(target=self._loop.run_forever, name="qmgr", daemon=True)
        self._thread.start()
        try:
            self._call(self._manager.open())
        except BaseException:
            self._stop()
            raise

    def close(self, timeout_ms: Duration = CLOSE_MAX_MS) -> None:
        """Wait up to *timeout_ms* for puts and settles under way, then end. Any number of times.

        The loops of other threads over consumers and subscriptions end, as if these were cancelled.
        Any other call of theirs raises ConnectionEnded, such as an ack of what they still work on.
        """
        if self._process != os.getpid():
            return  # It was never opened, or the connection is the parent's of this fork.
        with self._closing:
            if self._thread is None:
                return
            self._is_closed = True
            try:
                self._call(self._manager.close(timeout_ms))
            finally:
                self._stop()

    def _stop(self) -> None:
        with self._gate:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        assert loop is not None
        assert thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        calls = asyncio.all_tasks(loop)
        for call in calls:
            call.cancel()  # Of other threads, which else would wait for ever.
        loop.run_until_complete(_ended(calls))
        loop.close()

    def _call(self, call: Coroutine[Any, Any, Value]) -> Value:
        """Have *call* done on the loop's thread, and return what it returns."""
        if self._process != os.getpid() and self._process:
            call.close()
            raise ConnectionEnded(
                ErrorCode.CANCELLED,
                "the client was opened in another process: connect anew after a fork",
            )
        if threading.current_thread() is self._thread:
            call.close()
            raise RuntimeError(
                "a callback of submit or ack_soon runs on the client's own thread, where no call "
                "may wait: hand the result to another thread"
            )
        with self._gate:
            if self._loop is None:
                call.close()
                text = "the client is not open: use it in a with, or call open()"
                text = "the client is not open: it was closed" if self._is_closed else text
                raise ConnectionEnded(ErrorCode.CANCELLED, text)
            future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ConnectionEnded(ErrorCode.CANCELLED, "the client was closed meanwhile") from None
        except BaseException:
            future.cancel()  # Ctrl-C, say: nobody waits for it any more.
            raise

    def _unless_closed(self, call: Coroutine[Any, Any, Value]) -> Value | None:
        """Have *call* done and return what it returns, or None where the client is closed."""
        try:
            return self._call(call)
        except ConnectionEnded:
            if self._is_closed:
                return None
            raise

    # Putting

    def submit(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> "Future[PutResult]":
        """Have a message put; return a future that is done when it is on disk, or refused.

        *options* are the fields of :class:`Outgoing`: priority, headers, expiry_ms and so on. The
        future's callbacks run on the client's own thread: they may not call the client.
        """
        return self._call(_handed_over(self._manager.submit(queue, body, **options)))

    def put(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Put a message; return when it is on disk. *options* are as of :meth:`submit`."""
        return self._call(self._manager.put(queue, body, **options))

    def put_many(
        self, queue: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Put bodies or whole messages; return what became of each, in their order."""
        return self._call(self._manager.put_many(queue, list(each_outgoing("put_many", items))))

    # Getting

    def get(
        self,
        queue: str,
        wait_ms: Duration = 0,
        lease_ms: Duration = 0,
        messages_max: int = 1,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Return the next message under lease, or None where none comes within *wait_ms*."""
        getting = self._manager.get(queue, wait_ms, lease_ms, messages_max, **selection)
        return self._call(getting)

    def get_many(
        self,
        queue: str,
        messages_max: int,
        wait_ms: Duration = 0,
        lease_ms: Duration = 0,
        **selection: Unpack[SelectionOrUid],
    ) -> list[Message]:
        """Return up to *messages_max* messages, as soon as there is one."""
        getting = self._manager.get_many(queue, messages_max, wait_ms, lease_ms, **selection)
        return self._call(getting)

    def consume(
        self,
        queue: str,
        prefetch: int = 256,
        lease_ms: Duration = 0,
        bytes_max: int = BYTES_MAX,
        *,
        groups: GroupOrder = "physical",
        all_available: bool = False,
        auto_renew: bool = False,
        **selection: Unpack[Selection],
    ) -> "Consumer":
        """Return an iterator over messages under lease, which come as they are put; see aio."""

        async def opened() -> aio.Consumer:
            return self._manager.consume(
                queue,
                prefetch,
                lease_ms,
                bytes_max,
                groups=groups,
                all_available=all_available,
                auto_renew=auto_renew,
                **selection,
            )

        return Consumer(self, self._call(opened()))

    def ack_soon(self, message: Message) -> "Future[None]":
        """Have a message removed for good; return a future as of :meth:`submit`."""
        return self._call(_handed_over(self._manager.ack_soon(message)))

    def ack(self, message: Message) -> None:
        """Remove a message for good."""
        self._call(self._manager.ack(message))

    def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Remove messages for good; return why not for each that was not."""
        return self._call(self._manager.ack_many(checked_messages("ack_many", messages)))

    def release(
        self,
        message: Message,
        delay_ms: Duration | None = None,
        *,
        failed: bool = True,
        retry_at: datetime | None = None,
        reason: str = "",
        text: str = "",
    ) -> None:
        """Give a message back: it can be had again; see aio."""
        releasing = self._manager.release(
            message, delay_ms, failed=failed, retry_at=retry_at, reason=reason, text=text
        )
        self._call(releasing)

    def reject(self, message: Message, reason: str = "", text: str = "") -> None:
        """Have a message be a dead letter at once: it would fail again."""
        self._call(self._manager.reject(message, reason, text))

    def renew(self, message: Message, lease_ms: Duration = 0) -> None:
        """Keep a message for *lease_ms* from now on; 0 is as long as it was leased for."""
        self._call(self._manager.renew(message, lease_ms))

    def unit_of_work(self) -> UnitOfWork:
        """Return a unit of work, for ``with``: puts and acks done together, or not at all."""
        return UnitOfWork(self._call, self._manager)

    def browse(
        self,
        queue: str,
        limit: int | None = None,
        *,
        delayed: bool = False,
        after: Message | None = None,
        order: BrowseOrder = "physical",
        all_available: bool = False,
        **selection: Unpack[SelectionOrUid],
    ) -> Iterator[Message]:
        """Yield messages in their order, at most *limit*, and leave them there; see aio."""
        messages = self._manager.browse(
            queue,
            limit,
            delayed=delayed,
            after=after,
            order=order,
            all_available=all_available,
            **selection,
        )
        return pages(self._call, messages)


class Consumer:
    """Messages of a queue as they come, for ``for``; ends with ``with`` or cancel."""

    def __init__(self, client: Client, consumer: aio.Consumer) -> None:
        self._client = client
        self._consumer = consumer

    def __iter__(self) -> "Consumer":
        return self

    def __next__(self) -> Message:
        """Return the next message; raises as aio.Consumer does."""
        found = self._client._unless_closed(_next(self._consumer))
        if found is None:
            raise StopIteration
        return found

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def cancel(self) -> None:
        """End it: what was not handed out goes back. What was may still be settled."""
        self._client._unless_closed(self._consumer.cancel())


async def _next(consumer: aio.Consumer) -> Message | None:
    # Not StopAsyncIteration: no future can carry that.
    return await anext(consumer, None)


async def _handed_over(submitting: "Coroutine[Any, Any, asyncio.Future[Value]]") -> "Future[Value]":
    """Return a future for other threads that has what the loop's own future gets."""
    outer: Future[Value] = Future()

    def hand_over(inner: "asyncio.Future[Value]") -> None:
        if inner.cancelled() or not outer.set_running_or_notify_cancel():
            outer.cancel()
        elif (error := inner.exception()) is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())

    (await submitting).add_done_callback(hand_over)
    return outer


async def _ended(calls: set[asyncio.Task[Any]]) -> None:
    """Return once *calls* are over, and those are told that ended as the loop stopped."""
    if calls:
        await asyncio.wait(calls)
    await asyncio.sleep(0)
