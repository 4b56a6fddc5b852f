"""Tests of the records that a consumer of legs writes."""

import asyncio
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_demo.cluster import Node
from qmgr_demo.leg_consumer import FLOWN, LEGS, LegConsumer
from qmgr_demo.legs import Flown

pytestmark = pytest.mark.process

N1 = b"N1".ljust(24, b"\0")


async def flown_by(name: str, address: str, count: int) -> list[Flown]:
    """Runs the consumer *name*, and returns the next *count* recorded legs."""
    async with connect(address, name=name) as consumer, connect(address) as manager:
        task = asyncio.create_task(LegConsumer(consumer, name, 0).run())
        found = [await manager.get(FLOWN, wait_ms=20_000) for _ in range(count)]
        await manager.ack_many([message for message in found if message])
        task.cancel()
        await asyncio.wait([task])
        assert (await manager.admin.queue_show(LEGS))["depth"] == 0
        return sorted(Flown(**message.headers) for message in found if message)


async def test_each_leg_is_removed_and_written_down_with_who_had_its_aircraft(
    tmp_path: Path,
) -> None:
    node = Node("NYC", tmp_path)
    node.start()
    try:
        async with connect(node.address, wait_ms=30_000) as manager:
            for queue in (LEGS, FLOWN):
                await manager.admin.queue_create(queue)
            await manager.put(LEGS, b"", headers={"row": 1}, group=(N1, 1, False))
            await manager.put(LEGS, b"", headers={"row": 2})
            await manager.put(LEGS, b"", headers={"row": 3}, group=(N1, 2, False))
            assert await flown_by("A", node.address, 3) == [
                ("", 1, True, 2, "A", False, False, True),
                ("N1", 1, False, 1, "A", False, True, True),
                ("N1", 2, False, 3, "A", False, False, True),
            ]
            await manager.put(LEGS, b"", headers={"row": 4}, group=(N1, 3, True))
            assert await flown_by("B", node.address, 1) == [
                ("N1", 3, True, 4, "B", False, True, True)
            ]
    finally:
        assert node.stop() == 0
