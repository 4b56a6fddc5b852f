"""Tests of a daemon that takes scheduled snapshots and reports them."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from tests.qmgrd.net.wire import Wire
from tests.qmgrd.test_daemon import Running, running

EVERY = {"every_ms": 1_000}


async def until(is_so: Callable[[], object]) -> None:
    """Waits until *is_so* returns true. The time limit of the test ends the wait."""
    while not is_so():
        await asyncio.sleep(0.01)


def taken(directory: Path) -> list[Path]:
    return sorted(path.parent for path in directory.glob("*/manifest.json"))


def told(logs: list[Any]) -> list[Any]:
    return [entry for entry in logs if entry["event"] == "snapshot taken"]


@pytest.mark.long
async def test_snapshots_are_taken_and_thinned(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    wanted = {"directory": str(backup), "keep": 2, **EVERY}
    with capture_logs() as logs:
        async with running(tmp_path / "data", snapshots=wanted) as here:
            await until(lambda: len(told(logs)) >= 4)
            wire = await Wire.connect(here.address)
            facts = (await wire.ask(m.Status))["snapshots"]
            await wire.close()
    assert len(taken(backup)) <= 3  # Another snapshot may have been taken after the last check.
    assert sum(entry["removed"] for entry in told(logs)) >= 2
    assert (facts["directory"], facts["failures"], facts["why"]) == (str(backup), 0, "")
    assert facts["last"]["directory"].startswith(f"{backup}/QM1-")
    manifest = json.loads((taken(backup)[-1] / "manifest.json").read_text())
    assert manifest["queue_manager"] == "QM1"


async def test_failure_is_an_event_and_in_the_status(tmp_path: Path) -> None:
    wanted = {"directory": str(tmp_path / "missing"), **EVERY}
    with capture_logs() as logs:
        async with running(tmp_path / "data", snapshots=wanted) as here:
            await until(lambda: [x for x in logs if x["event"] == "snapshot failed"])
            wire = await Wire.connect(here.address)
            facts = (await wire.ask(m.Status))["snapshots"]
            first = (await wire.ask(m.Browse, "SYSTEM.EVENTS"))["items"][0][m.DELIVERY_BYTES :]
            await wire.close()
    assert facts["failures"] >= 1
    assert "missing" in facts["why"]
    event = json.loads(records.decode(first[: records.size_of(first)]).body)
    assert event["event"] == "snapshot failed"
    assert event["directory"].startswith(f"{tmp_path}/missing/QM1-")
    assert "create its parent directory" in event["why"]


async def test_missed_one_is_made_up_for_at_the_start_and_no_other(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    wanted = {"directory": str(backup), "every_ms": 3_600_000}
    state = tmp_path / "data" / "snapshots.json"

    async def run(here: Running) -> None:
        wire = await Wire.connect(here.address)
        await wire.ask(m.Status)
        await wire.close()

    async with running(tmp_path / "data", snapshots=wanted):
        await until(state.exists)
    assert len(taken(backup)) == 1
    async with running(tmp_path / "data", snapshots=wanted) as here:
        await run(here)
    assert len(taken(backup)) == 1
    late = json.loads(state.read_text()) | {"taken_us": 1}
    state.write_text(json.dumps(late))
    async with running(tmp_path / "data", snapshots=wanted):
        await until(lambda: json.loads(state.read_text())["taken_us"] != 1)
    assert len(taken(backup)) == 2


async def test_none_is_taken_unless_it_is_wanted(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as here:
        wire = await Wire.connect(here.address)
        status = await wire.ask(m.Status)
        await wire.close()
    assert status["snapshot"] is None
    assert status["snapshots"]["next_us"] is None
    assert not (tmp_path / "data" / "snapshots.json").exists()


async def test_progress_is_reported_while_one_is_made(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as here:
        wire, asker = await Wire.connect(here.address), await Wire.connect(here.address, "asker")
        asker.send(m.Snapshot(50, str(tmp_path / "snap"), 4_096))
        while not (facts := (await wire.ask(m.Status))["snapshot"]) or not facts["done_bytes"]:
            await asyncio.sleep(0.01)
        assert facts["directory"] == str(tmp_path / "snap")
        assert facts["phase"] in ("writing", "counting")
        assert 0 < facts["done_bytes"] <= facts["total_bytes"]
        assert (await asker.next(m.Ok)).value["queue_manager"] == "QM1"
        assert (await wire.ask(m.Status))["snapshot"] is None
        await wire.close()
        await asker.close()
