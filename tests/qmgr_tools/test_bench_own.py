import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from qmgr_tools import bench_own
from qmgr_tools.bench_own import ROWS, Row, Telling, main, parse
from qmgr_tools.bench_own_host import LoadFailed
from qmgr_tools.bench_own_result import Result, Setting, Target, at_most


@pytest.mark.parametrize(
    ("arguments", "environment", "rows"),
    [
        ([], {}, [*ROWS]),
        ([], {"ROWS": "LINK,DUP"}, ["LINK", "DUP"]),
        (["--rows", "10M"], {"ROWS": "LINK"}, ["10M"]),
        (["--others"], {"ROWS": "W1a START"}, ["START"]),
        (["--others"], {"ROWS": "W1a"}, []),
    ],
)
def test_rows_are_options_or_environment(
    arguments: list[str], environment: dict[str, str], rows: list[str]
) -> None:
    assert parse(arguments, environment).rows == rows


def test_seconds_and_scale_are_heard_from_the_environment() -> None:
    options = parse(["--seconds", "2"], {"SECONDS": "0.5", "SCALE": "0.1"})
    assert (options.seconds, options.scale) == (2, 0.1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--rows", "W1a"], "'W1a' is none of W4-own, 10M"),
        (["--scale", "0"], "to be positive"),
        (["--seconds", "-1"], "to be positive"),
        (["--rounds", "0"], "to be positive"),
    ],
)
def test_wrong_option_is_explained(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(arguments, {})
    assert end.value.code == 2
    assert why in capsys.readouterr().err


def test_help_names_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"], {})
    said = capsys.readouterr().out
    assert [row.about for row in ROWS.values() if row.about not in said] == []


def arguments(tmp_path: Path, *rows: str) -> list[str]:
    where = ["--dir", str(tmp_path / "data"), "--json", str(tmp_path / "out" / "own.json")]
    return ["--rows", *rows, *where, "--seconds", "0.1", "--scale", "0.001", "--rounds", "1"]


@pytest.mark.process
def test_runs_are_told_and_added_to_those_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for row in ("W4-own", "DUP"):
        assert main(arguments(tmp_path, row)) == 0, capsys.readouterr().err
    shown = capsys.readouterr()
    assert "DUP\tlookups on the fast path\t0\t<= 0\treached" in shown.out
    assert "DUP took " in shown.err
    runs = json.loads((tmp_path / "out" / "own.json").read_text())["runs"]
    assert [run["row"] for run in runs] == ["W4-own", "DUP"]
    assert runs[0]["figures"]["depth"] == 1_000
    assert [target["reached"] for target in runs[1]["targets"]][::2] == [True, True]
    table = (tmp_path / "out" / "own.md").read_text()
    assert table.index("## W4-own") < table.index("## DUP")
    series = (tmp_path / "out" / "own_DUP.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in series] == ["depth", "1", "10", "100", "1000"]
    assert list((tmp_path / "data").iterdir()) == []


@dataclass(frozen=True)
class Found:
    """What a row for tests finds."""

    depth: int

    def targets(self) -> list[Target]:
        return [at_most("depth", self.depth, 1)]


def test_row_that_fails_keeps_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(setting: Setting) -> Result:
        raise LoadFailed("the disk is full")

    monkeypatch.setitem(ROWS, "LINK", Row("about", lambda setting: Found(setting.scaled(2_000))))
    monkeypatch.setitem(ROWS, "START", Row("about", fail))
    assert main(arguments(tmp_path, "LINK", "START")) == 1
    shown = capsys.readouterr()
    assert "error: START stopped -- the disk is full -- " in shown.err
    assert "LINK\tdepth\t2\t<= 1\tmissed by 100 %" in shown.out
    (run,) = json.loads((tmp_path / "out" / "own.json").read_text())["runs"]
    assert (run["row"], run["figures"], run["scale"]) == ("LINK", {"depth": 2}, 0.001)
    assert list((tmp_path / "data").iterdir()) == []


def test_nothing_is_done_where_all_rows_are_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments(tmp_path, "W1a"), "--others"]) == 0
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "out" / "own.json").exists()


def test_foreign_file_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out" / "own.json"
    path.parent.mkdir()
    path.write_text('{"rows": []}')
    assert main(arguments(tmp_path, "START")) == 1
    assert "holds no runs of these rows: move it away" in capsys.readouterr().err
    assert path.read_text() == '{"rows": []}'


def test_how_far_it_is_is_told_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_own, "LINE_EVERY_S", 3_600.0)
    telling = Telling()
    telling.say("one")
    telling.say("two")
    telling.end()
    assert capsys.readouterr().err == "one\n"


def test_terminal_has_one_line_that_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    telling = Telling()
    telling.say("x" * 40)
    telling.say("two")
    telling.end()
    assert capsys.readouterr().err == f"\r\x1b[K{'x' * 19}\r\x1b[Ktwo\r\x1b[K"
