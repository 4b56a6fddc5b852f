import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from qmgr_tools import bench_own_depth
from qmgr_tools.bench_own_depth import (
    Backlog,
    Millions,
    StartAt,
    Starts,
    check_disk,
    start,
    ten_million,
    w4_own,
)
from qmgr_tools.bench_own_host import LoadFailed
from qmgr_tools.bench_own_result import Setting

MILLIONS = Millions(
    10_000_000, 90_000, 5 << 30, 900, 700, 1_100, 150_000_000, 90_000_000, 2 << 30,
    80_000, 0.9, 1.1, 1.3, 70_000, 0.8, 1.2, 1.4,
)  # fmt: skip


def setting(directory: Path, scale: float) -> Setting:
    return Setting(directory, 0.1, scale, 1, lambda words: None)


def test_backlog_is_to_cost_a_tenth_at_most() -> None:
    (target,) = Backlog(1_000_000, 90, 100, 0.9, 5, 4).targets()
    assert target.reached
    assert target.what == "puts at depth 1,000,000, of those at 0"


def test_millions_miss_what_they_miss() -> None:
    verdicts = [target.reached for target in MILLIONS.targets()]
    assert verdicts == [True, False, True, True, True, False, False]
    assert not replace(MILLIONS, anonymous_bytes=200_100_000).targets()[2].reached


def test_starts_are_judged_at_the_greatest_depth() -> None:
    series = [StartAt(0, 1_500, 1, 1), StartAt(1_000_000, 900, 210_000_000, 1)]
    assert [target.reached for target in Starts(series, 0.6).targets()] == [True, True, False]


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_disk_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str] = []
    one = replace(setting(tmp_path, 1), say=words.append)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100 << 30, 93 << 30, 7 << 30))
    with pytest.raises(LoadFailed, match=r"about 5.2 GiB .* 7 GiB are free: give another --dir"):
        check_disk(one, 10_000_000)
    check_disk(one, 1_000_000)
    assert words == ["1,000,000 messages need about 534.1 MiB of the disk; 7 GiB are free"]


@pytest.mark.process
def test_backlog_is_measured_beside_an_empty_store(tmp_path: Path) -> None:
    found = w4_own(setting(tmp_path, 0.001))
    assert found.depth == 1_000
    assert min(found.put_per_s, found.put_per_s_at_0, found.put_ratio) > 0
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]


@pytest.mark.process
def test_millions_are_measured_on_one_daemon(tmp_path: Path) -> None:
    found = ten_million(setting(tmp_path, 0.0001))
    assert found.depth == 1_000
    assert found.anonymous_bytes >= 1 << 20
    assert min(found.start_ms, found.start_warm_ms, found.start_killed_ms) > 0
    assert min(found.put_ratio, found.get_ratio, found.put_p50_ratio, found.ack_p50_ratio) > 0


@pytest.mark.process
def test_starts_are_measured_at_each_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_own_depth, "START_DEPTHS", (0, 100_000))
    found = start(setting(tmp_path, 0.001))
    assert [point.depth for point in found.series] == [0, 100]
    assert all(point.start_ms > 0 for point in found.series)
