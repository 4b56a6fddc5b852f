"""When a session looks at its clock: leases that start soon, and that go on."""

import asyncio
from pathlib import Path

from qmgr_client.aio import connect
from qmgr_protocol import messages as m
from tests.qmgr_client.listener import Talk, listening
from tests.qmgr_client.scripted import delivery


async def opened(talk: Talk, lease_ms: int) -> m.Consume:
    """Answer the opening of a consumer, and deliver a message."""
    opening = await talk.hear(m.Consume)
    talk.say(m.Ok(opening.request_id, [3, lease_ms]))
    talk.say(m.Deliver(opening.request_id, 3, [delivery(b"x", 1, 101)]))
    return opening


async def test_queue_manager_is_told_of_what_the_application_keeps(tmp_path: Path) -> None:
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


async def test_short_leases_go_on_in_time(tmp_path: Path) -> None:
    """Though nothing else happens, and the session would look at its clock once a second."""
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            taking = asyncio.create_task(anext(manager.consume("Q", auto_renew=True)))
            await opened(talk, 200)
            await taking
            loop, times = asyncio.get_running_loop(), []
            for settle_id in range(1, 5):
                assert (await talk.hear(m.Settle)).action == m.RENEW
                times.append(loop.time())
                talk.say(m.Settled(settle_id, []))
            assert times[-1] - times[0] < 3.0
