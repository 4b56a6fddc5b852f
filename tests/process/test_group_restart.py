"""Tests that a group in several units of work continues after a restart of the real daemon."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from qmgr_client.aio import GroupGot, Message, QueueManager, UnitOfWork, connect
from tests.process.conftest import Make
from tests.process.daemon import Daemon

COUNT = 7
RUN: Any = {"status_queue": "STATUS", "name": "load", "batch": 3}
BODIES = [b"%d" % number for number in range(1, COUNT + 1)]


async def bodies(manager: QueueManager, queue: str) -> list[bytes]:
    return [message.body async for message in manager.browse(queue)]


def kill_and_start(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start()


@pytest.mark.process
def test_get_group_continues_after_the_daemon_was_killed(make: Make) -> None:
    """E26: the reader reads a lost unit again, and processes each message once, in order."""
    asyncio.run(_get(make().start(), [1, 5]))


async def _get(daemon: Daemon, kills: list[int]) -> None:
    """Reads a group, and kills the daemon at its first message and at a later one."""

    async def work(message: Message, unit: UnitOfWork) -> None:
        if message.group_number in kills:
            kills.remove(message.group_number)
            await asyncio.to_thread(kill_and_start, daemon)
        await unit.put("DONE", message.body)

    async with connect(daemon.address) as manager:
        for queue in ("Q", "DONE", "STATUS"):
            await manager.admin.queue_create(queue)
        done = await manager.put_group("Q", BODIES, **RUN)
        got = await manager.get_group("Q", work, **RUN)
        assert got == GroupGot(done.group_id, COUNT, 0, True)
        assert await bodies(manager, "DONE") == BODIES
        assert await bodies(manager, "Q") == await bodies(manager, "STATUS") == []
    assert kills == []


@pytest.mark.process
def test_put_group_continues_after_the_daemon_was_killed(make: Make) -> None:
    """E25: the application puts a lost unit again."""
    asyncio.run(_put(make().start()))


async def _put(daemon: Daemon) -> None:
    """Puts a group, and kills the daemon during the put."""

    async def items() -> AsyncIterator[bytes]:
        for body in BODIES:
            if body == b"5":
                await asyncio.to_thread(kill_and_start, daemon)
            yield body

    async with connect(daemon.address) as manager:
        for queue in ("Q", "STATUS"):
            await manager.admin.queue_create(queue)
        done = await manager.put_group("Q", items(), **RUN)
        assert (done.put, done.skipped) == (COUNT, 0)
        assert await bodies(manager, "Q") == BODIES
        assert await bodies(manager, "STATUS") == []
