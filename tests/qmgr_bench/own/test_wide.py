import resource
from pathlib import Path

import pytest

from qmgr_bench.load import LoadFailed
from qmgr_bench.own.wide import Wide, allow_files, c1000
from qmgr_bench.setting import Setting

WIDE = Wide(1_000, 50_000, 100_000, 40_000, 0.5, 1.25, 20, 25, 30, 8, 10, 0.4, 0.5)


def test_wide_is_to_be_as_fast_as_w1b_and_not_held_up_by_the_generator() -> None:
    assert [target.reached for target in WIDE.targets()] == [False, False]
    assert [target.missing_percent for target in WIDE.targets()] == [50, 25]


@pytest.mark.process
def test_connections_are_measured_beside_w1b(tmp_path: Path) -> None:
    found = c1000(Setting(tmp_path, 0.1, 1, 0.01))
    assert found.connections == 10
    assert min(found.put_per_s, found.put_per_s_w1b, found.put_per_s_w1b_1, found.ratio) > 0
    assert found.ratio == round(found.put_per_s / found.put_per_s_w1b, 4)
    assert found.ratio_1 == round(found.put_per_s / found.put_per_s_w1b_1, 4)
    assert 0 < found.server_share < 2
    assert 0 < found.p50_ms <= found.p99_ms <= found.p999_ms


def test_files_that_the_system_does_not_allow_are_reported() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(LoadFailed, match=f"the limit is {hard}: raise it with ulimit -Hn"):
        allow_files(hard + 1)
    allow_files(1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1
