import time
from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.own import big as module
from qmgr_bench.own.big import (
    QUEUE,
    RATE_PER_S,
    SIZES,
    SMALL_TO_A_BIG,
    BigOf,
    Bigs,
    big,
    mixed,
    turns_between,
)
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m


def test_turns_of_a_measurement_are_those_that_came_in_it() -> None:
    before = [[64, 5], [128, 7]]
    assert turns_between(before, [[64, 5], [128, 9], [512, 1]]) == {128: 2, 512: 1}


def test_bigs_are_judged_by_turn_and_by_what_others_see() -> None:
    none, small = BigOf(0, 0, 90, 0.5, 1, 1, []), BigOf(65_536, 40, 2, 0.5, 1.5, 1.5, [])
    found = Bigs([none, small, BigOf(4 << 20, 40, 60, 1, 30, 30, [])])
    assert [target.reached for target in found.targets()] == [True, True, False, False]
    assert found.targets()[2].what == "longest turn with 4,096 KiB messages"
    assert [bar[0] for bar in found.bars()[1]] == ["none", "64 KiB", "4,096 KiB"]


@pytest.mark.process
def test_one_in_a_hundred_is_large_and_the_pace_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smalls = 2 * SMALL_TO_A_BIG
    monkeypatch.setattr(module, "SLICE_S", smalls / RATE_PER_S)
    with Host(tmp_path) as host:
        host.ask(m.QueueCreate, QUEUE)
        start_s = time.monotonic()
        found = mixed(host, 2 * smalls / RATE_PER_S)
        assert time.monotonic() - start_s > 8 * (smalls - 1) / RATE_PER_S
        assert [(size, one.smalls.count, one.bigs) for size, one in found.items()] == [
            (0, 2 * smalls, 0),
            *((size, 2 * smalls, 4) for size in SIZES),
        ]
        assert host.depth(QUEUE) == 8 * smalls + 12
    for one in found.values():
        assert 0 < one.percentile_ms(50) <= one.percentile_ms(99)
        assert one.turn_longest_ms > 0
        assert one.turns_below_us.total() > 0


@pytest.mark.process
def test_none_is_what_the_others_are_held_against(tmp_path: Path) -> None:
    found = big(Setting(tmp_path, SMALL_TO_A_BIG / RATE_PER_S, 1))
    assert [point.size_bytes for point in found.series] == [0, *SIZES]
    assert [point.bigs for point in found.series] == [0, 1, 1, 1]
    without = found.series[0].p99_ms
    assert [point.p99_ratio for point in found.series] == [
        round(point.p99_ms / without, 4) for point in found.series
    ]
