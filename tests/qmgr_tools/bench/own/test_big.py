from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_tools.bench.host import Host
from qmgr_tools.bench.own.big import (
    QUEUE,
    RATE_PER_S,
    SMALL_TO_A_BIG,
    BigOf,
    Bigs,
    big,
    mixed,
    turns_between,
)
from qmgr_tools.bench.setting import Setting


def test_turns_of_a_measurement_are_those_that_came_in_it() -> None:
    before = [[64, 5], [128, 7]]
    assert turns_between(before, [[64, 5], [128, 9], [512, 1]]) == [[128, 2], [512, 1]]


def test_bigs_are_judged_by_turn_and_by_what_others_see() -> None:
    none, small = BigOf(0, 0, 90, 0.5, 1, 1, []), BigOf(65_536, 40, 2, 0.5, 1.5, 1.5, [])
    found = Bigs([none, small, BigOf(4 << 20, 40, 60, 1, 30, 30, [])])
    assert [target.reached for target in found.targets()] == [True, True, False, False]
    assert found.targets()[2].what == "longest turn, 4,096 KiB"
    assert [bar[0] for bar in found.bars()[1]] == ["none", "64 KiB", "4,096 KiB"]


@pytest.mark.process
def test_one_in_a_hundred_is_large_and_the_pace_is_kept(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.ask(m.QueueCreate, QUEUE)
        smalls = 2 * SMALL_TO_A_BIG
        found = mixed(host, 64 * 1024, smalls / RATE_PER_S)
        assert (found.smalls, found.bigs) == (smalls, 2)
        assert host.depth(QUEUE) == smalls + 2
        assert found.turn_longest_ms > 0
        assert sum(turns for _, turns in found.turns_below_us) > 0
        alone = mixed(host, 0, 0.01)
        assert (alone.smalls, alone.bigs) == (0.01 * RATE_PER_S, 0)


@pytest.mark.process
def test_large_ones_of_each_size_are_measured(tmp_path: Path) -> None:
    found = big(Setting(tmp_path, SMALL_TO_A_BIG / RATE_PER_S, 1))
    assert [point.size_bytes for point in found.series] == [0, 65_536, 1 << 20, 4 << 20]
    assert [point.bigs for point in found.series] == [0, 1, 1, 1]
    assert all(point.p99_ratio > 0 for point in found.series)
