import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from qmgr_bench.__main__ import asked, main
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.rows import OWN_ROWS
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Result, Target, at_most


def arguments(tmp_path: Path, *rows: str) -> list[str]:
    where = ["--dir", str(tmp_path / "data"), "--json", str(tmp_path / "out" / "bench.json")]
    short = ["--peers", "none", "--seconds", "0.1", "--scale", "0.001", "--rounds", "1"]
    return ["--rows", *rows, *where, *short]


@dataclass(frozen=True)
class Found:
    """A prepared result of a row."""

    depth: int

    def targets(self) -> list[Target]:
        return [at_most("depth", self.depth, 1)]

    def bars(self) -> tuple[str, Bars]:
        return "messages", [("depth", self.depth, True)]


def found(setting: Setting) -> Result:
    return Found(setting.scaled(2_000))


def fail(setting: Setting) -> Result:
    raise LoadFailed("the disk is full")


def interrupt(setting: Setting) -> Result:
    raise KeyboardInterrupt


def replace_row(
    monkeypatch: pytest.MonkeyPatch, name: str, run: Callable[[Setting], Result]
) -> None:
    monkeypatch.setitem(OWN_ROWS, name, replace(OWN_ROWS[name], run=run))


def test_only_peers_that_have_a_part_in_a_row_are_looked_for() -> None:
    peers = ["redis", "rabbitmq", "nats"]
    assert asked(["W1b", "DUP"], peers) == peers
    assert asked(["TRANSFER", "LINK"], peers) == ["rabbitmq", "nats"]
    assert asked(["TRANSFER"], ["redis", "nats"]) == ["nats"]
    assert asked(["LINK", "DUP"], peers) == []


@pytest.mark.process
def test_rows_of_both_kinds_make_one_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, "DUP", "W4")) == 0, capsys.readouterr().err
    shown = capsys.readouterr()
    assert "DUP\tlookups on the fast path\t0\t<= 0\treached" in shown.out
    report = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert [entry["row"] for entry in report["rows"]] == ["W1b", "W4"]
    assert [entry["row"] for entry in report["own"]] == ["DUP"]
    assert {row: len(targets) for row, targets in report["targets"].items()} == {
        "W1b": 1,
        "W4": 1,
        "DUP": 3,
    }
    assert (report["scale"], [run["messages"] > 0 for run in report["runs"]]) == (0.001, [True] * 2)
    text = (tmp_path / "out" / "bench.md").read_text()
    assert text.index("### W4") < text.index("### DUP")
    assert (tmp_path / "out" / "img" / "bench-DUP.svg").exists()
    assert list((tmp_path / "data").iterdir()) == []


def test_row_that_fails_does_not_keep_others_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_row(monkeypatch, "LINK", fail)
    replace_row(monkeypatch, "START", found)
    assert main(arguments(tmp_path, "LINK", "START")) == 1
    shown = capsys.readouterr()
    assert (
        "error: LINK stopped -- the disk is full -- run it again with make bench ROWS=LINK"
        in shown.err
    )
    assert "START\tdepth\t2\t<= 1\tmissed by 100 %" in shown.out


def test_interrupt_keeps_the_results_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_row(monkeypatch, "LINK", found)
    replace_row(monkeypatch, "START", interrupt)
    assert main(arguments(tmp_path, "LINK", "START")) == 130
    assert "LINK\tdepth\t2\t<= 1\tmissed by 100 %" in capsys.readouterr().out
    (own,) = json.loads((tmp_path / "out" / "bench.json").read_text())["own"]
    assert (own["row"], own["figures"]) == ("LINK", {"depth": 2})
    assert list((tmp_path / "data").iterdir()) == []


def test_help_names_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert [row.about for row in OWN_ROWS.values() if row.about not in said] == []


@pytest.mark.parametrize("option", ["--seconds", "--scale"])
@pytest.mark.parametrize("value", ["nan", "inf", "0"])
def test_time_that_is_no_number_is_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([option, value])
    assert "must be positive numbers" in capsys.readouterr().err
