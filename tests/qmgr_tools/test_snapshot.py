import json
from pathlib import Path

import pytest

from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_snapshot_is_written_and_its_manifest_printed(
    qm: Qmctl, queue: str, tmp_path: Path
) -> None:
    qm("put", queue, "x")
    ended = qm("snapshot", str(tmp_path / "snap"), "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json == json.loads((tmp_path / "snap" / "manifest.json").read_text())
    (found,) = (row for row in ended.json["queues"] if row["queue"] == queue)
    assert found["depth"] == 1


def test_relative_directory_starts_here(
    qm: Qmctl, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = qm("snapshot", "monday")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"written to {tmp_path}/monday\nsnapshot\tQM-")
    assert f"\n{queue}\tlocal\t0\t0\t0 B\t" in ended.out
    assert (tmp_path / "monday" / "data.mdb").exists()


@pytest.mark.parametrize("where", ["", "missing/deeper"])
def test_directory_that_cannot_be_is_a_failure(where: str, qm: Qmctl, tmp_path: Path) -> None:
    directory = tmp_path / where
    ended = qm("snapshot", str(directory))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"error: cannot take a snapshot to {directory} -- ")
    assert "SNAPSHOT_FAILED" in ended.err
