"""A small run of the demo's part on groups."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from qmgr_client.aio import connect
from qmgr_demo import flights as data
from qmgr_demo.cluster import Node
from qmgr_demo.leg_consumer import LEGS
from qmgr_demo.pinned_part import pinned_part

pytestmark = pytest.mark.process


async def test_part_says_what_happened_and_fails_where_it_cannot_be(tmp_path: Path) -> None:
    node, out = Node("NYC", tmp_path), io.StringIO()
    console = Console(file=out, width=120)
    node.start()
    try:
        async with connect(node.address, wait_ms=30_000) as manager:
            assert await pinned_part(console, node, data.read(60), tmp_path)
            assert (
                "2013-01-01 at LGA: 4 consumers process the legs of 21 aircraft" in out.getvalue()
            )
            words = out.getvalue().partition(" is killed")[0].splitlines()
            assert [line for line in words if len(line) > 80] == []
            assert "legs consumed in order " in out.getvalue()
            await manager.admin.queue_alter(LEGS, put_inhibit=True)
            assert not await pinned_part(console, node, data.read(60), tmp_path)
            assert "error: a leg was refused: " in out.getvalue()
    finally:
        assert node.stop() == 0
