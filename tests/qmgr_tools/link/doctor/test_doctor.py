"""Tests of qmctl link doctor and explain with a daemon. Other modules test each finding."""

import json
import socket
import time
from collections.abc import Iterator

import pytest

from qmgr_tools.link.doctor.measurement import ROW_KEYS
from tests.qmgr_tools.cli.test_watch import watching
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl

pytestmark = pytest.mark.process
ENTRY = {"link", "state", "verdict", "findings", "progress", "paths", "inbound"}
FINDING = {"code", "severity", "what", "why", "remedy", "choices"}
RATES = {"messages_per_s", "bytes_per_s", "put_per_s", "drained_ms"}


@pytest.fixture
def peer(qm: Qmctl, daemon: Daemon) -> Daemon:
    """The shared daemon, which accepts any store of OWN."""
    qm("link", "disallow", "OWN")  # The daemon may remember the store of an earlier test.
    qm("link", "allow", "OWN")
    return daemon


def test_exit_code_is_for_monitoring(at: Qmctl) -> None:
    assert at("link", "doctor").code == 0
    at("link", "create", "NYC", "127.0.0.1:1", "--stopped")
    assert at("link", "doctor", "NYC").code == 0
    at("queue", "create", "Q@NYC")
    at("put", "Q@NYC", "x")
    warned = at("link", "doctor")
    assert (warned.code, warned.err) == (8, "")
    assert warned.out.splitlines()[1].split("\t")[:5] == [
        "NYC",
        "warning",
        "stopped",
        "1",
        "stopped",
    ]
    assert at("link", "explain", "NYC").code == 0
    for words in ("doctor", "explain"):
        unknown = at("link", words, "EWR")
        assert (unknown.code, "LINK_UNKNOWN" in unknown.err) == (3, True)


def test_wrong_peer_is_critical_and_mended_by_its_remedy(
    at: Qmctl, peer: Daemon, own_daemon: Daemon
) -> None:
    at("link", "create", "NYC", peer.tcp)
    while at("link", "show", "NYC", "-o", "json").json["state"] != "refused":
        time.sleep(0.02)
    told = at("link", "doctor", "NYC", "-o", "json")
    (finding,) = told.json["links"][0]["findings"]
    assert (told.code, told.json["verdict"]) == (9, "critical")
    assert (finding["code"], finding["remedy"]) == (
        "refused-peer-wrong",
        "qmctl link alter NYC HOST:PORT",
    )
    assert f"{peer.tcp} is {peer.name}, not NYC" in finding["what"]


def test_block_is_told_at_both_ends_and_mended(
    at: Qmctl, qm: Qmctl, queue: str, peer: Daemon
) -> None:
    at("link", "create", peer.name, peer.tcp, "--connections", "2", "--stopped")
    at("queue", "create", f"{queue}.NONE@{peer.name}")
    at("put", f"{queue}.NONE@{peer.name}", "x")
    at("link", "start", peer.name)
    while at("link", "show", peer.name, "-o", "json").json["state"] != "blocked":
        time.sleep(0.02)
    here = at("link", "doctor", peer.name, "-o", "json")
    (entry,) = here.json["links"]
    (finding,) = entry["findings"]
    assert (here.code, finding["code"]) == (9, "blocked")
    assert (set(entry), set(finding)) == (ENTRY, FINDING)
    assert set(entry["progress"]) == set(ROW_KEYS) | RATES
    assert [path["path"] for path in entry["paths"]] == [0, 1]
    there = qm("link", "doctor", "OWN", "-o", "json")
    assert there.json["links"][0]["state"] is None
    assert [one["code"] for one in there.json["links"][0]["findings"]] == ["inbound-blocked"]
    said = at("link", "explain", peer.name).out
    assert "\nremedies:\n" in said
    assert finding["remedy"] == f"qmctl -c {peer.tcp} queue create {queue}.NONE"
    assert f"\n  {finding['remedy']}\n" in said
    assert qm(*finding["remedy"].split()[1:]).code == 0
    at("link", "start", peer.name)
    assert qm("get", f"{queue}.NONE", "--wait", "20s", "--body-only").out == "x"
    while at("link", "show", peer.name, "-o", "json").json["waiting"]:
        time.sleep(0.02)
    well = at("link", "doctor", peer.name, "-o", "json")
    assert (well.code, well.json["links"][0]["state"]) == (0, "up")
    assert well.json["looked_ms"] >= 1000
    assert well.json["links"][0]["progress"]["messages_per_s"] is not None
    assert at("link", "explain", peer.name, "-o", "json").json["looked_ms"] == 0


def test_message_bound_for_nobody_is_ended_by_what_is_told(
    at: Qmctl, qm: Qmctl, peer: Daemon
) -> None:
    at("link", "create", peer.name, peer.tcp, "--route", "NOBODY")
    at("queue", "create", "Q@NOBODY")
    at("put", "Q@NOBODY", "x")
    while at("link", "show", peer.name, "-o", "json").json["state"] != "blocked":
        time.sleep(0.02)
    (entry,) = at("link", "explain", peer.name, "-o", "json").json["links"]
    _, passive, delete, start = (one["command"] for one in entry["findings"][0]["choices"])
    assert "create NOBODY --passive" in passive
    assert (qm(*passive.split()[1:]).code, at(*start.split()[1:]).code) == (0, 0)
    while not qm("link", "show", "NOBODY", "-o", "json").json["waiting"]:
        time.sleep(0.02)
    assert "1 message" in qm(*delete.split()[1:], "--yes").out
    while at("link", "show", peer.name, "-o", "json").json["waiting"]:
        time.sleep(0.02)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a listener that accepts connections but sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes daemons that start later wait only briefly for silent peers."""
    monkeypatch.setenv("QMGRD_LIMITS__HEARTBEAT_MS", "100 ms")
    monkeypatch.setenv("QMGRD_LIMITS__LIVENESS_MS", "300 ms")


def test_who_refuses_is_silent_or_unknown_is_told_apart(
    hasty: None, silent: str, at: Qmctl
) -> None:
    says = {
        "127.0.0.1:1": "",
        silent: "It hangs or is another",
        "no.such.host.invalid:7470": "cannot be resolved. It is misspelt, or the name service",
    }
    for number, address in enumerate(says):
        at("link", "create", f"L{number}", address)
    for number, words in enumerate(says.values()):
        while not at("link", "show", f"L{number}", "-o", "json").json["error"]:
            time.sleep(0.02)
        assert words in at("link", "explain", f"L{number}").out


def test_terminal_shows_one_line_of_what_is_well(
    on_terminal: OnTerminal, own_daemon: Daemon, at: Qmctl
) -> None:
    at("link", "create", "NYC", "127.0.0.1:1", "--stopped")
    ended = on_terminal("link", "doctor", QMCTL_CONNECT=own_daemon.unix, TERM="dumb")
    assert (ended.code, ended.out) == (0, "NYC  ok        stopped, no messages pending\n")


def test_watching_compares_with_the_last_look(own_daemon: Daemon, at: Qmctl) -> None:
    at("link", "create", "NYC", "127.0.0.1:1", "--stopped")
    words = ("-c", own_daemon.unix, "link", "doctor", "NYC", "--watch", "100ms", "-o", "json")
    with watching(*words) as process:
        assert process.stdout is not None
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
    assert first["links"][0]["link"] == second["links"][0]["link"] == "NYC"
    assert first["looked_ms"] == 0
    assert second["looked_ms"] > 0


def test_json_keys_are_documented(qmctl: Qmctl) -> None:
    said = qmctl("link", "doctor", "--help").out
    keys = ENTRY | FINDING | RATES | set(ROW_KEYS) | {"verdict", "looked_ms", "inbound_count"}
    assert [key for key in sorted(keys) if key not in said] == []
