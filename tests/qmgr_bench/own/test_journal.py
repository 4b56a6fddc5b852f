"""Tests of row JOURNAL."""

from pathlib import Path

import pytest

from qmgr_bench.host import QMGRD
from qmgr_bench.own.journal import WITHOUT, Journal, journal
from qmgr_bench.setting import Setting

ONE = Journal(90.0, 100.0, 0.9, 1.0, 3.0, 2.5, 1.2, 400.0, 350.0, 9.0, 900.0, 150_000.0, 300_000.0)


def test_targets_are_those_of_latency_start_and_replay() -> None:
    assert [target.reached for target in ONE.targets()] == [True, True, True]
    assert [target.bound for target in ONE.targets()] == [1.5, 1_000, 200_000]


def test_bars_have_both_latencies() -> None:
    assert ONE.bars()[1] == [("with checkpoints", 3.0, True), ("without", 2.5, False)]


def test_other_daemon_runs_the_same_program() -> None:
    assert WITHOUT[-1].endswith(QMGRD[-1])


@pytest.mark.long
@pytest.mark.process
def test_daemon_without_checkpoints_replays_its_whole_run(tmp_path: Path) -> None:
    found = journal(Setting(tmp_path, 0.5, 1))
    assert found.replayed_messages_without > found.put_per_s_without * 0.4
    assert found.replayed_records > 0
    assert found.replayed_per_s > 0
    assert found.start_ms_without > found.start_clean_ms / 2
