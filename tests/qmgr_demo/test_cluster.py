"""Tests of the demo's daemons, which run as processes."""

import asyncio
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_demo.cluster import Node

pytestmark = pytest.mark.process


async def test_a_node_is_killed_and_starts_again_with_what_it_had(tmp_path: Path) -> None:
    node = Node("QM", tmp_path)
    node.start()
    try:
        async with connect(node.address, wait_ms=30_000) as manager:
            await manager.admin.queue_create("Q")
            await manager.put("Q", b"kept")
        await asyncio.to_thread(node.kill)
        assert not node.is_running()
        node.start()
        async with connect(node.address, wait_ms=30_000) as manager:
            assert (await manager.admin.queue_show("Q"))["depth"] == 1
    finally:
        assert await asyncio.to_thread(node.stop) == 0
    assert node.starts == 2
    assert "listening" in node.log_tail()


def test_a_node_runs_the_sources_of_who_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.py").write_text("print('of another tree')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    node = Node("QM", tmp_path, program=("-m", "other"))
    node.start()
    assert node.process is not None
    assert node.process.wait(30) == 0
    assert node.log_tail() == "of another tree"
