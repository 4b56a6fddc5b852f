"""Tests of qmctl report. tests/pyspark_qmgr tests the reports, and the failure of a report."""

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from qmgr_tools.cli.failure import Exit
from tests.qmgr_tables.fixtures import snapshot
from tests.qmgr_tools.conftest import QMCTL, OnTerminal, Qmctl

__all__ = ["snapshot"]


def test_reports_are_listed_with_and_without_a_word(qmctl: Qmctl) -> None:
    told = qmctl("report")
    assert (told.code, told.err) == (0, "")
    assert told == qmctl("report", "ls")
    assert told.out.startswith("REPORT\tDESCRIPTION\ndepth\tdepth of each queue, ")
    rows = qmctl("report", "ls", "-o", "json").json
    assert [row["report"] for row in rows] == [
        line.partition("\t")[0] for line in told.out.splitlines()[1:]
    ]
    said = qmctl("report", "--help").out
    assert [key for key in rows[0] if key not in said] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dept"], "'dept' is not a valid report; did you mean depth? -- see: qmctl report ls"),
        (
            ["depth", "--to", "/x"],
            "--path is missing -- example: qmctl report depth --path SNAPSHOTS",
        ),
        (["depth", "--path", "/x"], "--to is missing -- "),
    ],
)
def test_contradictory_options_are_refused(qmctl: Qmctl, words: list[str], said: str) -> None:
    ended = qmctl("report", *words)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert ended.err.startswith(f"error: cannot create reports -- {said}")


def test_path_without_a_snapshot_is_named(qmctl: Qmctl, tmp_path: Path) -> None:
    ended = qmctl("report", "depth", "--path", str(tmp_path / "none"), "--to", str(tmp_path))
    assert ended.code == Exit.FAILED
    assert (
        f"error: cannot create reports -- {tmp_path}/none: not found; check the path" in ended.err
    )


def test_machine_without_java_is_told_what_to_do(
    qmctl: Qmctl, snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ended = qmctl("report", "depth", "--path", str(snapshot), "--to", str(tmp_path / "out"))
    assert ended.code == Exit.FAILED
    assert "Java not found: JAVA_HOME is not set and PATH has no java: install Java 17" in ended.err
    assert ended.err.endswith(" -- to work without Java, use qmctl export\n")
    assert not (tmp_path / "out").exists()


class Missing(MetaPathFinder):
    """An import hook that hides one package."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        """Raises ModuleNotFoundError for the hidden package."""
        if name == "matplotlib":
            raise ModuleNotFoundError(name=name)


def test_package_that_is_missing_is_named(qmctl: Qmctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    ended = qmctl("report", "depth", "--path", "/x", "--to", "/y")
    assert ended.code == Exit.FAILED
    assert "the Python package matplotlib is not installed -- pip install 'qmgr-spark[spark]'" in (
        ended.err
    )


@pytest.mark.process
@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.long
def test_report_is_made_and_told_of(
    on_terminal: OnTerminal, snapshot: Path, tmp_path: Path
) -> None:
    to = tmp_path / "out"
    ended = on_terminal("report", "depth", "--path", str(snapshot), "--to", str(to))
    assert ended.code == 0
    assert "MANY of QM1 is the deepest with 2,500 messages" in ended.out
    assert f"wrote {to}/report.html" in ended.out.replace("\n", "")
    assert "depth: " in ended.out  # The progress bar has shown the running report and its tasks.
    assert (to / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in to.iterdir()) == [
        "depth.parquet",
        "report.html",
        "report.json",
    ]


@pytest.mark.process
@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.long
def test_json_has_the_documented_keys(qmctl: Qmctl, snapshot: Path, tmp_path: Path) -> None:
    """The command runs in a separate process, because it ends the Spark session."""
    words = ["report", "sizes", "--path", snapshot, "--to", "out", "-o", "json"]
    done = subprocess.run([*QMCTL, *map(str, words)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["page"] == str(tmp_path / "out" / "report.html")
    (sizes,) = told["reports"]
    said = qmctl("report", "--help").out
    keys = (*told, *sizes, *sizes["parts"][0], *told["snapshots"][0], *told["versions"])
    assert [key for key in keys if key not in said] == []
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == told
