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
