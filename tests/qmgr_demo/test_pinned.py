"""Tests that each aircraft's legs are consumed once and in order, even under kills."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_demo import flights as data
from qmgr_demo.cluster import Node
from qmgr_demo.leg_consumer import LEGS
from qmgr_demo.legs import busiest_day
from qmgr_demo.pinned import CONSUMERS, LEASE_MS, ConsumerProcess, PinnedDay, PinnedFailed

pytestmark = pytest.mark.process


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node("NYC", tmp_path)
    node.start()
    yield node
    assert node.stop() == 0


@pytest.mark.long
async def test_legs_of_each_aircraft_come_in_order_once_while_a_consumer_is_killed(
    node: Node, tmp_path: Path
) -> None:
    day = busiest_day(data.read(2_000))
    run = PinnedDay(day, node, tmp_path, work_ms=30)
    await run.run()
    audit = run.audit()
    assert audit.is_clean
    assert (run.put, run.left, audit.in_order) == (len(day.legs), 0, len(day.legs))
    assert set(audit.by) == set(CONSUMERS)
    assert run.kills > 0
    assert audit.redelivered > 0
    assert audit.handed_over > 0


async def test_leg_that_is_refused_ends_the_run(node: Node, tmp_path: Path) -> None:
    day = busiest_day(data.read(50))
    leg = day.legs[0]
    async with connect(node.address, wait_ms=30_000) as manager:
        await manager.admin.queue_create(LEGS, lease_ms=LEASE_MS)
        await manager.put(LEGS, leg.body, group=leg.group)
    with pytest.raises(PinnedFailed, match=r"a leg was refused: .*number 1"):
        await PinnedDay(day, node, tmp_path).run()


async def test_consumer_that_ends_by_itself_is_reported(tmp_path: Path) -> None:
    node = Node("QM", tmp_path)
    node.address = "nowhere"
    consumer = ConsumerProcess("A", node, tmp_path, 0)
    consumer.start()
    assert consumer.process is not None
    await asyncio.to_thread(consumer.process.wait, 20)
    with pytest.raises(PinnedFailed, match=r"consumer A ended by itself: .*nowhere"):
        consumer.check()
