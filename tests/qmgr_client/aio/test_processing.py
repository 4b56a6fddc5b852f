"""Tests of processing blocks with a real daemon. The end of a block settles its message."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qmgr_client.aio import Message, QueueManager, RequestError, connect
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.listener import listening
from tests.qmgr_client.scripted import delivery
from tests.qmgr_client.served import serve


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[QueueManager]:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q", backout_threshold=2, backout_queue="DEAD")
        await manager.admin.queue_create("DEAD")
        yield manager


async def got(manager: QueueManager, queue: str = "Q") -> Message:
    message = await manager.get(queue, wait_ms=5_000)
    assert message is not None
    return message


async def depth(manager: QueueManager, queue: str = "Q") -> int:
    return int((await manager.admin.queue_show(queue))["depth"])


async def test_block_that_ends_acknowledges(manager: QueueManager) -> None:
    await manager.put("Q", b"x")
    message = await got(manager)
    async with manager.processing(message) as same:
        assert same is message
        assert await depth(manager) == 1, "the block has not ended yet"
    assert await depth(manager) == 0


async def test_exception_goes_with_the_message_to_its_dead_letter(manager: QueueManager) -> None:
    await manager.put("Q", b"x")
    for _ in range(2):
        with pytest.raises(LookupError, match="no such customer"):
            async with manager.processing(await got(manager)):
                raise LookupError("no such customer")
    dead = await got(manager, "DEAD")
    assert dead.dead is not None
    assert (dead.dead.reason, dead.dead.text) == ("LookupError", "no such customer")
    assert [attempt.reason for attempt in dead.attempts] == ["LookupError"] * 2


async def test_cancelled_work_goes_back_and_is_no_failure(manager: QueueManager) -> None:
    await manager.put("Q", b"x")
    begun = asyncio.Event()

    async def work(message: Message) -> None:
        async with manager.processing(message):
            begun.set()
            await asyncio.Event().wait()

    for _ in range(3):  # more often than the limit of failures
        task = asyncio.create_task(work(await got(manager)))
        await begun.wait()
        begun.clear()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    message = await got(manager)
    assert (message.failed, message.redelivered) == (0, "yes")
    assert await depth(manager, "DEAD") == 0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_end_of_the_program_is_no_failure(
    manager: QueueManager, kind: type[BaseException]
) -> None:
    await manager.put("Q", b"x")
    with pytest.raises(kind):
        async with manager.processing(await got(manager)):
            raise kind
    message = await got(manager)
    assert (message.failed, message.redelivered) == (0, "yes")


async def test_cancelled_work_waits_for_nothing(tmp_path: Path) -> None:
    """A silent connection does not delay the exit of a program."""
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            getting = asyncio.create_task(manager.get("Q"))
            request = await talk.hear(m.Get)
            talk.say(m.Deliver(request.request_id, 3, [delivery(b"x", 1, 1)]))
            message = await getting
            assert message is not None
            with pytest.raises(asyncio.CancelledError):
                async with manager.processing(message):
                    raise asyncio.CancelledError
            settle = await talk.hear(m.Settle)
            assert (settle.action, settle.delay_ms) == (m.RETURN, 0)
            talk.say(m.Settled(settle.settle_id))


async def test_settle_inside_the_block_is_kept(manager: QueueManager) -> None:
    await manager.put("Q", b"rejected")
    async with manager.processing(await got(manager)) as message:
        await manager.reject(message, "BAD")
    assert (await got(manager, "DEAD")).body == b"rejected"
    await manager.put("Q", b"released")
    async with manager.processing(await got(manager)) as message:
        await manager.release(message, failed=False)
    assert await depth(manager) == 1, "an ack at the end would have removed it"
    async with manager.processing(await got(manager)) as message, manager.unit_of_work() as unit:
        await unit.ack(message)
    assert await depth(manager) == 0
    await manager.put("Q", b"twice")
    async with manager.processing(await got(manager)) as message:
        await manager.ack(message)
    assert await depth(manager) == 0


async def test_settle_that_is_refused_inside_leaves_the_message_to_the_block(
    manager: QueueManager,
) -> None:
    await manager.put("Q", b"x")
    async with manager.processing(await got(manager)) as message:
        with pytest.raises(RequestError) as caught:
            await manager.release(message, delay_ms=-7)
        assert caught.value.code == ErrorCode.VALUE_INVALID
    assert await depth(manager) == 0


async def test_lost_lease_raises(manager: QueueManager, tmp_path: Path) -> None:
    await manager.put("Q", b"x")
    async with connect(f"unix:{tmp_path}/qmgrd.sock") as other:
        message = await manager.get("Q", lease_ms=20)
        assert message is not None
        with pytest.raises(RequestError) as caught:
            async with manager.processing(message):
                taken = await got(other)
        assert caught.value.code == ErrorCode.LEASE_LOST
        await other.ack(taken)


async def test_error_of_the_work_comes_before_that_of_its_release(manager: QueueManager) -> None:
    await manager.put("Q", b"x")
    message = await manager.get("Q", lease_ms=20)
    assert message is not None

    async def work() -> None:
        async with manager.processing(message):
            assert (await got(manager)).uid == message.uid, "the message is leased again"
            raise LookupError("no such customer")

    with pytest.raises(LookupError) as caught:
        await work()
    (note,) = caught.value.__notes__
    assert note.startswith("the message could not be released: LEASE_LOST")
