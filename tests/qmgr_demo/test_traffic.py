"""A small run of the demo's secured traffic: each flight is consumed once despite kills."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from qmgr_demo import flights as data
from qmgr_demo.cluster import Node
from qmgr_demo.logins import LINK, recorded
from qmgr_demo.security import Security
from qmgr_demo.traffic import ARRIVALS, HUB, Killer, Traffic
from qmgr_demo.users import USERS

pytestmark = pytest.mark.process


async def test_all_flights_come_out_once_over_kills(tmp_path: Path) -> None:
    flights = data.read(3_000)
    nodes = {name: Node(name, tmp_path) for name in (*data.AIRPORTS, HUB)}
    security = Security(tmp_path / "secrets")
    for name, node in nodes.items():
        security.protect(node, listens=name == HUB, logins={} if name == HUB else {HUB: name})
    traffic = Traffic(nodes, flights)
    killer = Killer(rounds=1)
    seen: list[str] = []
    for node in nodes.values():
        node.start()
    try:
        for name, node in nodes.items():
            await security.create_users(node, USERS[name])
        await traffic.define()
        async with asyncio.TaskGroup() as tasks:
            for name, node in nodes.items():
                tasks.create_task(killer.run(node, partial(traffic.progress, name)))
            for airport in data.AIRPORTS:
                tasks.create_task(traffic.produce(airport))
            await traffic.take_all(lambda message: seen.append(str(message.uid).partition(".")[0]))
        assert "the right to put on queue FLIGHTS is required" in await traffic.put_without_right()
    finally:
        await traffic.network.close()
        codes = []
        for node in nodes.values():
            async with traffic.connect(node) as manager:  # A daemon may have just been killed.
                await manager.admin.status()
            codes.append(await asyncio.to_thread(node.stop))
    assert traffic.ledger.is_clean
    assert traffic.ledger.consumed == len(seen) == 3_000
    assert set(seen) == set(data.AIRPORTS)
    assert set(killer.kills.values()) == {1}
    assert codes == [0, 0, 0, 0]
    logins = recorded(node.log for node in nodes.values())
    assert logins.denied == {ARRIVALS: 1}
    assert (logins.refused, logins.otherwise) == (0, 0)
    assert logins.accepted[LINK] >= len(data.AIRPORTS)
