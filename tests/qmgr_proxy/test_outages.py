"""Tests of repeated cuts and stalls of a proxy between sockets of this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qmgr_proxy import outages as proxy_outages
from qmgr_proxy.outages import Outages
from tests.qmgr_proxy.test_proxy import Place, place, rest


class News:
    """The events of outages, for which tests can wait."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    def report(self, what: str, count: int) -> None:
        self._told.put_nowait((what, count))

    async def next(self) -> tuple[str, int]:
        return await self._told.get()


@asynccontextmanager
async def outages(made: Outages) -> AsyncIterator[tuple[Place, News]]:
    news = News()
    async with asyncio.timeout(30), place() as found, asyncio.TaskGroup() as tasks:
        making = tasks.create_task(proxy_outages.run(found.proxy, made, 1, news.report))
        yield found, news
        making.cancel()


async def test_connections_are_cut_again_and_again() -> None:
    async with outages(Outages(cut_every_ms=200)) as (found, news):
        for _ in range(2):
            (reader, _), _, _ = await found.dial()
            while await news.next() != ("cut", 1):
                pass
            assert await rest(reader) == b""


async def test_new_connections_are_refused_for_a_while_after_a_cut() -> None:
    async with outages(Outages(cut_every_ms=50, refuse_ms=20)) as (found, news):
        assert (await news.next())[0] == "cut"
        assert not found.proxy.is_accepting
        assert (await news.next())[0] == "accepting again"


async def test_nothing_passes_during_a_stall_and_all_of_it_afterwards() -> None:
    async with outages(Outages(stall_every_ms=50, stall_ms=50)) as (found, news):
        (_, writer), (reader, _), connection = await found.dial()
        while (await news.next())[0] != "stalled":
            pass
        writer.write(b"late")
        assert all(pipe.is_stalled for pipe in connection.pipes.values())
        assert (await news.next())[0] == "passing again"
        assert await reader.readexactly(4) == b"late"
