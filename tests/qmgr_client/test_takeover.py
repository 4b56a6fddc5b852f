"""Tests of a client that follows a queue manager from one member to another."""

import asyncio
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_client.errors import ConnectionEnded
from qmgr_protocol.errors import ErrorCode
from tests.member import members, take_over
from tests.qmgr_client.served import serve


async def test_each_put_is_stored_once_over_takeovers(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(300)]
    async with serve(tmp_path) as socket, members(socket) as (one, two), asyncio.timeout(60):
        async with connect(f"{one.address},{two.address}") as client:
            await client.admin.queue_create("Q")
            futures = []
            for number, body in enumerate(bodies):
                futures.append(await client.submit("Q", body))
                if number == 100:
                    await futures[50]
                    await take_over(one, two)
                elif number == 200:
                    await futures[150]
                    await take_over(two, one)
            results = await asyncio.gather(*futures)
        assert len({result.uid for result in results}) == len(bodies)
        async with connect(socket) as client:
            found = []
            while batch := await client.get_many("Q", 256):
                found += [message.body for message in batch]
                await client.ack_many(batch)
    assert found == bodies


async def test_consumer_continues_after_a_takeover(tmp_path: Path) -> None:
    async with (
        serve(tmp_path) as socket,
        members(socket) as (one, two),
        asyncio.timeout(60),
        connect(f"{two.address},{one.address}") as client,
        connect(socket) as other,
    ):
        await client.admin.queue_create("Q")
        consumer = client.consume("Q", prefetch=1)
        for body in (b"a", b"b", b"c"):
            await other.put("Q", body)
            message = await anext(consumer)
            assert message.body == body
            await client.ack(message)
            await take_over(one, two)
            one, two = two, one


async def test_request_during_a_takeover_is_answered_after_it(tmp_path: Path) -> None:
    async with (
        serve(tmp_path) as socket,
        members(socket) as (one, two),
        asyncio.timeout(60),
        connect(f"{one.address},{two.address}") as client,
    ):
        await one.step_down()
        waiting = asyncio.create_task(client.admin.queue_create("Q"))
        await asyncio.wait([waiting], timeout=0.2)
        assert not waiting.done()
        two.is_active = True
        await waiting


async def test_takeover_that_does_not_happen_is_given_up(tmp_path: Path) -> None:
    async with (
        serve(tmp_path) as socket,
        members(socket) as (one, two),
        asyncio.timeout(60),
        connect(f"{one.address},{two.address}", give_up_ms=300) as client,
    ):
        await one.step_down()
        with pytest.raises(ConnectionEnded) as failure:
            await client.admin.queue_create("Q")
    assert failure.value.code == ErrorCode.LIVENESS_EXPIRED
    for member in (one, two):
        assert f"{member.address}: the queue manager ended the connection" in failure.value.text
