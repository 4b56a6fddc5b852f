from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from qmgr_bench.own.rows import OWN_ROWS, guess_s, run_own
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Result, Target, at_most


@dataclass(frozen=True)
class Found:
    """A prepared result of a row."""

    depth: int

    def targets(self) -> list[Target]:
        return [at_most("depth", self.depth, 1)]

    def bars(self) -> tuple[str, Bars]:
        return "messages", [("depth", self.depth, True)]


def test_row_is_written_down_with_its_targets_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(setting: Setting) -> Result:
        (setting.directory / "data").touch()
        return Found(setting.scaled(20))

    monkeypatch.setitem(OWN_ROWS, "START", replace(OWN_ROWS["START"], run=run))
    found = run_own("START", Setting(tmp_path, 0.1, 1, 0.1))
    assert (found["row"], found["figures"]) == ("START", {"depth": 2})
    assert (found["unit"], found["bars"]) == ("messages", [("depth", 2, True)])
    (target,) = found["targets"]
    assert not Target(**target).reached
    assert list(tmp_path.iterdir()) == []


def test_guess_grows_with_what_is_asked_for() -> None:
    all_s = sum(guess_s(name, Setting(Path(), 3, 3)) for name in OWN_ROWS)
    assert sum(guess_s(name, Setting(Path(), 3, 1)) for name in OWN_ROWS) < all_s
    assert 0 < guess_s("10M", Setting(Path(), 3, 3, 0.1)) < guess_s("10M", Setting(Path(), 3, 3))
