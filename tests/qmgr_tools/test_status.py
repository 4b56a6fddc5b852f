import pytest

from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process
KEYS = {
    "name", "software", "pid", "uptime_ms", "cpu_ms", "listening", "store_id", "boot", "turn",
    "queues", "messages", "leased", "producers", "connections", "jobs", "links", "links_up",
    "store_used_bytes", "store_map_bytes", "disk_free_bytes", "store_full",
    "turn_longest_us", "turn_times_us",
}  # fmt: skip


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
    assert facts["store at most"] == "64 GiB"
    assert facts["listening"].count(", ") == 1
    assert facts["longest turn since asked"].endswith(" ms")
    assert "puts refused" not in facts
