"""The bridge from threads to the asyncio client, with all code that only blocking calls need.

    caller's thread   call(coroutine) ──────── waits ────────▶ result
    client's thread         └──▶ event loop runs the coroutine ──┘

The client's thread answers heartbeats while the application is busy. The classes of the other
modules of this package forward each method to the asyncio class of the same name.

Callbacks and iterators of the caller run on the caller's thread, so they may call the client:

    caller's thread   run_with_callbacks(begin) ──────── runs ask 1 ── runs ask 2 ───────▶ result
    client's thread                   └──▶ begin(ask) ──────▲──────────────▲── ... returns ──┘
"""

import asyncio
import os
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
)
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from qmgr_client.errors import ConnectionEnded
from qmgr_protocol.errors import ErrorCode, RequestError

Value = TypeVar("Value")
Inner = TypeVar("Inner")
Outer = TypeVar("Outer")
Ask: TypeAlias = Callable[..., Awaitable[Any]]
PAGE = 100


class Caller(Protocol):
    """A function that runs a coroutine on the client's thread and returns its result."""

    def __call__(self, call: Coroutine[Any, Any, Value]) -> Value: ...


class ClientThread:
    """The thread of a client and its event loop.

    Invariant: the loop runs while ``_thread`` is set. Only the loop uses the asyncio client.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # Id of the process that owns the thread, because a fork has no copy of the thread.
        self._process = 0
        self._is_closed = False  # whether the application closed the client
        self._closing = threading.Lock()  # One thread closes the client; the others wait.
        self._gate = threading.Lock()  # Keeps calls from starting while the loop ends.

    def start(self, opening: Coroutine[Any, Any, None]) -> None:
        """Starts the thread and runs *opening* on it.

        Raises:
            RuntimeError: The thread is already running.
        """
        if self._thread is not None:
            opening.close()
            raise RuntimeError("the client is already open: open it once, or connect another one")
        self._loop, self._process = asyncio.new_event_loop(), os.getpid()
        # A daemon thread lets an application end even if it does not close the client.
        self._thread = threading.Thread(target=self._loop.run_forever, name="qmgr", daemon=True)
        self._thread.start()
        try:
            self.call(opening)
        except BaseException:
            self._stop()
            raise

    def close(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs *closing* on the thread and ends the thread. Does nothing if no thread runs."""
        if self._process != os.getpid():
            return  # The client was never opened, or the parent process of this fork opened it.
        with self._closing:
            if self._thread is None:
                return
            self._is_closed = True
            try:
                self.call(closing())
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
            call.cancel()  # Other threads would wait for these calls forever.
        loop.run_until_complete(_ended(calls))
        loop.close()

    def call(self, call: Coroutine[Any, Any, Value]) -> Value:
        """Runs *call* on the thread and returns its result.

        Raises:
            ConnectionEnded: The client is not open, or is closed while the call waits.
            RuntimeError: The method was called on the client's own thread.
        """
        if self._process != os.getpid() and self._process:
            call.close()
            raise ConnectionEnded(
                ErrorCode.CANCELLED,
                "the client was opened in another process: connect again after a fork",
            )
        if threading.current_thread() is self._thread:
            call.close()
            raise RuntimeError(
                "a callback of submit or ack_soon runs on the client's own thread and must not "
                "wait for a call: pass the result to another thread"
            )
        with self._gate:
            if self._loop is None:
                call.close()
                text = "the client is not open: use it in a with block, or call open()"
                text = "the client was closed" if self._is_closed else text
                raise ConnectionEnded(ErrorCode.CANCELLED, text)
            future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ConnectionEnded(
                ErrorCode.CANCELLED, "the client was closed during the call"
            ) from None
        except BaseException:
            future.cancel()  # After Ctrl-C, for example, no caller waits.
            raise

    def call_unless_closed(self, call: Coroutine[Any, Any, Value]) -> Value | None:
        """Runs *call* and returns its result, or None if the application closed the client."""
        try:
            return self.call(call)
        except ConnectionEnded:
            if self._is_closed:
                return None
            raise

    def make(self, factory: Callable[[], Value]) -> Value:
        """Calls *factory* on the thread and returns its result."""

        async def made() -> Value:
            return factory()

        return self.call(made())

    def call_soon(self, function: Callable[[], None]) -> None:
        """Schedules a call of *function* on the thread. Does nothing after the thread has ended."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(function)


class Bridge(Generic[Inner]):
    """The base of the blocking classes. Each class wraps the asyncio class of the same name."""

    def __init__(self, thread: ClientThread, inner: Inner) -> None:
        self._thread = thread
        self._call: Caller = thread.call
        self._aio = inner

    def _leave(self, leaving: Coroutine[Any, Any, None], error: BaseException | None) -> None:
        """Ends a block by running *leaving*.

        If the block has raised *error*, a refusal is added to *error* as a note.
        """
        try:
            self._call(leaving)
        except RequestError as refused:
            if error is None:
                raise
            error.add_note(f"the end of the block also failed: {refused}")


def asyncio_object(outer: Bridge[Inner] | None) -> Inner | None:
    """Returns the asyncio object of *outer*, or None if *outer* is None."""
    return None if outer is None else outer._aio


def next_of(thread: ClientThread, iterator: AsyncIterator[Value]) -> Value:
    """Returns the next value of *iterator*.

    Raises:
        StopIteration: The iterator has ended or the application closed the client.
    """
    found = thread.call_unless_closed(_next(iterator))
    if found is None:
        raise StopIteration
    return found


async def _next(iterator: AsyncIterator[Value]) -> Value | None:
    return await anext(iterator, None)  # A future cannot carry StopAsyncIteration.


def pages(call: Caller, found: AsyncGenerator[Value, None]) -> Iterator[Value]:
    """Yields the values of *found*. Each call to the client's thread fetches up to PAGE values."""

    async def some() -> list[Value]:
        values: list[Value] = []
        async for value in found:
            values.append(value)
            if len(values) == PAGE:
                break
        return values

    while values := call(some()):
        yield from values


async def handed_over(submitting: "Coroutine[Any, Any, asyncio.Future[Value]]") -> "Future[Value]":
    """Returns a future for other threads. The future receives the result of the loop's future."""
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


def collected(items: Iterable[Value]) -> Iterable[Value]:
    """Returns *items* as a list, so that their iterator runs on the caller's thread.

    A tuple is returned unchanged. A message is a tuple, and the asyncio client refuses a message
    with a hint.
    """
    if isinstance(items, bytes | bytearray | str | list | tuple) or not isinstance(items, Iterable):
        return items
    return list(items)


def run_with_callbacks(call: Caller, begin: Callable[[Ask], Coroutine[Any, Any, Value]]) -> Value:
    """Runs *begin* on the client's thread and returns its result.

    Within *begin*, ``await ask(function, *args)`` calls *function* on the caller's thread. The
    await returns the function's result or raises its error.
    """
    asked: SimpleQueue[tuple[Callable[..., Any], Any, asyncio.Future[Any]] | None] = SimpleQueue()

    async def ask(function: Callable[..., Any], *args: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked.put((function, args, answer))
        return await answer

    async def started() -> "asyncio.Task[Value]":
        task = asyncio.create_task(begin(ask))
        task.add_done_callback(lambda _: asked.put(None))
        return task

    task = call(started())
    try:
        while (found := asked.get()) is not None:
            function, args, answer = found
            try:
                value = function(*args)
            except Exception as error:  # The task receives the error and may clean up.
                call(_answered(answer, None, error))
            else:
                call(_answered(answer, value, None))
    except BaseException:  # for example, Ctrl-C
        call(_cancelled(task))
        raise
    return call(_result(task))


async def items_of_caller(
    ask: Ask, items: Iterable[Value], batch: int
) -> AsyncGenerator[Value, None]:
    """Yields *items*. Their iterator runs on the caller's thread, *batch* items at a time."""
    iterator = await ask(iter, items)
    while some := await ask(lambda: list(islice(iterator, max(batch, 1)))):
        for item in some:
            yield item


def handler_of_caller(
    ask: Ask, handler: Callable[[Value, Outer], object], wrap: Callable[[Inner], Outer]
) -> Callable[[Value, Inner], Awaitable[None]]:
    """Returns an async handler that calls *handler* on the caller's thread.

    *wrap* converts the asyncio object of the second argument to the blocking object.
    """

    async def handle(value: Value, inner: Inner) -> None:
        await ask(handler, value, wrap(inner))

    return handle


async def _answered(answer: "asyncio.Future[Any]", value: object, error: Exception | None) -> None:
    if answer.done():
        return  # The task was cancelled in the meantime.
    if isinstance(error, StopIteration):  # A future cannot carry StopIteration.
        answer.set_exception(RuntimeError("a callback raised StopIteration"))
    elif error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(value)


async def _result(task: "asyncio.Task[Value]") -> Value:
    return await task


async def _cancelled(task: "asyncio.Task[Value]") -> None:
    task.cancel()
    await asyncio.wait([task])


async def _ended(calls: set[asyncio.Task[Any]]) -> None:
    """Returns once *calls*, and calls that ended while the loop stopped, have been handled."""
    if calls:
        await asyncio.wait(calls)
    await asyncio.sleep(0)
