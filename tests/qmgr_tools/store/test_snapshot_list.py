"""Tests of qmctl snapshot ls and verify, which do not need a daemon."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgrd.snapshot import remote
from qmgrd.snapshot.manifest import CHECKSUM, checksum
from tests.qmgr_tables.fixtures import empty as an_empty
from tests.qmgr_tools.conftest import Qmctl
from tests.qmgrd.snapshot.far import far

empty = an_empty


@pytest.fixture
def three(empty: Path, tmp_path: Path) -> Iterator[Path]:
    """Two intact snapshots, and one with a wrong byte."""
    for name in ("a", "b", "rotten"):
        shutil.copytree(empty, tmp_path / "all" / name)
    with (tmp_path / "all" / "rotten" / "data.mdb").open("r+b") as file:
        file.seek(8192 + 1_500)  # a byte between the rows of a page
        file.write(b"rot")
    with far():
        yield tmp_path / "all"


def test_sound_ones_are_listed(qmctl: Qmctl, three: Path) -> None:
    ended = qmctl("snapshot", "ls", f"{three}/[ab]", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    assert [row["directory"] for row in ended.json] == [f"{three}/a", f"{three}/b"]
    first = ended.json[0]
    assert (first["state"], first["why"], first["queue_manager"]) == ("sound", "", "QM0")
    assert (first["messages"], first["format"]) == (0, 2)
    assert first["data_bytes"] == (three / "a" / "data.mdb").stat().st_size
    table = qmctl("snapshot", "ls", str(three))
    assert table.out.splitlines()[1].startswith(f"{three}/a\tQM0\t2023-11-14T22:13:20Z\t")


def test_oldest_comes_first(qmctl: Qmctl, three: Path) -> None:
    facts = json.loads((three / "a" / "manifest.json").read_text())
    facts |= {"wall_us": facts["wall_us"] + 1}
    facts[CHECKSUM] = checksum(facts)
    (three / "a" / "manifest.json").write_text(json.dumps(facts))
    ended = qmctl("snapshot", "ls", f"{three}/[ab]", "-o", "json")
    assert [row["directory"] for row in ended.json] == [f"{three}/b", f"{three}/a"]


def test_damaged_manifest_is_listed_and_fails(qmctl: Qmctl, three: Path) -> None:
    (three / "b" / "manifest.json").write_text("{}")
    ended = qmctl("snapshot", "ls", f"{three}/a", f"{three}/b", "-o", "json")
    assert ended.code == 1
    assert [row["state"] for row in ended.json] == ["sound", "damaged"]
    assert ended.json[1]["why"].startswith("manifest.json: damaged (KeyError")
    error = json.loads(ended.err)["error"]
    assert (error["what"], error["why"]) == ("1 of 2 snapshots damaged", f"{three}/b")
    assert error["remedy"] == "create or copy these snapshots again"


def test_path_that_leads_nowhere_is_not_found(qmctl: Qmctl, tmp_path: Path) -> None:
    for words in ("ls", "verify"):
        ended = qmctl("snapshot", words, f"{tmp_path}/none")
        assert (ended.code, ended.out) == (3, "")
        assert f"{tmp_path}/none: not found; check the path" in ended.err


def test_verify_reads_each(qmctl: Qmctl, three: Path) -> None:
    ended = qmctl("snapshot", "verify", str(three), "-o", "json")
    assert ended.code == 1
    assert [row["state"] for row in ended.json] == ["sound", "sound", "damaged"]
    assert ended.json[0]["rows"] > 0
    assert ended.json[2]["counts"]["manifest"] == 1
    assert "has SHA-256" in ended.json[2]["why"]
    error = json.loads(ended.err)["error"]
    assert (error["what"], error["why"]) == ("1 of 3 snapshots damaged", f"{three}/rotten")


def test_sound_ones_verify(qmctl: Qmctl, three: Path) -> None:
    ended = qmctl("snapshot", "verify", f"{three}/a", f"{three}/b")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("\tsound\t") == 2


def test_snapshot_elsewhere_is_listed_and_verified(qmctl: Qmctl, three: Path) -> None:
    remote.upload(three / "a", "far:///bucket/a")
    remote.upload(three / "rotten", "far:///bucket/rotten")
    listed = qmctl("snapshot", "ls", "far:///bucket", "-o", "json")
    assert [row["directory"] for row in listed.json] == ["far:///bucket/a", "far:///bucket/rotten"]
    verified = qmctl("snapshot", "verify", "far:///bucket", "-o", "json")
    assert verified.code == 1
    assert [row["state"] for row in verified.json] == ["sound", "damaged"]


def test_snapshot_of_the_first_format_is_sound(qmctl: Qmctl, tmp_path: Path) -> None:
    data = Path(__file__).parents[2] / "qmgr_tables" / "data" / "format-1.tar.xz"
    shutil.unpack_archive(data, tmp_path)  # Python before 3.11.4 has no filter.
    (manifest,) = tmp_path.rglob("manifest.json")
    listed = qmctl("snapshot", "ls", str(manifest.parent), "-o", "json")
    assert [row["format"] for row in listed.json] == [1]
    verified = qmctl("snapshot", "verify", str(manifest.parent), "-o", "json")
    assert "manifest" not in verified.json[0]["counts"]
