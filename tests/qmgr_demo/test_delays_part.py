"""A small run of the demo's part on topics."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from qmgr_client.aio import connect
from qmgr_demo import flights as data
from qmgr_demo.cluster import Node
from qmgr_demo.delays import ROOT
from qmgr_demo.delays_part import delays_part

pytestmark = pytest.mark.process


@pytest.mark.long
async def test_part_says_what_happened_and_fails_where_it_cannot_be(tmp_path: Path) -> None:
    node, out = Node("NYC", tmp_path), io.StringIO()
    console = Console(file=out, width=120)
    node.start()
    try:
        assert await delays_part(console, node, data.read(3_000))
        words = out.getvalue().partition("Departures more than")[0].splitlines()
        assert [line for line in words if len(line) > 80] == []
        assert "of the flights left more than 60 minutes late" in out.getvalue()
        assert "consumed by CLAIMS:all, delays/# " in out.getvalue()
        async with connect(node.address, wait_ms=30_000) as manager:
            await manager.admin.topic_set(f"{ROOT}/EWR", put_inhibit=True)
        assert not await delays_part(console, node, data.read(3_000))
        assert "error: a publication was refused: " in out.getvalue()
    finally:
        assert node.stop() == 0
