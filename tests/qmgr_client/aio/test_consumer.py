"""Tests of consumers on the event loop."""

import asyncio
import gc
from pathlib import Path

import pytest

from qmgr_client.aio import MessageDamaged, connect
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.listener import Listener, Talk, listening
from tests.qmgr_client.scripted import delivery


async def opened(talk: Talk) -> int:
    request = await talk.hear(m.Consume)
    talk.say(m.Ok(request.request_id, [3, 30_000]))
    return request.request_id


async def greeted(listener: Listener) -> Talk:
    return await listener.greet()


async def test_damaged_message_raises_and_the_next_one_arrives(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(greeted(listener))
        async with connect(listener.address) as manager:
            talk = await greeting
            consumer = manager.consume("Q")
            request_id = await opened(talk)
            damaged = delivery(b"bad", 1, 1)[:-1] + b"?"
            talk.say(m.Deliver(request_id, 3, [damaged, delivery(b"good", 2, 2)]))
            with pytest.raises(MessageDamaged) as caught:
                await anext(consumer)
            assert (await anext(consumer)).body == b"good"
            await manager.ack_soon(caught.value.message)
            settle = await talk.hear(m.Settle)
            assert settle.handles == m.HANDLE.pack(4, 1, 1)
            talk.say(m.Settled(settle.settle_id))


async def test_lost_connection_drops_what_was_not_handed_out(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(greeted(listener))
        async with connect(listener.address) as manager:
            talk = await greeting
            consumer = manager.consume("Q", prefetch=4)
            items = [delivery(b"%d" % i, i, i) for i in (1, 2, 3)]
            talk.say(m.Deliver(await opened(talk), 3, items))
            assert (await anext(consumer)).body == b"1"
            talk.close()
            talk = await listener.greet()
            request = await talk.hear(m.Consume)
            assert request.messages == 3, "the application has one of four"
            talk.say(m.Ok(request.request_id, [3, 30_000]))
            talk.say(m.Deliver(request.request_id, 3, [delivery(b"2", 2, 12, state=1)]))
            again = await anext(consumer)
            assert (again.body, again.redelivered) == (b"2", "yes")


async def test_waiting_for_a_message_can_be_given_up(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(greeted(listener))
        async with connect(listener.address) as manager:
            talk = await greeting
            consumer = manager.consume("Q")
            request_id = await opened(talk)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await anext(consumer)
            talk.say(m.Deliver(request_id, 3, [delivery(b"x")]))
            assert (await anext(consumer)).body == b"x"


async def test_consumer_that_python_drops_is_cancelled(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(greeted(listener))
        async with connect(listener.address) as manager:
            talk = await greeting
            consumer = manager.consume("Q")
            request_id = await opened(talk)
            del consumer
            gc.collect()
            assert (await talk.hear(m.Cancel)).request_id == request_id
            talk.say(m.Ended(request_id, ErrorCode.CANCELLED, "cancelled"))


async def test_close_ends_the_loop_of_another_task(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(greeted(listener))
        async with connect(listener.address) as manager:
            talk = await greeting

            async def consume() -> list[bytes]:
                return [message.body async for message in manager.consume("Q")]

            consuming = asyncio.create_task(consume())
            await opened(talk)
        assert await consuming == []


async def test_nothing_is_handed_out_once_the_client_is_being_closed(tmp_path: Path) -> None:
    """The application could no longer settle such a message."""
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(greeted(listener))
        manager = connect(listener.address)
        opening = asyncio.create_task(manager.open())
        talk = await greeting
        await opening
        consumer = manager.consume("Q")
        items = [delivery(b"%d" % i, i, i) for i in (1, 2)]
        talk.say(m.Deliver(await opened(talk), 3, items))
        message = await anext(consumer)
        await manager.ack_soon(message)  # close() waits for an answer that never arrives.
        closing = asyncio.create_task(manager.close(timeout_ms=50))
        await asyncio.sleep(0)
        assert [each.body async for each in consumer] == []
        await closing


async def test_first_lease_starts_before_the_application_has_its_message(tmp_path: Path) -> None:
    """If the message crashes the application, the client may not be able to send again."""
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(greeted(listener))
        async with connect(listener.address) as manager:
            talk = await greeting
            consumer = manager.consume("Q")
            talk.say(m.Deliver(await opened(talk), 3, [delivery(b"x", 1, 1)]))
            await anext(consumer)
            written = manager._session.core._settles.frames_sent
            assert written == 1, "the loop has had a turn since then"
            assert (await talk.hear(m.Settle)).action == m.RENEW
