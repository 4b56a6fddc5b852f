"""From the client's own thread back to the one that called: callbacks, and iterators of the caller.

    caller's thread   call(begin) ────────── runs ask 1 ── runs ask 2 ────────▶ result
    client's thread         └──▶ begin(ask) ──▲──────────────▲── ... returns ──┘

So they may call the client, and take their time, while heartbeats go out.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias, TypeVar

Value = TypeVar("Value")
Ask: TypeAlias = Callable[..., Awaitable[Any]]
PAGE = 100


class Caller(Protocol):
    """Has a call done on the client's own thread, and returns what it returns."""

    def __call__(self, call: Coroutine[Any, Any, Value]) -> Value: ...


def converse(call: Caller, begin: Callable[[Ask], Coroutine[Any, Any, Value]]) -> Value:
    """Return what *begin* returns, which is given a function to ask the caller's thread by.

    ``await ask(function, *args)`` has the function called there, and raises what it raises.
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
            except Exception as error:  # It belongs to the task, which may clean up.
                call(_answered(answer, None, error))
            else:
                call(_answered(answer, value, None))
    except BaseException:  # Ctrl-C, say.
        call(_cancelled(task))
        raise
    return call(_result(task))


def pages(call: Caller, found: AsyncGenerator[Value, None]) -> Iterator[Value]:
    """Yield what *found* does on the client's thread, a hundred at a time."""

    async def some() -> list[Value]:
        values: list[Value] = []
        async for value in found:
            values.append(value)
            if len(values) == PAGE:
                break
        return values

    while values := call(some()):
        yield from values


async def _answered(answer: "asyncio.Future[Any]", value: object, error: Exception | None) -> None:
    if answer.done():
        return  # The task was cancelled meanwhile.
    if isinstance(error, StopIteration):  # No future can carry that.
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
