"""Tests of the times of scheduled snapshots."""

import json
from pathlib import Path
from typing import Any

import pytest

from qmgr_config.model import SnapshotsConfig
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.snapshot.schedule import STATE_FILE, SnapshotTimetable

HOUR_US = 3_600_000_000
NOON_US = 1_700_049_600_000_000
FIRST = "/backup/QM1-20231115T120000.000Z"
BUSY = RequestError(ErrorCode.SNAPSHOT_RUNNING, "busy")
FULL = RequestError(ErrorCode.SNAPSHOT_FAILED, "/backup: no room")


def made(tmp_path: Path, **wanted: Any) -> SnapshotTimetable:
    given: dict[str, Any] = {"directory": "/backup/", "every_ms": 3_600_000} | wanted
    return SnapshotTimetable(SnapshotsConfig(**given), "QM1", tmp_path)


def manifest(wall_us: int) -> dict[str, Any]:
    return {"wall_us": wall_us, "messages": 5, "data_bytes": 4096}


def test_none_is_taken_where_none_is_wanted(tmp_path: Path) -> None:
    schedule = made(tmp_path, directory="")
    assert not schedule.is_on
    assert schedule.due(NOON_US) == ""
    assert schedule.facts()["next_us"] is None


def test_first_snapshot_is_due_at_once_and_only_once(tmp_path: Path) -> None:
    schedule = made(tmp_path)
    assert schedule.due(NOON_US) == FIRST
    schedule.begun(NOON_US)
    assert schedule.due(NOON_US + 2 * 60_000_000) == ""


def test_next_is_due_a_period_after_the_turn_of_the_last(tmp_path: Path) -> None:
    schedule = made(tmp_path)
    schedule.due(NOON_US)
    (note,) = schedule.answered(NOON_US + 9, FIRST, manifest(NOON_US), {"removed": ["x"]})
    assert (note.level, note.event) == ("info", "snapshot taken")
    assert note.facts == {"directory": FIRST, "bytes": 4096, "messages": 5, "removed": 1}
    assert schedule.due(NOON_US + HOUR_US - 1) == ""
    assert schedule.due(NOON_US + HOUR_US) == "/backup/QM1-20231115T130000.000Z"


def test_what_was_missed_is_made_up_for_once(tmp_path: Path) -> None:
    made(tmp_path).answered(NOON_US, FIRST, manifest(NOON_US), {})
    schedule = made(tmp_path)
    assert schedule.due(NOON_US + HOUR_US - 1) == ""
    schedule = made(tmp_path)
    now = NOON_US + 7 * HOUR_US
    assert schedule.due(now)
    schedule.answered(now, FIRST, manifest(now), {})
    assert schedule.due(now + HOUR_US - 1) == ""


def test_failure_is_reported_and_tried_again_ever_later(tmp_path: Path) -> None:
    schedule, now = made(tmp_path), NOON_US
    waits = []
    for _ in range(8):
        assert schedule.due(now)
        (note,) = schedule.answered(now, FIRST, FULL, {})
        assert (note.level, note.event) == ("error", "snapshot failed")
        assert note.facts == {"directory": FIRST, "why": "/backup: no room"}
        waits.append(round(schedule.facts()["next_us"] - now) // 60_000_000)
        now = schedule.facts()["next_us"]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert (schedule.facts()["failures"], schedule.facts()["why"]) == (8, "/backup: no room")
    schedule.answered(now, FIRST, manifest(now), {})
    assert (schedule.facts()["failures"], schedule.facts()["why"]) == (0, "")


def test_another_snapshot_is_waited_for(tmp_path: Path) -> None:
    schedule = made(tmp_path)
    schedule.due(NOON_US)
    assert schedule.answered(NOON_US, FIRST, BUSY, {}) == []
    assert schedule.facts()["failures"] == 0
    assert schedule.due(NOON_US + 4_999_999) == ""
    assert schedule.due(NOON_US + 5_000_000)


def test_request_of_a_failed_turn_is_repeated(tmp_path: Path) -> None:
    schedule = made(tmp_path)
    assert schedule.due(NOON_US)
    assert schedule.due(NOON_US + 60_000_000)


def test_clock_that_is_set_back_puts_it_off_by_a_period_at_most(tmp_path: Path) -> None:
    schedule = made(tmp_path)
    schedule.answered(NOON_US, FIRST, manifest(NOON_US), {})
    back = NOON_US - 1_000 * HOUR_US
    assert schedule.due(back) == ""
    assert schedule.due(back + HOUR_US)


def test_other_faults_are_reported(tmp_path: Path) -> None:
    schedule = SnapshotTimetable(SnapshotsConfig(directory="/backup"), "QM1", tmp_path / "none")
    notes = schedule.answered(NOON_US, FIRST, manifest(NOON_US), {"trouble": "no rights"})
    assert [(note.level, note.event) for note in notes] == [
        ("info", "snapshot taken"),
        ("warning", "last snapshot cannot be noted"),
        ("warning", "snapshots cannot be pruned"),
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"taken_us": "x"}', "\xff"])
def test_state_that_cannot_be_read_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    assert made(tmp_path).due(NOON_US)


def test_state_is_kept(tmp_path: Path) -> None:
    made(tmp_path).answered(NOON_US, FIRST, manifest(NOON_US), {})
    kept = json.loads((tmp_path / STATE_FILE).read_text())
    assert kept == made(tmp_path).facts()["last"]
    assert kept == {"taken_us": NOON_US, "directory": FIRST, "messages": 5, "data_bytes": 4096}


def test_wait_is_short_enough_to_see_a_clock_that_is_set(tmp_path: Path) -> None:
    schedule = made(tmp_path)
    assert 0 < schedule.wait_s(NOON_US) < 0.1
    schedule.begun(NOON_US)
    assert schedule.wait_s(NOON_US) == 60
