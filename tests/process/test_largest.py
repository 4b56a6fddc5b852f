"""Tests that the largest message travels from a client over a link to another client."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_client.message import Outgoing, encode
from tests.process.daemon import PATIENCE_S, Daemon

pytestmark = pytest.mark.process

LIMIT_BYTES = 4 * 1024 * 1024  # default of limits.message_max_bytes


@contextmanager
def daemons(tmp_path: Path, **limits: str) -> Iterator[tuple[Daemon, Daemon]]:
    """Yields two daemons. *limits* apply to the first one."""
    listen = {"tcp": ["127.0.0.1:0"]}
    edge = Daemon(
        tmp_path / "edge", listen=listen, queue_manager={"name": "EDGE"}, limits=dict(limits)
    )
    hub = Daemon(tmp_path / "hub", listen=listen, queue_manager={"name": "HUB"})
    try:
        yield edge.start(), hub.start()
    finally:
        edge.close()
        hub.close()


async def define(edge: Daemon, hub: Daemon) -> None:
    async with connect(hub.address) as manager:
        await manager.admin.queue_create("AWAY")
        await manager.admin.link_allow("EDGE")
    async with connect(edge.address) as manager:
        await manager.admin.link_create("HUB", [hub.address])
        await manager.admin.queue_create("AWAY@HUB")


def longest(size_bytes: int) -> bytes:
    """Returns the body of a message of size *size_bytes*."""
    return bytes(size_bytes - len(encode(Outgoing(b""))))


async def test_message_of_the_largest_size_and_the_next_one_cross_a_link(tmp_path: Path) -> None:
    with daemons(tmp_path) as (edge, hub):
        async with asyncio.timeout(PATIENCE_S):
            await define(edge, hub)
            async with connect(edge.address) as manager:
                await manager.put("AWAY@HUB", longest(LIMIT_BYTES))
                await manager.put("AWAY@HUB", b"behind it")
            async with connect(hub.address) as manager:
                first = await manager.get("AWAY", wait_ms=PATIENCE_S * 1_000)
                second = await manager.get("AWAY", wait_ms=PATIENCE_S * 1_000)
                assert first is not None
                assert second is not None
                assert (len(first.body), second.body) == (len(longest(LIMIT_BYTES)), b"behind it")


async def test_message_too_long_for_the_peer_does_not_block_others(tmp_path: Path) -> None:
    with daemons(tmp_path, message_max_bytes="5 MiB") as (edge, hub):
        async with asyncio.timeout(PATIENCE_S):
            await define(edge, hub)
            async with connect(edge.address) as manager:
                await manager.put("AWAY@HUB", longest(LIMIT_BYTES + 1))
                await manager.put("AWAY@HUB", b"behind it")
            async with connect(hub.address) as manager:
                found = await manager.get("AWAY", wait_ms=PATIENCE_S * 1_000)
                assert found is not None
                assert found.body == b"behind it"
            async with connect(edge.address) as manager:
                row = await manager.admin.link_show("HUB")
                assert (row["state"], row["blocked_queue"]) == ("blocked", "AWAY")
                assert "raise its limits.message_max_bytes" in row["error"]
