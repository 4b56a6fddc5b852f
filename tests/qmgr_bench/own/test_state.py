"""Tests of row STATE."""

from pathlib import Path

import pytest

from qmgr_bench.own.state import StateOf, States, Stored, state
from qmgr_bench.setting import Setting

LOW = StateOf(10, Stored(12, 400, 9.0, 9.0), Stored(2, 40, 8.0, 8.0))
HIGH = StateOf(1_000_000, Stored(1_000_002, 40_000_000, 9.0, 9.0), Stored(2, 40, 8.0, 8.0))


def test_table_must_not_grow() -> None:
    (target,) = States([LOW, HIGH]).targets()
    assert target.reached
    (target,) = States([LOW, StateOf(9, LOW.each, Stored(3, 60, 8.0, 8.0))]).targets()
    assert not target.reached


def test_bars_have_both_ways_at_each_depth() -> None:
    _, bars = States([LOW]).bars()
    assert bars == [("table at 10", 40, True), ("each message at 10", 400, False)]


@pytest.mark.process
def test_rows_are_those_of_the_messages_or_of_the_origin(tmp_path: Path) -> None:
    series = state(Setting(tmp_path, 0.1, 1, 0.001)).series
    assert [x.depth for x in series] == [1, 10, 1_000]
    for x in series:
        assert x.each.rows - x.table.rows == x.depth
        assert x.each.bytes > x.table.bytes
    assert series[0].table.rows == series[-1].table.rows
