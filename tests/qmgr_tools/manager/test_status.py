import subprocess
from pathlib import Path

import pytest

from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

pytestmark = pytest.mark.process
KEYS = {
    "name",
    "software",
    "pid",
    "uptime_ms",
    "cpu_ms",
    "listening",
    "store_id",
    "boot",
    "turn",
    "queues",
    "messages",
    "leased",
    "producers",
    "connections",
    "jobs",
    "links",
    "links_up",
    "store_used_bytes",
    "store_map_bytes",
    "disk_free_bytes",
    "store_full",
    "maintenance",
    "open",
    "turn_longest_us",
    "turn_times_us",
}


def test_json_has_the_documented_keys(qm: Qmctl, daemon: Daemon) -> None:
    status = qm("status", "-o", "json").json
    assert set(status) >= KEYS
    assert status["name"] == daemon.name
    assert status["listening"] == [daemon.tcp, daemon.unix]
    assert type(status["store_used_bytes"]) is int
    said = qm("status", "--help").out
    assert [key for key in KEYS if key not in said] == []


def test_people_read_units(qm: Qmctl) -> None:
    facts = dict(line.split("\t") for line in qm("status").out.splitlines())
    assert facts["queue manager"] == "QM"
    assert facts["store limit"] == "64 GiB"
    assert facts["listening"].count(", ") == 1
    assert facts["longest turn since last status"].endswith(" ms")
    assert "puts refused" not in facts


def test_daemon_that_starts_is_waited_for(qmctl: Qmctl, tmp_path: Path) -> None:
    """Until the daemon listens, the data directory is empty."""
    starting = Daemon("LATER", tmp_path / "later")
    starting.data_dir.mkdir()
    words = [*QMCTL, "status", "--wait", "30s", "--data-dir", str(starting.data_dir)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as asks:
        try:
            starting.start()
            out, _ = asks.communicate(timeout=40)
            assert asks.returncode == 0
            assert "queue manager\tLATER\n" in out
            assert qmctl("status", "--wait", "30s", "-c", starting.tcp).code == 0
        finally:
            starting.program.stop()


def test_wait_ends(qmctl: Qmctl) -> None:
    ended = qmctl("-c", "unix:/nowhere/qmgrd.sock", "status", "--wait", "250ms")
    assert (ended.code, ended.out) == (5, "")
    assert "cannot show the status -- cannot connect to unix:/nowhere/qmgrd.sock" in ended.err
