"""Tests of putting and getting with asyncio and a real daemon."""

import asyncio
from pathlib import Path

import pytest

from qmgr_client.aio import Outgoing, PutResult, QueueManager, RequestError, Uid, connect
from qmgr_protocol.errors import ErrorClass, ErrorCode
from tests.qmgr_client.served import serve


async def bodies(manager: QueueManager, queue: str = "Q") -> list[bytes]:
    return [message.body async for message in manager.browse(queue)]


async def test_message_makes_a_round_trip(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        assert manager.name == "QM1"
        await manager.admin.queue_create("Q")
        result = await manager.put(
            "Q",
            b"apples",
            priority=7,
            correlation_id=b"c",
            headers={"customer": "ann", "kg": 3},
            reply_to="R",
            content_type="text/plain",
        )
        message = await manager.get("Q")
        assert message is not None
        assert (message.body, message.uid, message.queue) == (b"apples", result.uid, "Q")
        assert (message.priority, message.correlation_id) == (7, b"c")
        assert message.headers == {"customer": "ann", "kg": 3}
        assert (message.reply_to, message.content_type) == ("R", "text/plain")
        assert (message.redelivered, message.delivered, message.failed) == ("no", 0, 0)
        assert await manager.get("Q") is None
        await manager.ack(message)
        assert (await manager.admin.queue_show("Q"))["depth"] == 0


async def test_released_message_comes_again(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put("Q", b"x")
        first = await manager.get("Q")
        assert first is not None
        await manager.release(first)
        second = await manager.get("Q")
        assert second is not None
        assert (second.uid, second.redelivered, second.failed) == (first.uid, "yes", 1)


async def test_refusal_has_its_code(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        for asking in (
            manager.put("NONE", b"x"),
            manager.get("NONE"),
            manager.admin.queue_show("NONE"),
        ):
            with pytest.raises(RequestError, match="does not exist") as caught:
                await asking
            assert caught.value.code == ErrorCode.QUEUE_UNKNOWN
            assert caught.value.error_class is ErrorClass.NEVER


async def test_put_many_returns_a_result_for_each(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q", depth_max=3)
        uid = Uid("ELSEWHERE", 5)
        results = await manager.put_many(
            "Q", [b"a", Outgoing(b"b", uid=uid), Outgoing(b"?", priority=11), b"c", b"d"]
        )
        assert isinstance(results[0], PutResult)
        assert results[1] == PutResult(uid, resent=False)
        codes = [result.code for result in results if isinstance(result, RequestError)]
        assert codes == [ErrorCode.VALUE_INVALID, ErrorCode.QUEUE_FULL]
        assert await bodies(manager) == [b"a", b"b", b"c"]


async def test_uids_of_a_large_batch_are_in_order_and_each_its_own(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        results = await manager.put_many("Q", [b"%d" % i for i in range(3_000)])
        stamps = [r.uid.timestamp for r in results if isinstance(r, PutResult) and r.uid]
        assert len(set(stamps)) == 3_000
        assert stamps == sorted(stamps)
        found = [message async for message in manager.browse("Q", 250)]
        assert [message.uid.timestamp for message in found if message.uid] == stamps[:250]


async def test_consumer_hands_out_what_comes(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        seen: list[bytes] = []

        async def take() -> None:
            async for message in manager.consume("Q", prefetch=8):
                seen.append(message.body)
                await manager.ack(message)
                if len(seen) == 100:
                    return

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(take())
            for number in range(100):
                await manager.put("Q", b"%d" % number)
        assert seen == [b"%d" % number for number in range(100)]
        assert (await manager.admin.queue_show("Q"))["depth"] == 0


async def test_cancelled_consumer_gives_back_what_was_not_handed_out(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put_many("Q", [b"a", b"b", b"c"])
        async with manager.consume("Q") as consumer:
            first = await anext(consumer)
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)
        await manager.ack(first)
        assert await manager.get_many("Q", 10, wait_ms=5_000) != []
        assert (await manager.admin.queue_show("Q"))["consumers"] == 0


async def test_consumer_that_is_dropped_ends(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put("Q", b"x")
        async for message in manager.consume("Q"):
            await manager.ack(message)
            break
        while (await manager.admin.queue_show("Q"))["consumers"]:
            await asyncio.sleep(0)


async def test_consumer_of_a_deleted_queue_raises(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        consumer = manager.consume("Q")
        waiting = asyncio.create_task(anext(consumer))
        while not (await manager.admin.queue_show("Q"))["consumers"]:
            await asyncio.sleep(0)
        await manager.admin.queue_delete("Q")
        with pytest.raises(RequestError, match="was deleted"):
            await waiting


async def test_tasks_share_a_consumer(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        seen: set[bytes] = set()
        async with manager.consume("Q", prefetch=4) as consumer:

            async def take() -> None:
                async for message in consumer:
                    seen.add(message.body)
                    await manager.ack_soon(message)

            async with asyncio.TaskGroup() as tasks:
                for _ in range(3):
                    tasks.create_task(take())
                await manager.put_many("Q", [b"%d" % i for i in range(50)])
                while len(seen) < 50:
                    await asyncio.sleep(0)
                await consumer.cancel()


async def test_acks_return_a_result_for_each(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put_many("Q", [b"a", b"b"])
        old = await manager.get_many("Q", 2)
        assert len(old) == 2
        await manager.release(old[1])
        assert await manager.get("Q") is not None
        errors = await manager.ack_many(old)
        assert errors[0] is None
        assert errors[1] is not None
        assert errors[1].code == ErrorCode.LEASE_LOST


async def test_get_waits_and_is_given_up(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        getting = asyncio.create_task(manager.get("Q", wait_ms=60_000))
        await manager.admin.status()
        getting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await getting
        await manager.put("Q", b"x")
        message = await manager.get("Q", wait_ms=5_000)
        assert message is not None
        assert message.body == b"x"
