"""Tests that the rows that a daemon sends match the classes."""

from pathlib import Path
from typing import Any, Required, TypedDict, get_type_hints

import pytest

from qmgr_client.aio import QueueManager, connect
from qmgr_client.rows import QueueRow, SubscriptionRow
from tests.qmgr_client.rows_check import check, row_fault
from tests.qmgr_client.served import serve

OF_NO_LOCAL = {
    "redelivery_limit",
    "topic",
    "where",
    "first",
    "unused_ms",
    "suspended",
    "parked",
    "missed",
}


class _Sample(TypedDict, total=False):
    a: Required[int]
    b: str | None
    c: list[int]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"a": 1, "b": None, "c": [1]}, ""),
        ({}, ": lacks ['a']"),
        ({"a": 1, "z": 2}, ": ['z'] are not in _Sample"),
        ({"a": "1"}, ".a: '1' is not <class 'int'>"),
        ({"a": 1, "b": 2}, ".b: 2 is not <class 'str'>"),
        ({"a": 1, "c": ["x"]}, ".c[]: 'x' is not <class 'int'>"),
        ([], ": []"),
    ],
)
def test_fault_is_found(row: Any, why: str) -> None:
    assert row_fault(row, _Sample) == why


async def defined(manager: QueueManager) -> None:
    """Defines one object of each kind."""
    admin = manager.admin
    await admin.link_create("HUB", ["127.0.0.1:1"], stopped=True)
    for name in ("Q", "R@HUB"):
        await admin.queue_create(name)
    await admin.queue_create("ALIAS", alias_of="Q")
    await admin.subscription_create("a/#", ":s@HUB")
    await admin.subscription_create("a/#", "B:s", unused_expiry_ms=60_000)
    await manager.put("Q", b"x", group=("G", 1, False))
    await manager.put("R@HUB", b"x")
    await manager.publish("a/b", b"x", retained=True)
    message = await manager.get("B:s")
    assert message is not None
    await manager.reject(message, "X", "t")


async def test_rows_of_queues_and_subscriptions(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await defined(manager)
        admin = manager.admin
        rows = [*check(await admin.queue_list(), admin.queue_list)]
        for name in ("Q", "R@HUB", "ALIAS", "@HUB", "B:s", ":s@HUB", "SYSTEM.PUBLICATIONS"):
            rows.append(check(await admin.queue_show(name), admin.queue_show))
        # The daemon sends ``suspended`` only if a subscription was suspended.
        assert set().union(*rows) | {"suspended"} == set(get_type_hints(QueueRow))
        local = check(await admin.queue_show("Q"), admin.queue_show)
        assert OF_NO_LOCAL.isdisjoint(local)
        subscriptions = check(await admin.subscription_list(), admin.subscription_list)
        healthy = check(await admin.subscription_healthy("B:s"), admin.subscription_healthy)
        found = set().union(*subscriptions, healthy) - {"job"}
        assert found == set(get_type_hints(SubscriptionRow))
        for altered in (await admin.queue_alter("Q", depth_max=7), await admin.queue_alter("Q")):
            check(altered, admin.queue_alter)
        check(await admin.queue_ensure("Q2"), admin.queue_ensure)
        check(await admin.queue_purge("Q"), admin.queue_purge)
        check(await admin.queue_delete("Q2"), admin.queue_delete)


async def test_rows_of_topics_jobs_templates_and_groups(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await defined(manager)
        admin = manager.admin
        check(await admin.topic_set("a", redelivery_limit=3), admin.topic_set)
        check(await admin.topic_show("a"), admin.topic_show)
        check(await admin.topic_list(), admin.topic_list)
        parked = check([row async for row in admin.republish_list()], admin.republish_list)
        check(await admin.topic_lacks(parked[0]["uid"]), admin.topic_lacks)
        check(await admin.republish(), admin.republish)
        await admin.queue_create("TO")
        job = check(await admin.queue_move("Q", "TO", copy=True), admin.queue_move)
        check(await admin.job_list(), admin.job_list)
        check(await admin.job_show(job["job"]), admin.job_show)
        check(await admin.template_set("X*", lease_ms=1_000), admin.template_set)
        check(await admin.template_list(), admin.template_list)
        check(await admin.template_delete("X*"), admin.template_delete)
        (group,) = check([row async for row in admin.groups("Q")], admin.groups)
        shown = check(await admin.show_group("Q", group["group"]), admin.show_group)
        assert len(shown["members"]) == 1
        check(await admin.pause_group("Q", group["group"]), admin.pause_group)
        check(await admin.resume_group("Q", group["group"]), admin.resume_group)
        check(await manager.unsubscribe("B:s"), manager.unsubscribe)
