"""Tests that each snapshot under load is a consistent cut, and that snapshots reveal a bug."""

import asyncio
from pathlib import Path

import pytest

from tests.process import broken
from tests.process.snapshots import SnapshotLoad, report

pytestmark = [pytest.mark.process, pytest.mark.slow]


def run(directory: Path, variant: str = "") -> SnapshotLoad:
    """Takes a few snapshots under load, and checks them."""
    program = (broken.__file__, variant) if variant else ("-m", "qmgrd")
    load = SnapshotLoad(directory, program=program)
    asyncio.run(load.run(2, period_s=2))
    load.check()
    return load


@pytest.mark.long
def test_each_snapshot_under_load_is_one_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = run(tmp_path)
    assert report(load, 1) == 0, load.faults
    assert len(load.taken) >= 2
    assert load.consumed
    assert load.latencies
    assert "faulty=0 " in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize(("variant", "fault"), [("tear", "units: half of "), ("boast", "links: ")])
def test_broken_daemon_is_found(tmp_path: Path, variant: str, fault: str) -> None:
    """The bug affects the state only for a moment, so only a snapshot can reveal it."""
    load = run(tmp_path, variant)
    assert any(text.startswith(fault) for found in load.faults.values() for text in found)
