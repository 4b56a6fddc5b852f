"""Tests of the methods for topics: their requests, and their effects on a real daemon."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from qmgr_client import blocking
from qmgr_client.aio import Outgoing, QueueManager, RequestError, Uid, connect
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import encode_uid
from tests.qmgr_client.listener import listening
from tests.qmgr_client.served import serve

UID = Uid("QM1", 77)


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[QueueManager]:
    async with serve(tmp_path) as address, connect(address, name="ops") as manager:
        yield manager


async def test_publication_comes_to_all_who_subscribed(manager: QueueManager) -> None:
    """C1, C4: Each subscription receives a copy, and all copies have the same UID."""
    await manager.admin.subscription_create("flights/+/UA", "A:s")
    await manager.admin.subscription_create("flights/#", "B:s", where="priority > 4")
    assert (await manager.publish("ships/1", b"x")).subscriptions == 0
    result = await manager.publish("flights/JFK/UA", b"late", headers={"n": 1}, priority=9)
    assert result.subscriptions == 2
    for name in ("A:s", "B:s"):
        found = await manager.get(name)
        assert found is not None
        assert (found.uid, found.body, found.headers) == (result.uid, b"late", {"n": 1})
        assert (found.topic, found.republished, found.retained) == ("flights/JFK/UA", False, False)
        await manager.ack(found)
    assert (await manager.admin.queue_show("SYSTEM.PUBLICATIONS"))["depth"] == 0


async def test_many_are_published_at_once(manager: QueueManager) -> None:
    """C1: Publications with equal bodies are distinct publications."""
    await manager.admin.subscription_create("a/#", ":s")
    results = await manager.publish_many("a/b", [b"x", b"x", Outgoing(b"y", priority=9)])
    assert len({result.uid for result in results}) == 3  # type: ignore[union-attr]
    assert [result.subscriptions for result in results] == [1, 1, 1]  # type: ignore[union-attr]
    found = await manager.get_many(":s", 9)
    assert [message.body for message in found] == [b"y", b"x", b"x"]


async def test_publication_in_a_unit_of_work_goes_out_with_it(manager: QueueManager) -> None:
    await manager.admin.subscription_create("a/#", ":s")
    async with manager.unit_of_work() as unit:
        result = await unit.put("/a/b", b"x")
        assert result.subscriptions is None
        assert await manager.get(":s") is None
    found = await manager.get(":s")
    assert found is not None
    assert (found.uid, found.topic) == (result.uid, "a/b")


async def test_retained_publication_comes_first(manager: QueueManager) -> None:
    for body in (b"old", b"new"):
        await manager.publish("gates/JFK/4", body, retained=True)
    async with manager.subscribe("gates/#") as subscription:
        first = await anext(subscription)
        assert (first.body, first.retained, first.topic) == (b"new", True, "gates/JFK/4")
    (row,) = await manager.admin.topic_list()
    assert (row["topic"], row["retained"], row["given"]) == ("gates/JFK/4", True, [])
    await manager.admin.subscription_create("gates/#", ":late", retained=False)
    assert await manager.get(":late") is None
    await manager.admin.topic_delete("gates/JFK/4", retained=True)
    assert await manager.admin.topic_list() == []
    with pytest.raises(RequestError) as caught:
        await manager.admin.topic_delete("gates/JFK/4", retained=True)
    assert caught.value.code == ErrorCode.TOPIC_UNKNOWN


async def test_empty_publication_has_its_topic_keep_nothing(manager: QueueManager) -> None:
    await manager.publish("gates/JFK/4", b"UA 1", retained=True)
    await manager.publish("gates/JFK/4", b"", retained=True)
    assert not (await manager.admin.topic_show("gates/JFK/4"))["retained"]


@pytest.mark.parametrize("topic", ["a//b", "", "a/+", "a@b"])
async def test_topic_that_is_none_is_refused(manager: QueueManager, topic: str) -> None:
    with pytest.raises(RequestError) as caught:
        await manager.publish(topic, b"x")
    assert caught.value.code == ErrorCode.TOPIC_INVALID


ROW = {"job": 7}


@pytest.mark.parametrize(
    ("verb", "asked", "answer", "value"),
    [
        (
            lambda x: x.admin.republish(
                where="n = 1",
                uid=UID,
                subscriptions=("A:s", "B:s"),
                rate=5,
                messages_max=9,
                drop=True,
            ),
            m.Republish(1, True, encode_uid(UID), "n = 1", ["A:s", "B:s"], 5, 9),
            ROW,
            ROW,
        ),
        (lambda x: x.admin.republish(), m.Republish(1), ROW, ROW),
        (
            lambda x: x.admin.subscription_create(
                "a/+", "B:s", where="n = 1", depth_max=1, retained=False
            ),
            m.Subscribe(1, "a/+", "B:s", "n = 1", {"depth_max": 1}, False),
            {},
            {},
        ),
        (
            lambda x: x.admin.subscription_list("a"),
            m.SubscriptionList(1, topic="a"),
            {"subscriptions": [ROW], "next": None},
            [ROW],
        ),
        (lambda x: x.admin.topic_lacks(UID), m.TopicLacks(1, encode_uid(UID)), {}, {}),
        (
            lambda x: x.admin.topic_delete("a", retained=True),
            m.TopicDelete(1, "a", True),
            None,
            None,
        ),
    ],
)
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_requests_of_topics(
    tmp_path: Path, verb: Any, asked: Any, answer: Any, value: Any, is_blocking: bool
) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        if is_blocking:
            task = asyncio.create_task(asyncio.to_thread(_asked, listener.address, verb))
        else:
            task = asyncio.create_task(_awaited(listener.address, verb))
        talk = await greeting
        request = await talk.hear(type(asked))
        assert request == asked._replace(request_id=request.request_id)
        talk.say(m.Ok(request.request_id, answer))
        assert await task == value


async def _awaited(address: str, verb: Any) -> Any:
    async with connect(address) as manager:
        return await verb(manager)


def _asked(address: str, verb: Any) -> Any:
    with blocking.connect(address) as client:
        return verb(client)
