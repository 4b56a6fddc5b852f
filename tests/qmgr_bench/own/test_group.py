from dataclasses import replace
from pathlib import Path

import pytest

from qmgr_bench.own.group import Groups, group
from qmgr_bench.own.group_rates import LIKE, RateOf
from qmgr_bench.own.group_steps import StepsAtDepth
from qmgr_bench.setting import Setting

SERIES = [
    StepsAtDepth(100, 40, 20, 60, 1_000, 300),
    StepsAtDepth(1_000_000, 44, 21, 66, 6_000_000, 300),
]
RATE = RateOf("put as W1b", 70_000, 8, 100_000, 4, 0.7, 2)
GROUPS = Groups(SERIES, 1.1, 1.05, 1.2, 6_000, [RATE])


def test_steps_are_to_be_flat_and_groups_to_keep_their_rate() -> None:
    assert all(target.reached for target in GROUPS.targets())
    steep = replace(
        GROUPS,
        next_growth=1.21,
        pinned_growth=1.3,
        whole_growth=2,
        rates=[replace(RATE, ratio=0.69)],
    )
    assert not any(target.reached for target in steep.targets())
    assert GROUPS.targets()[0].what.startswith("next member by a reader, CPU time among 1,000,000")


def test_bars_are_of_what_is_to_be_flat() -> None:
    unit, bars = GROUPS.bars()
    assert unit.startswith("CPU time in us")
    assert [value for _, value, _ in bars] == [40, 20, 60, 44, 21, 66]


@pytest.mark.process
def test_row_has_steps_and_rates(tmp_path: Path) -> None:
    found = group(Setting(tmp_path, 0.01, 1, 0.001))
    assert len(found.targets()) == 3 + 2 * len(LIKE)
    assert found.search_growth > 0
