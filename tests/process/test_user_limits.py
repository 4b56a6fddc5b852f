"""Tests that one user of a real daemon cannot use up what another user needs."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qmgr_client.aio import QueueManager, connect
from qmgr_client.errors import ConnectFailed
from tests.process.daemon import PATIENCE_S, Daemon

pytestmark = pytest.mark.process

PASSWORD = "a password of a test"
RATE = 200  # messages in a second
FLOOD = 5 * RATE
JOINED = 256  # puts that the daemon joins, and handles as one
LATE_S = 0.5  # A delayed put would wait longer than this; a loaded machine does not take so long.


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[QueueManager]:
    """A client that may do everything, at a daemon with the users admin, flood and shop."""
    daemon = Daemon(tmp_path / "data", listen={"tcp": ["127.0.0.1:0"]})
    daemon.start()
    try:
        socket = f"unix:{tmp_path / 'data' / 'qmgrd.sock'}"
        async with asyncio.timeout(PATIENCE_S), connect(socket) as owner:
            await owner.admin.queue_create("Q")
            await owner.admin.user_create("admin", PASSWORD, roles=["administrator"])
            for user in ("flood", "shop"):
                await owner.admin.user_create(user, PASSWORD, roles=["producer"])
            owner_address[owner] = daemon.address
            yield owner
    finally:
        daemon.close()


owner_address: dict[QueueManager, str] = {}


@asynccontextmanager
async def client(owner: QueueManager, user: str) -> AsyncIterator[QueueManager]:
    address = owner_address[owner]
    # One frame with all puts of the flood would be handled as one put.
    async with connect(address, user=user, password=PASSWORD, coalesce=False) as found:
        yield found


async def depth(owner: QueueManager) -> int:
    row = await owner.admin.queue_show("Q")
    return row["depth"]


async def test_flood_of_one_user_is_delayed_and_puts_of_another_are_not(
    owner: QueueManager,
) -> None:
    await owner.admin.user_alter("flood", limits={"puts_per_s_max": RATE})
    async with client(owner, "flood") as flood, client(owner, "shop") as shop:
        began = time.monotonic()
        puts = [asyncio.create_task(flood.put("Q", b"flood %d" % i)) for i in range(FLOOD)]
        slowest_s = 0.0
        for number in range(100):
            put_at = time.monotonic()
            await shop.put("Q", b"shop %d" % number)
            slowest_s = max(slowest_s, time.monotonic() - put_at)
        assert slowest_s < LATE_S
        await asyncio.gather(*puts)
        took_s = time.monotonic() - began
        # The messages of the first second may be put at once, and the last joined puts.
        assert took_s > (FLOOD - RATE - JOINED) / RATE - 0.1
    stored = [message.body async for message in owner.browse("Q")]
    own = [body for body in stored if body.startswith(b"flood")]
    assert own == [b"flood %d" % i for i in range(FLOOD)], "each put is stored once and in order"
    assert len(stored) == FLOOD + 100


async def test_delayed_client_stays_connected_and_continues_when_the_limit_is_raised(
    owner: QueueManager,
) -> None:
    await owner.admin.user_alter("flood", limits={"put_bytes_per_s_max": 1_000})
    async with client(owner, "flood") as flood:
        await flood.put("Q", bytes(100_000))  # The deficit takes 99 seconds.
        put = asyncio.create_task(flood.put("Q", bytes(100)))
        done, _ = await asyncio.wait([put], timeout=LATE_S)
        assert not done
        assert await depth(owner) == 1
        await owner.admin.user_alter("flood", limits={"put_bytes_per_s_max": None})
        await put
        assert await depth(owner) == 2
        assert (await owner.admin.user_show("flood", secrets=False))["use"]["connections"] == 1


async def test_client_above_the_limit_of_connections_gets_the_reason(owner: QueueManager) -> None:
    await owner.admin.user_alter("shop", limits={"connections_max": 1})
    async with client(owner, "shop") as first:
        await first.put("Q", b"first")
        with pytest.raises(ConnectFailed, match="user shop has 1 open connection"):
            async with client(owner, "shop") as second:
                await second.put("Q", b"second")
        await first.put("Q", b"again")


async def test_user_that_reads_nothing_is_held_and_another_is_not(owner: QueueManager) -> None:
    limit = 1 << 20
    await owner.admin.user_alter("flood", limits={"unread_bytes_max": limit})
    for user in ("flood", "shop"):
        await owner.admin.grant_create(["browse"], "queue", "*", user=user)
    await owner.put_many("Q", [bytes(100_000)] * 20)
    async with client(owner, "flood") as flood, client(owner, "flood") as second:
        await flood.put("Q", b"first")
        await second.put("Q", b"second")
        wire = flood._session._wire
        assert wire is not None
        assert wire.transport is not None
        wire.transport.pause_reading()
        unread = [asyncio.create_task(browsed(flood)) for _ in range(20)]
        async with asyncio.timeout(PATIENCE_S):
            while await unread_bytes(owner) < limit:
                await asyncio.sleep(0.02)
        put = asyncio.create_task(second.put("Q", b"third"))
        done, _ = await asyncio.wait([put], timeout=LATE_S)
        assert not done
        async with client(owner, "shop") as shop:
            assert await browsed(shop) >= 20
        assert await unread_bytes(owner) <= limit + (2 << 20), "one more frame at most"
        wire.transport.resume_reading()
        await put
        assert min(await asyncio.gather(*unread)) >= 20


async def browsed(manager: QueueManager) -> int:
    return len([message async for message in manager.browse("Q")])


async def unread_bytes(owner: QueueManager) -> int:
    row = await owner.admin.user_show("flood", secrets=False)
    found: int = row["use"]["unread_bytes"]
    return found
