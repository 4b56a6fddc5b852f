"""Tests of a session's timer. sansio/test_core.py tests the due times of the core."""

import asyncio
from pathlib import Path

from qmgr_client.aio import connect
from qmgr_protocol import messages as m
from tests.qmgr_client.listener import Talk, listening
from tests.qmgr_client.scripted import delivery


async def opened(talk: Talk, lease_ms: int) -> m.Consume:
    """Answers the opening of a consumer and delivers a message."""
    opening = await talk.hear(m.Consume)
    talk.say(m.Ok(opening.request_id, [3, lease_ms]))
    talk.say(m.Deliver(opening.request_id, 3, [delivery(b"x", 1, 101)]))
    return opening


async def test_lease_of_what_the_application_keeps_is_started(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            consumer = manager.consume("Q")
            taking = asyncio.create_task(anext(consumer))
            await opened(talk, 30_000)
            await taking
            settle = await talk.hear(m.Settle)
            assert (settle.action, settle.handles) == (
                m.RENEW,
                delivery(b"x", 1, 101)[: m.HANDLE.size],
            )
            await manager.close(0)


async def test_short_lease_is_renewed_before_the_tick_of_heartbeats(tmp_path: Path) -> None:
    """Heartbeats need a tick only once a second, which would be after the end of the lease."""
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            consumer = manager.consume("Q", auto_renew=True)
            taking = asyncio.create_task(anext(consumer))
            await opened(talk, 1_000)
            await taking
            for settle_id in range(1, 4):
                assert (await talk.hear(m.Settle)).action == m.RENEW
                talk.say(m.Settled(settle_id, []))
            await manager.close(0)
