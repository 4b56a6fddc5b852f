from pathlib import Path

import pytest

from qmgr_tools.bench.own.rows import OWN_ROWS, guess_s, run_own
from qmgr_tools.bench.setting import Setting


@pytest.mark.process
def test_row_is_written_down_with_its_targets_and_leaves_nothing(tmp_path: Path) -> None:
    found = run_own("START", Setting(tmp_path, 0.1, 1, 0.00001))
    assert found["row"] == "START"
    assert [target["bound"] for target in found["targets"]] == [1_000, 1.15, 200]
    assert [point["depth"] for point in found["figures"]["series"]] == [0, 1, 1, 10]
    assert [bar[0] for bar in found["bars"]] == ["depth 0", "depth 1", "depth 1", "depth 10"]
    assert list(tmp_path.iterdir()) == []


def test_guess_grows_with_what_is_asked_for() -> None:
    all_s = sum(guess_s(name, Setting(Path(), 3, 3)) for name in OWN_ROWS)
    assert sum(guess_s(name, Setting(Path(), 3, 1)) for name in OWN_ROWS) < all_s
    assert 0 < guess_s("10M", Setting(Path(), 3, 3, 0.1)) < guess_s("10M", Setting(Path(), 3, 3))
