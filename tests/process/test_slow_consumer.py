"""Tests that messages buffered for a slow consumer do not count as failed."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from tests.process.daemon import Daemon

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("count", "work_s", "lease_ms"),
    [
        (80, 0.05, 500),
        pytest.param(200, 1.0, 0, marks=(pytest.mark.long, pytest.mark.timeout(400))),
    ],
)
async def test_each_message_is_processed_once_and_none_becomes_a_dead_letter(
    tmp_path: Path, count: int, work_s: float, lease_ms: int
) -> None:
    """With earlier defaults, 113 of 200 messages became dead letters before a consumer saw them."""
    daemon = Daemon(tmp_path).start()
    done: Counter[bytes] = Counter()
    try:
        async with connect(daemon.address) as manager:
            await manager.admin.queue_create("Q", backout_threshold=3)
            await manager.put_many("Q", [b"%d" % number for number in range(count)])
            async for message in manager.consume("Q", lease_ms=lease_ms):
                await asyncio.sleep(work_s)
                done[message.body] += 1
                await manager.ack(message)
                if len(done) == count:
                    break
            assert set(done.values()) == {1}
            assert (await manager.admin.queue_show("SYSTEM.DEAD.LETTERS"))["depth"] == 0
            assert (await manager.admin.queue_show("Q"))["depth"] == 0
    finally:
        daemon.close()


async def test_message_that_is_processed_for_long_stays_with_its_consumer(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path).start()
    try:
        async with connect(daemon.address) as manager:
            await manager.admin.queue_create("Q", lease_ms=400)
            await manager.put("Q", b"x")
            consumer = manager.consume("Q", auto_renew=True)
            message = await anext(consumer)
            assert await manager.get("Q", wait_ms=1_500) is None
            await manager.ack(message)
    finally:
        daemon.close()


async def test_message_that_kills_its_consumer_is_removed_in_the_end(tmp_path: Path) -> None:
    """With the defaults, buffered messages that were never processed do not fail."""
    daemon = Daemon(tmp_path).start()
    try:
        async with connect(daemon.address) as operator:
            await operator.admin.queue_create("Q")
            await operator.put_many("Q", [b"poison", b"healthy"])
            for number in range(20):
                async with connect(daemon.address, name=f"worker-{number}") as manager:
                    message = await anext(manager.consume("Q"))
                    assert message.body == b"poison"
                    manager._session.drop()
            dead = await operator.get("SYSTEM.DEAD.LETTERS", wait_ms=5_000)
            assert dead is not None
            assert dead.body == b"poison"
            healthy = await operator.get("Q", wait_ms=5_000)
            assert healthy is not None
            assert (healthy.body, healthy.delivered) == (b"healthy", 0)
    finally:
        daemon.close()
