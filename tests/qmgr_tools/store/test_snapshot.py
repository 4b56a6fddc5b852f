import json
import time
from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl

pytestmark = pytest.mark.process


def test_snapshot_is_written_and_its_manifest_printed(
    qm: Qmctl, queue: str, tmp_path: Path
) -> None:
    qm("put", queue, "x")
    ended = qm("snapshot", "create", str(tmp_path / "snap"), "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json == json.loads((tmp_path / "snap" / "manifest.json").read_text())
    (found,) = (row for row in ended.json["queues"] if row["queue"] == queue)
    assert found["depth"] == 1


def test_relative_directory_starts_here(
    qm: Qmctl, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = qm("snapshot", "create", "monday")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"wrote snapshot to {tmp_path}/monday\nsnapshot\tQM-")
    assert f"\n{queue}\tlocal\t0\t0\t0 B\t" in ended.out
    assert (tmp_path / "monday" / "data.mdb").exists()


@pytest.mark.parametrize("where", ["", "missing/deeper"])
def test_directory_that_cannot_be_is_a_failure(where: str, qm: Qmctl, tmp_path: Path) -> None:
    directory = tmp_path / where
    ended = qm("snapshot", "create", str(directory))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"error: cannot write a snapshot to {directory} -- ")
    assert "SNAPSHOT_FAILED" in ended.err


def fill(daemon: Daemon, queue: str) -> None:
    """Puts 2 MB on a queue."""
    with connect(daemon.unix, name="test") as client:
        for _ in range(4):
            client.put(queue, bytes(500_000))


def test_rate_bounds_how_fast_it_is_written(
    qm: Qmctl, daemon: Daemon, queue: str, tmp_path: Path
) -> None:
    fill(daemon, queue)
    began = time.monotonic()
    ended = qm("snapshot", "create", str(tmp_path / "snap"), "--rate", "2 MiB")
    assert ended.code == 0
    size = (tmp_path / "snap" / "data.mdb").stat().st_size
    assert size > 2_000_000
    assert time.monotonic() - began > 0.9 * size / (2 << 20)  # Timers are coarse.


def test_rate_without_its_unit_is_refused(qm: Qmctl, tmp_path: Path) -> None:
    ended = qm("snapshot", "create", str(tmp_path / "snap"), "--rate", "20")
    assert ended.code == 2
    assert 'the rate is less than 64 KiB; use a unit, as in "20 MiB"' in ended.err
    assert not (tmp_path / "snap").exists()


def test_file_url_is_a_directory(qm: Qmctl, tmp_path: Path) -> None:
    ended = qm("snapshot", "create", f"file://{tmp_path}/snap")
    assert (ended.code, ended.err) == (0, "")
    assert (tmp_path / "snap" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("gopher://host/snap", "ValueError: Protocol not known: gopher"),
        ("memory://snap", "the snapshot would be lost with the process: choose a disk"),
    ],
)
def test_url_that_leads_nowhere_is_a_failure(qm: Qmctl, url: str, why: str) -> None:
    ended = qm("snapshot", "create", url)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"error: cannot write a snapshot to {url} -- {url}: {why}")


def test_bar_shows_how_far_the_daemon_is(
    on_terminal: OnTerminal, daemon: Daemon, queue: str, tmp_path: Path
) -> None:
    fill(daemon, queue)
    ended = on_terminal(
        "snapshot", "create", str(tmp_path / "snap"), "--rate", "2 MiB", "-c", daemon.unix
    )
    assert ended.code == 0
    assert "snapshot: writing" in ended.out
    assert "MiB" in ended.out
