"""Tests of subscriptions on the event loop: lost connections, and ends of subscriptions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import ConnectionEnded, RequestError, connect
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.listener import Listener, Talk, listening
from tests.qmgr_client.scripted import delivery
from tests.qmgr_client.served import serve

TOPIC = b"flights/JFK/UA"


def publication(body: bytes, number: int = 1) -> bytes:
    """Returns the delivery item of a publication."""
    return delivery(body, number, state=m.STATE_TOPIC) + bytes([len(TOPIC)]) + TOPIC


async def subscribed(talk: Talk, name: str) -> m.Subscribe:
    """Answers a Subscribe with a subscription of the given name."""
    request = await talk.hear(m.Subscribe)
    talk.say(m.Ok(request.request_id, {"subscription": name}))
    return request


async def consumed(talk: Talk, name: str, *items: bytes) -> int:
    """Answers the Consume of the subscription *name*, and delivers *items*."""
    request = await talk.hear(m.Consume)
    assert request.queue == name
    talk.say(m.Ok(request.request_id, [3, 30_000]))
    if items:
        talk.say(m.Deliver(request.request_id, 3, list(items)))
    return request.request_id


async def refused(talk: Talk, code: int = ErrorCode.SUBSCRIPTION_UNKNOWN) -> None:
    """Refuses the consumer."""
    request = await talk.hear(m.Consume)
    talk.say(m.Error(request.request_id, code, 2, 0, "there is none"))


async def ended(talk: Talk, name: str) -> None:
    """Answers a Cancel and the Unsubscribe after it."""
    cancel = await talk.hear(m.Cancel)
    talk.say(m.Ended(cancel.request_id, ErrorCode.CANCELLED))
    request = await talk.hear(m.Unsubscribe)
    assert request.subscription == name
    talk.say(m.Ok(request.request_id, {"messages": 0}))


def greeting(listener: Listener) -> "asyncio.Task[Talk]":
    return asyncio.create_task(listener.greet())


async def test_subscription_sends_its_arguments(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeted = greeting(listener)
        async with connect(listener.address) as manager:
            talk = await greeted
            subscription = manager.subscribe(
                "flights/+/UA",
                "B:late",
                where="late",
                attributes={"depth_max": 9},
                retained=False,
                prefetch=7,
                lease_ms=500,
                groups="pinned",
                all_available=True,
            )
            opening = asyncio.create_task(subscription.open())
            request = await subscribed(talk, "B:late")
            assert request[1:] == ("flights/+/UA", "B:late", "late", {"depth_max": 9}, False)
            consume = await talk.hear(m.Consume)
            assert (consume.queue, consume.messages, consume.lease_ms) == ("B:late", 7, 500)
            assert (consume.order, consume.all_available) == (m.PINNED, True)
            await opening


async def test_one_that_is_not_durable_has_another_name_after_a_lost_connection(
    tmp_path: Path,
) -> None:
    """C2, C17: The messages of the old subscription are lost."""
    async with listening(tmp_path) as listener:
        greeted = greeting(listener)
        async with connect(listener.address) as manager:
            talk = await greeted
            subscription = manager.subscribe("flights/#")
            assert subscription.name == ""
            first = asyncio.create_task(anext(subscription))
            await subscribed(talk, "~1-a.1")
            await consumed(talk, "~1-a.1", publication(b"before"))
            assert ((await first).body, (await first).topic) == (b"before", TOPIC.decode())
            assert subscription.name == "~1-a.1"
            second = asyncio.create_task(anext(subscription))
            talk.close()
            talk = await listener.greet()
            await refused(talk)
            assert (await subscribed(talk, "~1-a.2")).subscription == ""
            await consumed(talk, "~1-a.2", publication(b"after"))
            assert (await second).body == b"after"
            assert subscription.name == "~1-a.2"
            leaving = asyncio.create_task(subscription.cancel())
            await ended(talk, "~1-a.2")
            await leaving


async def test_connection_that_is_lost_before_the_answer_subscribes_once_more(
    tmp_path: Path,
) -> None:
    async with listening(tmp_path) as listener:
        greeted = greeting(listener)
        async with connect(listener.address) as manager:
            talk = await greeted
            opening = asyncio.create_task(manager.subscribe("flights/#").open())
            await talk.hear(m.Subscribe)
            talk.close()
            talk = await listener.greet()
            await subscribed(talk, "~1-a.2")
            await consumed(talk, "~1-a.2")
            await opening


async def test_durable_one_goes_on_after_a_lost_connection(tmp_path: Path) -> None:
    """C3: A durable subscription continues under the same name."""
    async with listening(tmp_path) as listener:
        greeted = greeting(listener)
        async with connect(listener.address) as manager:
            talk = await greeted
            subscription = manager.subscribe("flights/#", "B:late")
            first = asyncio.create_task(anext(subscription))
            await subscribed(talk, "B:late")
            await consumed(talk, "B:late")
            talk.close()
            talk = await listener.greet()
            await consumed(talk, "B:late", publication(b"x"))
            assert (await first).body == b"x"
            assert subscription.name == "B:late"


async def test_durable_one_that_somebody_ended_is_not_made_again(tmp_path: Path) -> None:
    """C23: The iterator raises an error and does not create the subscription again."""
    async with listening(tmp_path) as listener:
        greeted = greeting(listener)
        async with connect(listener.address) as manager:
            talk = await greeted
            first = asyncio.create_task(anext(manager.subscribe("flights/#", "B:late")))
            await subscribed(talk, "B:late")
            await consumed(talk, "B:late")
            talk.close()
            talk = await listener.greet()
            await refused(talk)
            with pytest.raises(RequestError) as caught:
                await first
            assert caught.value.code == ErrorCode.SUBSCRIPTION_UNKNOWN


async def test_refusal_is_raised_and_the_next_try_asks_again(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.subscription_create("flights/#", "B:late")
        subscription = manager.subscribe("ships/#", "B:late")
        for attempt in (subscription.open, subscription.__aenter__, lambda: anext(subscription)):
            with pytest.raises(RequestError) as caught:
                await attempt()
            assert caught.value.code == ErrorCode.SUBSCRIPTION_EXISTS
        await manager.unsubscribe("B:late")
        async with subscription:
            assert subscription.name == "B:late"


async def names(manager: Any) -> list[str]:
    return [row["subscription"] for row in await manager.admin.subscription_list()]


async def test_cancel_ends_one_that_is_not_durable_and_leaves_the_others(tmp_path: Path) -> None:
    """C17, G26: Only the durable subscription remains after the block."""
    async with serve(tmp_path) as address, connect(address) as manager:
        async with manager.subscribe("a/#") as passing, manager.subscribe("a/#", "B:stays"):
            result = await manager.publish("a/b", b"x")
            assert result.subscriptions == 2
            message = await anext(passing)
            assert await names(manager) == ["B:stays", passing.name]
        assert await names(manager) == ["B:stays"]
        await manager.ack(message)  # The message was deleted, so the ack succeeds.
        assert (await manager.admin.queue_show("B:stays"))["consumers"] == 0


async def test_loop_ends_where_it_is_cancelled(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        for name in ("", "B:s"):
            async with manager.subscribe("a/#", name) as subscription:
                await manager.publish_many("a/b", [b"1", b"2"])
                found = []
                async for message in subscription:
                    found.append(message.body)
                    await manager.ack(message)
                    if len(found) == 2:
                        await subscription.cancel()
            assert found == [b"1", b"2"]
            await subscription.cancel()  # A second cancel has no effect.
        assert await names(manager) == ["B:s"]


async def test_it_may_be_opened_again(tmp_path: Path) -> None:
    """C2: The reopened subscription has a new name."""
    async with serve(tmp_path) as address, connect(address) as manager:
        subscription, found = manager.subscribe("a/#"), []
        for _ in range(2):
            async with subscription:
                found.append(subscription.name)
                await manager.publish("a", b"x")
                assert (await anext(subscription)).topic == "a"
        assert len(set(found)) == 2


async def test_cancelled_wait_leaves_one_subscription(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeted = greeting(listener)
        async with connect(listener.address) as manager:
            talk = await greeted
            subscription = manager.subscribe("flights/#")
            waiting = [asyncio.ensure_future(anext(subscription)) for _ in range(2)]
            request = await talk.hear(m.Subscribe)
            for future in waiting:
                future.cancel()
            await asyncio.wait(waiting)
            again = asyncio.ensure_future(anext(subscription))
            talk.say(m.Ok(request.request_id, {"subscription": "~1-a.1"}))
            await consumed(talk, "~1-a.1", publication(b"x"))
            assert (await again).body == b"x"
            leaving = asyncio.create_task(subscription.cancel())
            await ended(talk, "~1-a.1")
            await leaving


async def test_tasks_share_one(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        subscription = manager.subscribe("a/#")
        await subscription.open()
        waiting = [asyncio.ensure_future(anext(subscription)) for _ in range(3)]
        assert (await manager.publish("a/b", b"x")).subscriptions == 1
        await manager.publish_many("a/b", [b"x", b"x"])
        found = [await future for future in waiting]
        await manager.ack_many(found)
        assert len({message.uid for message in found}) == 3
        await subscription.cancel()


async def test_block_ends_quietly_where_the_connection_did(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeted = greeting(listener)
        async with connect(listener.address, give_up_ms=0) as manager:
            talk = await greeted
            subscription = manager.subscribe("flights/#")
            first = asyncio.create_task(anext(subscription))
            await subscribed(talk, "~1-a.1")
            await consumed(talk, "~1-a.1")
            talk.say(m.Goaway(ErrorCode.CANCELLED, "closed by an operator"))
            with pytest.raises(ConnectionEnded):
                await first
            await subscription.cancel()
