"""Tests of qmctl snapshot prune. tests/qmgrd/snapshot/test_prune.py tests the selection."""

import json
import os
import shutil
from pathlib import Path

import pytest

from qmgrd.snapshot.manifest import CHECKSUM, checksum
from tests.qmgr_tables.fixtures import empty as an_empty
from tests.qmgr_tools.conftest import Qmctl

empty = an_empty


@pytest.fixture
def three(empty: Path, tmp_path: Path) -> Path:
    """Three snapshots from 1970, one hour apart, and the files of an interrupted one."""
    for hour in range(3):
        made = Path(shutil.copytree(empty, tmp_path / "all" / f"s{hour}"))
        facts = json.loads((made / "manifest.json").read_text()) | {"wall_us": hour * 3_600_000_000}
        facts[CHECKSUM] = checksum(facts)
        (made / "manifest.json").write_text(json.dumps(facts))
    (tmp_path / "all" / "s3.partial-1").mkdir()
    return tmp_path / "all"


def test_dry_run_tells_and_removes_nothing(qmctl: Qmctl, three: Path) -> None:
    ended = qmctl("snapshot", "prune", str(three), "--keep", "2", "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert f"{three}/s0\tQM0\t1970-01-01T00:00:00Z\t" in ended.out
    assert f"{three}/s3.partial-1\t" in ended.out
    assert ended.out.endswith("kept 2 snapshots; nothing changed\n")
    assert len(os.listdir(three)) == 4


def test_old_ones_and_leftovers_go(qmctl: Qmctl, three: Path) -> None:
    ended = qmctl("snapshot", "prune", str(three), "--older-than", "30d", "-o", "json")
    assert ended.code == 0
    assert [(row["directory"], row["what"]) for row in ended.json["removed"]] == [
        (f"{three}/s1", "snapshot"),
        (f"{three}/s0", "snapshot"),
        (f"{three}/s3.partial-1", "leftover"),
    ]
    assert (ended.json["stay"], ended.json["dry_run"]) == (1, False)
    assert os.listdir(three) == ["s2"]


def test_without_options_only_leftovers_go(qmctl: Qmctl, three: Path) -> None:
    ended = qmctl("snapshot", "prune", str(three))
    assert ended.code == 0
    assert ended.err.endswith("to delete snapshots: --keep N or --older-than TIME\n")
    assert sorted(os.listdir(three)) == ["s0", "s1", "s2"]


def test_unreadable_data_is_reported(qmctl: Qmctl, three: Path) -> None:
    (three / "s2" / "manifest.json").write_text("{}")
    ended = qmctl("snapshot", "prune", str(three), "--keep", "1")
    assert ended.code == 0
    assert (
        f"kept an unreadable snapshot: {three}/s2/manifest.json: damaged" in ended.out + ended.err
    )
    assert sorted(os.listdir(three)) == ["s1", "s2"]


@pytest.mark.parametrize("words", [["--keep", "0"], ["--older-than", "5"]])
def test_value_that_cannot_be_is_refused(qmctl: Qmctl, three: Path, words: list[str]) -> None:
    assert qmctl("snapshot", "prune", str(three), *words).code == 2
    assert len(os.listdir(three)) == 4


def test_path_that_leads_nowhere_is_not_found(qmctl: Qmctl, tmp_path: Path) -> None:
    ended = qmctl("snapshot", "prune", f"{tmp_path}/none", "--keep", "1")
    assert ended.code == 3
    assert f"cannot prune -- {tmp_path}/none: not found; check the path" in ended.err
