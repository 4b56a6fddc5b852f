"""Tests of requests and replies on the event loop, with a real daemon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import (
    ConnectionEnded,
    Message,
    QueueManager,
    RequestError,
    RequestTimeout,
    connect,
)
from qmgr_protocol.errors import ErrorClass, ErrorCode
from tests.qmgr_client.served import serve


@asynccontextmanager
async def replying(manager: QueueManager, queue: str = "ASKED") -> AsyncIterator[None]:
    """Replies to each request on *queue* with its body in capitals."""

    async def replies() -> None:
        async for message in manager.consume(queue):
            async with manager.processing(message):
                await manager.reply(message, message.body.upper())

    task = asyncio.create_task(replies())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    async with serve(tmp_path) as address:
        async with connect(address) as manager:
            await manager.admin.queue_create("ASKED")
        yield address


async def test_each_request_has_its_own_reply(address: str) -> None:
    async with connect(address) as worker, connect(address) as manager, replying(worker):
        replies = await asyncio.gather(
            *(manager.request("ASKED", b"pears %d" % number) for number in range(50))
        )
        assert [reply.body for reply in replies] == [b"PEARS %d" % n for n in range(50)]
        assert (await manager.admin.queue_show("ASKED"))["depth"] == 0


async def test_client_has_one_reply_address_for_all_requests(address: str) -> None:
    async with connect(address) as worker:
        async with connect(address) as manager, replying(worker):
            await asyncio.gather(*(manager.request("ASKED", b"x") for _ in range(5)))
            await manager.request("ASKED", b"x")
            (row,) = await manager.admin.subscription_list()
            assert row["topic"].startswith("replies/")
            assert row["depth"] == 0, "replies are acknowledged"
        assert await worker.admin.subscription_list() == [], "the subscription ends with its client"


async def test_request_can_go_to_a_topic(address: str) -> None:
    async with connect(address) as worker, connect(address) as manager:
        await worker.admin.subscription_create("prices/#", "SHOP:prices")
        async with replying(worker, "SHOP:prices"):
            assert (await manager.request("/prices/pears", b"x")).body == b"X"


async def test_request_to_a_queue_behind_a_link_is_refused(address: str) -> None:
    async with connect(address) as manager:
        with pytest.raises(RequestError, match="PRICES@NYC is a queue of another queue manager"):
            await manager.request("PRICES@NYC", b"x")


async def test_request_without_a_reply_times_out(address: str) -> None:
    async with connect(address) as manager:
        with pytest.raises(RequestTimeout, match="no reply to a request on ASKED within 30 ms"):
            await manager.request("ASKED", b"x", 30)
        with pytest.raises(TimeoutError) as caught:
            await manager.request("ASKED", b"x", 30)
        assert isinstance(caught.value, RequestError)
        assert caught.value.error_class is ErrorClass.UNKNOWN_OUTCOME


@pytest.mark.parametrize(("options", "lives_ms"), [({}, 60_000), ({"expiry_ms": 90_000}, 90_000)])
async def test_request_expires_with_its_timeout(
    address: str, options: dict[str, Any], lives_ms: int
) -> None:
    async with connect(address) as manager:
        asking = asyncio.create_task(manager.request("ASKED", b"x", 60_000, **options))
        message = await manager.get("ASKED", wait_ms=5_000)
        assert message is not None
        assert message.expiry_left_ms is not None
        assert lives_ms - 30_000 < message.expiry_left_ms <= lives_ms
        asking.cancel()


async def test_late_and_second_replies_reach_no_other_request(address: str) -> None:
    async with connect(address) as manager:
        waiting = asyncio.create_task(manager.request("ASKED", b"late", 1_000, expiry_ms=0))
        late = await manager.get("ASKED", wait_ms=5_000)
        assert late is not None
        with pytest.raises(RequestTimeout):
            await waiting
        asking = asyncio.create_task(manager.request("ASKED", b"x"))
        message = await manager.get("ASKED", wait_ms=5_000)
        assert message is not None
        assert (await manager.reply(late, b"late")).subscriptions == 1
        assert not asking.done()
        for body in (b"first", b"second"):
            await manager.reply(message, body)
        assert (await asking).body == b"first"


async def test_reply_to_a_client_that_is_gone_reaches_nobody(address: str) -> None:
    async with connect(address) as worker:
        async with connect(address) as manager:
            asking = asyncio.create_task(manager.request("ASKED", b"x"))
            message = await worker.get("ASKED", wait_ms=5_000)
            assert message is not None
        with pytest.raises(ConnectionEnded, match="closed"):
            await asking
        assert (await worker.reply(message, b"y")).subscriptions == 0


async def test_refused_request_raises_at_once(address: str) -> None:
    async with connect(address) as manager:
        with pytest.raises(RequestError) as caught:
            await manager.request("NONE", b"x", 600_000)
        assert caught.value.code == ErrorCode.QUEUE_UNKNOWN


@pytest.mark.parametrize(
    "options", [{"timeout_ms": 0}, {"timeout_ms": 1.5}, {"reply_to": "Q"}, {"correlation_id": b"c"}]
)
async def test_invalid_options_of_a_request_are_refused(
    address: str, options: dict[str, Any]
) -> None:
    async with connect(address) as manager:
        with pytest.raises(RequestError) as caught:
            await manager.request("ASKED", b"x", **options)
        assert caught.value.code == ErrorCode.VALUE_INVALID
        assert (await manager.admin.queue_show("ASKED"))["depth"] == 0


async def test_message_that_wants_no_reply_gets_none(address: str) -> None:
    async with connect(address) as manager:
        await manager.put("ASKED", b"x")
        message = await manager.get("ASKED")
        assert message is not None
        with pytest.raises(RequestError, match="has no reply_to"):
            await manager.reply(message, b"y")


async def test_reply_to_a_queue_has_the_correlation_id_of_its_request(address: str) -> None:
    async with connect(address) as manager:
        await manager.admin.queue_create("REPLIES")
        await manager.put("ASKED", b"x", reply_to="REPLIES", correlation_id=b"4711")
        async with replying(manager):
            reply = await manager.get("REPLIES", 5_000, correlation_id=b"4711")
        assert reply is not None
        assert reply.body == b"X"


async def answered(manager: QueueManager) -> Message:
    """Sends requests until a reply arrives. Earlier replies may be lost with their connection."""
    while True:
        try:
            return await manager.request("ASKED", b"x", 200)
        except RequestTimeout:
            continue


async def test_requests_go_on_after_a_lost_connection(address: str) -> None:
    async with connect(address) as worker, connect(address) as manager, replying(worker):
        await manager.request("ASKED", b"x")
        manager._session.drop()
        assert (await answered(manager)).body == b"X"
        (row,) = await manager.admin.subscription_list()
        assert row["topic"].startswith("replies/")


async def test_requests_go_on_after_a_restart(tmp_path: Path) -> None:
    async with serve(tmp_path) as address:
        manager = connect(address)
        await manager.open()
        await manager.admin.queue_create("ASKED")
        async with replying(manager):
            await manager.request("ASKED", b"x")
    async with serve(tmp_path):
        async with replying(manager):
            assert (await answered(manager)).body == b"X"
        await manager.close()


async def test_requests_go_on_after_their_address_has_ended(address: str) -> None:
    async with connect(address) as manager:
        asking = asyncio.create_task(manager.request("ASKED", b"x", 600_000))
        message = await manager.get("ASKED", wait_ms=5_000)
        assert message is not None
        (row,) = await manager.admin.subscription_list()
        await manager.unsubscribe(row["subscription"])
        with pytest.raises(RequestError) as caught:
            await asking
        assert caught.value.code == ErrorCode.QUEUE_DELETED
        await manager.ack(message)
        async with replying(manager):
            assert (await manager.request("ASKED", b"x")).body == b"X"


async def test_request_without_room_for_its_address_is_refused(tmp_path: Path) -> None:
    async with serve(tmp_path, subscriptions_max=1) as address, connect(address) as manager:
        await manager.admin.queue_create("ASKED")
        await manager.admin.subscription_create("a/#", "A:a")
        with pytest.raises(RequestError) as caught:
            await manager.request("ASKED", b"x")
        assert caught.value.code == ErrorCode.SUBSCRIPTIONS_EXHAUSTED
        await manager.unsubscribe("A:a")
        async with replying(manager):
            assert (await manager.request("ASKED", b"x")).body == b"X"
