"""Tests of calls from the caller's thread to the client's thread and back."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from qmgr_client.blocking.bridge import (
    PAGE,
    Ask,
    Caller,
    ClientThread,
    collected,
    items_of_caller,
    pages,
    run_with_callbacks,
)
from qmgr_client.errors import ConnectionEnded

Value = TypeVar("Value")


@pytest.fixture
def call() -> Iterator[Caller]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def calls(call: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(call, loop).result()

    yield calls
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_functions_run_on_the_callers_thread(call: Caller) -> None:
    async def begin(ask: Ask) -> list[Any]:
        assert threading.current_thread() is not here
        return [await ask(threading.current_thread), await ask(max, 2, 3)]

    here = threading.current_thread()
    assert run_with_callbacks(call, begin) == [here, 3]


def test_function_may_call(call: Caller) -> None:
    async def seven() -> int:
        return 7

    async def begin(ask: Ask) -> int:
        found: int = await ask(lambda: call(seven()))
        return found

    assert run_with_callbacks(call, begin) == 7


def test_error_of_a_function_comes_by_way_of_the_task(call: Caller) -> None:
    async def begin(ask: Ask) -> None:
        try:
            await ask(lambda: 1 // 0)
        finally:
            seen.append("cleaned up")

    seen: list[str] = []
    with pytest.raises(ZeroDivisionError):
        run_with_callbacks(call, begin)
    assert seen == ["cleaned up"]


def test_end_of_an_iterator_becomes_an_error(call: Caller) -> None:
    async def begin(ask: Ask) -> None:
        await ask(lambda: next(iter([])))

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        run_with_callbacks(call, begin)


def test_interrupt_ends_the_task(call: Caller) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    async def begin(ask: Ask) -> None:
        try:
            await ask(interrupted)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run_with_callbacks(call, begin)
    assert seen == ["cancelled"]


@pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1])
def test_all_pages_exist(call: Caller, count: int) -> None:
    async def numbers() -> AsyncGenerator[int, None]:
        for number in range(count):
            yield number

    assert list(pages(call, numbers())) == list(range(count))


def test_items_are_collected_on_the_callers_thread() -> None:
    here = threading.current_thread()

    def items() -> Iterator[bytes]:
        assert threading.current_thread() is here
        yield b"x"

    assert collected(items()) == [b"x"]
    assert collected({b"x": 1}.keys()) == [b"x"]


@pytest.mark.parametrize("items", [b"body", "text", [b"x"], (b"x",), 7, None])
def test_lists_and_invalid_items_are_passed_on(items: Any) -> None:
    """The asyncio client refuses invalid items, and its error contains a hint."""
    assert collected(items) is items


def test_items_of_a_conversation_are_taken_a_batch_at_a_time(call: Caller) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(5):
            taken.append(number)
            yield number

    async def begin(ask: Ask) -> list[tuple[int, int]]:
        return [(number, len(taken)) async for number in items_of_caller(ask, items(), 2)]

    assert run_with_callbacks(call, begin) == [(0, 2), (1, 2), (2, 4), (3, 4), (4, 5)]


def test_iterator_begins_on_the_thread_of_the_caller(call: Caller) -> None:
    """The iterator may call the client only on that thread."""
    threads: list[int] = []

    class Items:
        def __iter__(self) -> Iterator[int]:
            threads.append(threading.get_ident())
            return iter([1])

    async def begin(ask: Ask) -> list[int]:
        return [item async for item in items_of_caller(ask, Items(), 2)]

    assert run_with_callbacks(call, begin) == [1]
    assert threads == [threading.get_ident()]


def test_thread_starts_once_and_ends() -> None:
    async def nothing() -> None:
        pass

    thread = ClientThread()
    thread.close(nothing)
    thread.start(nothing())
    with pytest.raises(RuntimeError, match="is already open"):
        thread.start(nothing())
    before = threading.active_count()
    thread.close(nothing)
    assert threading.active_count() == before - 1
    with pytest.raises(ConnectionEnded, match="the client was closed"):
        thread.call(nothing())
    assert thread.call_unless_closed(nothing()) is None
    thread.call_soon(lambda: None)


def test_call_during_the_end_of_the_thread_raises() -> None:
    async def forever() -> None:
        waiting.set()
        await asyncio.Event().wait()

    async def nothing() -> None:
        pass

    def wait() -> None:
        with pytest.raises(ConnectionEnded, match="closed during the call"):
            thread.call(forever())
        ended.set()

    thread, waiting, ended = ClientThread(), threading.Event(), threading.Event()
    thread.start(nothing())
    threading.Thread(target=wait).start()
    assert waiting.wait(30)
    thread.close(nothing)
    assert ended.wait(30)
