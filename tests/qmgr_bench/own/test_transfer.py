from pathlib import Path

import pytest

from qmgr_bench.own.transfer import (
    DIRECT,
    DIRECT_KIB,
    FAR_OFF,
    FAR_OFF_KIB,
    FOUR_NARROW,
    LEGS,
    ONE_NARROW,
    Leg,
    joined,
    of_pulls,
    transfer,
)
from qmgr_bench.pair import Pull
from qmgr_bench.setting import Setting

SETTING = Setting(Path(), 1, 2, 0.5)


@pytest.mark.parametrize(
    ("leg", "rate", "missed"),
    [
        (DIRECT, 999, 0),
        (DIRECT_KIB, 1_000, None),
        (FAR_OFF, 799, 1),
        (FAR_OFF_KIB, 799, 2),
        (FOUR_NARROW, 3_499, 3),
        (ONE_NARROW, 1_143, 3),
        (LEGS[2], 1, None),
    ],
)
def test_ratios_are_those_of_a_round_and_are_held_against_their_targets(
    leg: Leg, rate: float, missed: int | None
) -> None:
    least = dict.fromkeys(LEGS, 1_000.0) | {
        FAR_OFF: 800.0,
        FAR_OFF_KIB: 800.0,
        FOUR_NARROW: 4_000.0,
    }
    rates = least | {leg: rate}
    # The disk is twice as fast in the second round.
    pulls = {leg: [Pull(rate, 1, 2), Pull(rate * 2, 1, 2)] for leg, rate in rates.items()}
    found = of_pulls(pulls, [2_000.0, 4_000.0], SETTING, [])
    judged = [target.reached for target in found.targets()]
    assert [at for at, reached in enumerate(judged) if not reached] == (
        [] if missed is None else [missed]
    )
    direct = found.series[0]
    assert (direct.messages, direct.messages_per_s, direct.cpu_us) == (
        25_000,
        rates[DIRECT] * 1.5,
        3,
    )


def test_there_and_back_are_joined_by_the_time_that_they_took() -> None:
    assert joined([Pull(100, 1, 5), Pull(300, 2, 5.5)]) == Pull(150, 1.5, 5.25)


@pytest.mark.long
@pytest.mark.process
def test_all_legs_are_gone_over(tmp_path: Path) -> None:
    found = transfer(Setting(tmp_path, 0.1, 1, 0.004))
    assert [one.way for one in found.series] == [leg.name for leg in LEGS]
    assert min(one.messages_per_s for one in found.series) > 0
    assert min(found.share, found.far_ratio, found.connections_ratio) > 0
    unit, bars = found.bars()
    assert unit
    assert len(bars) == len(LEGS) + 1
