"""From the client's thread to the caller's and back, on a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from qmgr_client.blocking.bridge import PAGE, Ask, Caller, converse, pages

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
    assert converse(call, begin) == [here, 3]


def test_function_may_call(call: Caller) -> None:
    async def seven() -> int:
        return 7

    async def begin(ask: Ask) -> int:
        found: int = await ask(lambda: call(seven()))
        return found

    assert converse(call, begin) == 7


def test_error_of_a_function_comes_by_way_of_the_task(call: Caller) -> None:
    async def begin(ask: Ask) -> None:
        try:
            await ask(lambda: 1 // 0)
        finally:
            seen.append("cleaned up")

    seen: list[str] = []
    with pytest.raises(ZeroDivisionError):
        converse(call, begin)
    assert seen == ["cleaned up"]


def test_end_of_an_iterator_becomes_an_error(call: Caller) -> None:
    async def begin(ask: Ask) -> None:
        await ask(lambda: next(iter([])))

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        converse(call, begin)


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
        converse(call, begin)
    assert seen == ["cancelled"]


@pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1])
def test_pages_are_all_there(call: Caller, count: int) -> None:
    async def numbers() -> AsyncGenerator[int, None]:
        for number in range(count):
            yield number

    assert list(pages(call, numbers())) == list(range(count))
