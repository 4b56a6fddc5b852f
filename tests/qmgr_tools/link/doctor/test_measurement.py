"""Tests of the progress of a link, computed from two measurements."""

from typing import Any

from qmgr_tools.link.doctor.measurement import Measurement


def row(**more: Any) -> dict[str, Any]:
    return {
        "waiting": 0,
        "waiting_bytes": 0,
        "commit_id": 0,
        "held": 0,
        "next_id": 1,
        "paths": [],
    } | more


def test_rate_and_time_to_drain_are_of_what_moved_between_the_looks() -> None:
    before = row(waiting=3000, waiting_bytes=3_000_000, commit_id=1000, next_id=4001)
    now = row(waiting=2500, waiting_bytes=2_500_000, commit_id=2000, next_id=4501)
    found = Measurement(now, before, 500).figures()
    assert (found["messages_per_s"], found["put_per_s"]) == (2000, 1000)
    assert found["bytes_per_s"] == 2_000_000
    assert found["drained_ms"] == 2500


def test_one_look_has_no_rate() -> None:
    found = Measurement(row(waiting=3)).figures()
    assert found["waiting"] == 3
    assert [found[key] for key in ("messages_per_s", "bytes_per_s", "drained_ms")] == [None] * 3


def test_backlog_that_grows_is_never_drained() -> None:
    now = row(waiting=20, commit_id=10, next_id=31)
    assert Measurement(now, row(waiting=10, next_id=11), 1000).figures()["drained_ms"] is None


def test_landed_begins_anew_with_a_connection() -> None:
    now = row(paths=[{"path": 0, "landed": 5}, {"path": 1, "landed": 9}])
    before = row(paths=[{"path": 1, "landed": 6}, {"path": 0, "landed": 100}])
    measured = Measurement(now, before, 1000)
    assert [path["messages_per_s"] for path in measured.paths()] == [5, 3]
    assert measured.has_moved


def test_what_was_taken_above_a_gap_has_moved() -> None:
    assert not Measurement(row(waiting=1), row(waiting=2), 1000).has_moved
    assert Measurement(row(held=3), row(), 1000).has_moved
    assert Measurement(row(commit_id=3), row(), 1000).has_moved
    assert Measurement(row(paths=[{"landed": 1}]), row(), 1000).has_moved
