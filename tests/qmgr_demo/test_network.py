"""A small run of the demo's network, in which the paths of links are cut and stalled."""

import asyncio
from pathlib import Path

import pytest

from qmgr_demo import flights as data
from qmgr_demo.cluster import Node
from qmgr_demo.network import CONNECTIONS
from qmgr_demo.traffic import HUB, Traffic

pytestmark = pytest.mark.process


async def test_all_flights_come_out_once_over_paths_that_fail(tmp_path: Path) -> None:
    nodes = {name: Node(name, tmp_path) for name in (*data.AIRPORTS, HUB)}
    flights = data.read(6_000)
    traffic = Traffic(nodes, flights)
    for node in nodes.values():
        node.start()
    try:
        await traffic.define()
        async with asyncio.TaskGroup() as tasks:
            trouble = tasks.create_task(
                traffic.network.trouble("EWR", lambda: traffic.progress(HUB))
            )
            for airport in data.AIRPORTS:
                tasks.create_task(traffic.produce(airport))
            await traffic.take_all(lambda message: None)
            await trouble
        async with traffic.connect(nodes["EWR"]) as manager:
            async with asyncio.timeout(60):  # The last commit may arrive after the last message.
                while (row := await manager.admin.link_show(HUB))["waiting"]:
                    await asyncio.sleep(0.01)
    finally:
        await traffic.network.close()
        for node in nodes.values():
            await asyncio.to_thread(node.stop)
    assert traffic.ledger.is_clean
    assert traffic.ledger.consumed == len(flights)
    assert (traffic.network.cuts["EWR"], traffic.network.stalls["EWR"]) == (1, 1)
    assert row["connections"] == CONNECTIONS
