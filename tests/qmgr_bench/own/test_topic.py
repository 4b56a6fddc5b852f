from dataclasses import replace
from pathlib import Path

import pytest

from qmgr_bench.own.fan_out import EACH, SHARED, FanOut
from qmgr_bench.own.matching import Matching
from qmgr_bench.own.references import References
from qmgr_bench.own.republishing import Resent
from qmgr_bench.own.topic import Topic, topic
from qmgr_bench.setting import Setting

FAN = FanOut("qmgrd", 10, EACH, 100, 50_000, 15, 1, 0.1, False, 1, 1, "")
ONCE = Resent("republish", 1_000, 3, 6, 3, 3, 0, 0, 0, 5, 1)
AGAIN = Resent("publish again", 1_000, 3, 6, 3, 1_000, 997, 0, 0, 50, 20)
TOPIC = Topic(
    [FAN, replace(FAN, connections=SHARED), replace(FAN, server="redis")],
    [References(50, 2_000, 1, 72, 82, 170, 400)],
    [Matching(10_000, 5_000, 3, 0.5)],
    [ONCE, AGAIN],
)


def test_targets_are_about_room_matching_and_who_gets_copies() -> None:
    assert [target.reached for target in TOPIC.targets()] == [True] * 5
    assert "(published again: 997)" in TOPIC.targets()[3].what
    wrong = Resent("republish", 1_000, 3, 6, 3, 5, 2, 1, 0, 5, 1)
    bad = Topic(
        TOPIC.fan_out,
        [replace(TOPIC.references[0], bytes=101)],
        [replace(TOPIC.matching[0], us=51)],
        [wrong, AGAIN],
    )
    assert [target.reached for target in bad.targets()] == [False] * 5


def test_bars_are_of_connections_of_their_own() -> None:
    unit, bars = TOPIC.bars()
    assert "deliveries per second" in unit
    assert bars == [
        ("qmgrd, 10 subscriptions", 50_000, True),
        ("redis, 10 subscriptions", 50_000, False),
    ]


@pytest.mark.long
@pytest.mark.process
def test_all_four_are_measured(tmp_path: Path) -> None:
    found = topic(Setting(tmp_path, 0.05, 1, 0.01))
    assert {one.subscriptions for one in found.fan_out} == {1, 10}
    assert [one.way for one in found.resent] == ["republish", "publish again"]
    assert found.resent[0].duplicates == 0
    assert (found.matching[0].subscriptions, found.references[0].publications) == (100, 20)
