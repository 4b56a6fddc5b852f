"""Tests of the administration of topics and subscriptions, with a real daemon."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import QueueManager, RequestError, connect
from qmgr_client.rows import JobRow
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.served import serve


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[QueueManager]:
    async with serve(tmp_path) as address, connect(address, name="ops") as manager:
        yield manager


async def finished(manager: QueueManager, row: JobRow) -> JobRow:
    """Waits for the end of a job and returns its row."""
    while row["ended_us"] is None:
        row = await manager.admin.job_show(row["job"])
    return row


async def fail(manager: QueueManager, subscription: str, count: int) -> None:
    """Gets the next message, and releases it as failed, *count* times."""
    for _ in range(count):
        message = await manager.get(subscription, wait_ms=5_000)
        assert message is not None
        await manager.release(message, reason="BAD", text="no good")


async def test_definitions_of_topics(manager: QueueManager) -> None:
    row = await manager.admin.topic_set("flights", redelivery_limit=2, put_inhibit=None)
    assert (row["given"], row["redelivery_limit"]) == (["redelivery_limit"], 2)
    assert (await manager.admin.topic_show("flights/JFK"))["redelivery_limit"] == 2
    await manager.admin.topic_set("flights/JFK", put_inhibit=True)
    with pytest.raises(RequestError) as caught:
        await manager.publish("flights/JFK/UA", b"x")
    assert caught.value.code == ErrorCode.PUT_INHIBITED
    assert [row["topic"] for row in await manager.admin.topic_list()] == ["flights", "flights/JFK"]
    await manager.admin.topic_delete("flights/JFK")
    await manager.publish("flights/JFK/UA", b"x")
    with pytest.raises(
        RequestError, match="TOPIC_UNKNOWN: topic flights/JFK itself has no definition"
    ):
        await manager.admin.topic_delete("flights/JFK")
    with pytest.raises(
        RequestError, match=r"TOPIC_INVALID: 'a/\+' is not a valid topic: \+ and # are"
    ):
        await manager.admin.topic_show("a/+")


async def test_definitions_of_subscriptions(manager: QueueManager) -> None:
    row = await manager.admin.subscription_create("a/+", "B:s", redelivery_limit=0)
    assert (row["subscription"], row["topic"], row["durable"]) == ("B:s", "a/+", True)
    assert (row["redelivery_limit"], row["kind"]) == (0, "subscription")
    again = await manager.admin.subscription_create("a/+", "B:s")
    assert again["queue_id"] == row["queue_id"]
    with pytest.raises(RequestError) as caught:
        await manager.admin.subscription_create("b/+", "B:s")
    assert caught.value.code == ErrorCode.SUBSCRIPTION_EXISTS
    await manager.admin.subscription_create("b/#", ":t")
    listed = await manager.admin.subscription_list()
    assert [row["subscription"] for row in listed] == [":t", "B:s"]
    assert [row["subscription"] for row in await manager.admin.subscription_list("b/c")] == [":t"]
    assert (await manager.admin.topic_show("a/b"))["first_subscriptions"] == ["B:s"]
    await manager.publish("a/b", b"x")
    assert await manager.unsubscribe("B:s") == {"messages": 1}
    with pytest.raises(RequestError) as caught:
        await manager.unsubscribe("B:s")
    assert caught.value.code == ErrorCode.SUBSCRIPTION_UNKNOWN
    with pytest.raises(RequestError) as caught:
        await manager.put(":t", b"x")
    assert caught.value.code == ErrorCode.QUEUE_IS_SUBSCRIPTION


async def test_failed_publication_is_parked_and_republished_to_its_subscription_only(
    manager: QueueManager,
) -> None:
    """C6, C7, C8, C11, C12, C13, C24: A limit of 2 allows three deliveries."""
    await manager.admin.topic_set("a", redelivery_limit=2)
    for name in ("BAD:s", "GOOD:s", "IDLE:s"):
        await manager.admin.subscription_create("a/#", name)
    result = await manager.publish("a/b", b"x")
    assert result.uid is not None
    good = await manager.get("GOOD:s")
    assert good is not None
    await manager.ack(good)
    for failed in range(3):
        message = await manager.get("BAD:s", wait_ms=5_000)
        assert message is not None
        assert message.failed == failed
        await manager.release(message, reason="BAD", text="no good")
    assert await manager.get("BAD:s") is None
    (row,) = [row async for row in manager.admin.republish_list()]
    assert (row["uid"], row["topic"], row["subscription"]) == (str(result.uid), "a/b", "BAD:s")
    assert (row["failed"], row["reason"], row["text"]) == (3, "BAD", "no good")
    assert row["code"] == "REDELIVERY_LIMIT_EXCEEDED"
    lacks = await manager.admin.topic_lacks(row["uid"])
    assert lacks == await manager.admin.topic_lacks(result.uid)
    assert {found["subscription"]: found["state"] for found in lacks["subscriptions"]} == {
        "BAD:s": "parked",
        "IDLE:s": "ready",
    }
    async with manager.consume("BAD:s") as consumer:
        await manager.admin.status()  # The consumer is open now.
        job = await finished(manager, await manager.admin.republish(uid=row["uid"]))
        assert (job["kind"], job["done"], job["by"]) == ("republish", 1, "ops")
        again = await anext(consumer)
        assert (again.uid, again.body, again.topic) == (result.uid, b"x", "a/b")
        assert (again.failed, again.republished) == (0, True)
        await manager.ack(again)
    assert await manager.get("GOOD:s") is None
    assert [row async for row in manager.admin.republish_list()] == []
    idle = await manager.get("IDLE:s")
    assert idle is not None
    assert not idle.republished
    await manager.ack(idle)
    with pytest.raises(RequestError) as caught:
        await manager.admin.topic_lacks(result.uid)
    assert caught.value.code == ErrorCode.PUBLICATION_UNKNOWN
    with pytest.raises(RequestError, match="'QM1' is not a UID"):
        await manager.admin.topic_lacks("QM1")


async def test_parked_publications_are_selected(manager: QueueManager) -> None:
    """C9, C14: A UID, a subscription or a selector can select parked publications."""
    for name in ("A:s", "B:s"):
        await manager.admin.subscription_create("a/#", name, redelivery_limit=0)
    first = (await manager.publish("a/1", b"x", headers={"n": 1})).uid
    await manager.publish("a/2", b"x", headers={"n": 2})
    for name in ("A:s", "B:s"):
        await fail(manager, name, 2)

    async def listed(**which: Any) -> list[tuple[str, str]]:
        found = [row async for row in manager.admin.republish_list(**which)]
        return [(row["topic"], row["subscription"]) for row in found]

    assert await listed() == [("a/1", "A:s"), ("a/1", "B:s"), ("a/2", "A:s"), ("a/2", "B:s")]
    assert await listed(uid=first) == [("a/1", "A:s"), ("a/1", "B:s")]
    assert await listed(subscription="B:s") == [("a/1", "B:s"), ("a/2", "B:s")]
    assert await listed(where="n = 2 AND topic = 'a/2' AND subscription = 'A:s'") == [
        ("a/2", "A:s")
    ]
    dropping = await manager.admin.republish(where="n = 2", subscriptions=["A:s"], drop=True)
    assert (await finished(manager, dropping))["done"] == 1
    assert len(await listed()) == 3
    away = await finished(manager, await manager.admin.republish(uid=first, subscriptions=["B:s"]))
    assert (away["done"], away["skipped"]) == (0, 1)
    rows = [row async for row in manager.admin.republish_list(subscription="B:s")]
    assert [row["awaits_return"] for row in rows] == [True, False]
    returned = await manager.get("B:s", wait_ms=5_000)  # C16: the copies wait for the consumer.
    assert returned is not None
    assert (returned.topic, returned.republished) == ("a/1", True)


async def test_republish_waits_for_the_end_of_its_job(manager: QueueManager) -> None:
    for name in ("A:s", "AWAY:s"):
        await manager.admin.subscription_create("a/#", name, redelivery_limit=0)
    for _ in range(3):
        await manager.publish("a", b"x")
    for name in ("A:s", "AWAY:s"):
        await fail(manager, name, 3)
    async with manager.consume("A:s") as consumer:
        # At ten messages per second, the job is still running when the call returns.
        job = await manager.admin.republish(rate=10, wait=True)
        assert (job["state"], job["done"], job["skipped"]) == ("done", 3, 3)
        assert [(await anext(consumer)).republished for _ in range(3)] == [True] * 3


async def test_list_of_what_is_parked_has_pages(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmgr_client.aio.topics_admin.PAGE", 2)
    for number in range(5):
        await manager.admin.subscription_create("a/#", f"S:{number}", redelivery_limit=0)
    await manager.publish("a", b"x")
    for number in range(5):
        await fail(manager, f"S:{number}", 1)
    rows = [row async for row in manager.admin.republish_list()]
    assert [row["subscription"] for row in rows] == [f"S:{number}" for number in range(5)]
    assert len(await manager.admin.subscription_list()) == 5
    for number in range(5):
        await manager.admin.topic_set(f"t/{number}")
    assert len(await manager.admin.topic_list()) == 5


async def test_healthy_has_a_suspended_subscription_go_on(manager: QueueManager) -> None:
    """C14: If the topic has republish="healthy", parked publications are also delivered again."""
    await manager.admin.topic_set("a", republish="healthy", redelivery_limit=0)
    await manager.admin.subscription_create("a", ":s", depth_max=1, overflow="suspend")
    await manager.publish("a", b"1")
    await fail(manager, ":s", 1)
    await manager.publish_many("a", [b"2", b"3"])
    (row,) = await manager.admin.subscription_list()
    assert (row["suspended"], row["missed"], row["parked"], row["depth"]) == (True, 1, 1, 1)
    assert [message.body for message in await manager.get_many(":s", 9)] == [b"2"]
    row = await manager.admin.subscription_healthy(":s")
    assert (row["suspended"], type(row["job"])) == (False, int)


async def test_names_that_are_no_list_are_refused(manager: QueueManager) -> None:
    with pytest.raises(RequestError) as caught:
        await manager.admin.republish(subscriptions="B:s")
    assert str(caught.value) == ("VALUE_INVALID: subscriptions must be a list: write ['B:s']")
