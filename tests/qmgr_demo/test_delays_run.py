"""Tests of delays that are published while the daemon is killed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_demo import flights as data
from qmgr_demo.cluster import Node
from qmgr_demo.delays import ROOT, delayed
from qmgr_demo.delays_run import LIMIT, DelaysFailed, DelaysRun

pytestmark = pytest.mark.process


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node("NYC", tmp_path)
    node.start()
    yield node
    assert node.stop() == 0


async def test_each_has_its_own_and_what_failed_goes_to_one_alone_over_kills(node: Node) -> None:
    """C4, C6, C7, C11, C13, C15, C19: each subscriber receives the expected rows."""
    delays = delayed(data.read(15_000))
    run = DelaysRun(delays, node)
    await run.run()
    assert run.is_clean
    assert (run.published, run.kills) == (len(delays), 2)
    assert run.consumed == run.wanted
    failing = {one.subscriber.name: one for one in run.had if one.parked}
    assert [*failing] == ["CLAIMS:all"]
    parked = failing["CLAIMS:all"].parked
    assert run.parked == len(parked) > 0
    assert run.failures >= (LIMIT + 1) * len(parked)
    assert not any(one.republished for one in run.had if not one.parked)
    assert run.late.ledger.consumed == 0
    async with connect(node.address) as manager:
        assert (await manager.admin.status())["name"] == "NYC"


@pytest.mark.long
async def test_run_without_delays_is_clean(node: Node) -> None:
    run = DelaysRun([], node)
    await run.run()
    assert (run.is_clean, run.published, run.parked) == (True, 0, 0)


async def test_publication_that_is_refused_ends_the_run(node: Node) -> None:
    run = DelaysRun(delayed(data.read(500)), node)
    async with connect(node.address, wait_ms=30_000) as manager:
        await manager.admin.topic_set(f"{ROOT}/EWR", put_inhibit=True)
    with pytest.raises(DelaysFailed, match="a publication was refused: "):
        await run.run()


async def test_subscriber_that_ends_by_itself_is_reported(node: Node) -> None:
    run = DelaysRun(delayed(data.read(500)), node)
    async with connect(node.address, wait_ms=30_000) as manager:
        await manager.admin.subscription_create("elsewhere", "UA:all")
    with pytest.raises(DelaysFailed, match="a subscriber ended: "):
        await asyncio.wait_for(run.run(), 30)
    async with connect(node.address, wait_ms=30_000) as manager:  # The daemon may have been killed.
        await manager.admin.status()
