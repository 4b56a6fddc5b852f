from dataclasses import replace
from pathlib import Path

import pytest

from qmgr_bench.own import depth
from qmgr_bench.own.depth import Millions, StartAt, Starts, start, ten_million
from qmgr_bench.setting import Setting

MILLIONS = Millions(
    10_000_000,
    90_000,
    5 << 30,
    900,
    700,
    1_100,
    150_000_000,
    90_000_000,
    2 << 30,
    80_000,
    90_000,
    0.9,
    1.1,
    1.3,
    50_000,
    70_000,
    80_000,
    0.8,
    1.2,
    1.4,
)


def test_millions_miss_what_they_miss() -> None:
    verdicts = [target.reached for target in MILLIONS.targets()]
    assert verdicts == [True, False, True, True, True, False, False]
    assert not replace(MILLIONS, anonymous_bytes=200_100_000).targets()[2].reached


def test_starts_are_judged_at_the_greatest_depth() -> None:
    series = [StartAt(0, 1_500, 1, 1), StartAt(1_000_000, 900, 210_000_000, 1)]
    assert [target.reached for target in Starts(series, 0.6).targets()] == [True, True, False]


@pytest.mark.long
@pytest.mark.process
def test_millions_are_measured_on_one_daemon(tmp_path: Path) -> None:
    found = ten_million(Setting(tmp_path, 0.1, 1, 0.0001))
    assert found.depth == 1_000
    assert found.anonymous_bytes >= 1 << 20
    assert min(found.start_ms, found.start_warm_ms, found.start_killed_ms) > 0
    assert found.get_per_s_cold > 0
    assert found.put_ratio == round(found.put_per_s / found.put_per_s_empty, 4)
    assert found.get_ratio == round(found.get_per_s / found.get_per_s_empty, 4)
    assert min(found.put_ratio, found.get_ratio, found.put_p50_ratio, found.ack_p50_ratio) > 0


@pytest.mark.long
@pytest.mark.process
def test_starts_are_measured_at_each_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "START_DEPTHS", (0, 100_000))
    found = start(Setting(tmp_path, 0.1, 1, 0.001))
    assert [point.depth for point in found.series] == [0, 100]
    shallow, deep = (point.start_ms for point in found.series)
    assert found.growth == pytest.approx(deep / shallow, abs=0.001)
