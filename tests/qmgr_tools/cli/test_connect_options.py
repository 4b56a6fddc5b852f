"""Tests of the connection options in suggested commands."""

import pytest

from qmgr_tools.cli import connect_options
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.link.doctor.text import explain
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl
from tests.qmgr_tools.link.doctor.test_diagnosis import found
from tests.qmgr_tools.link.doctor.test_down import ROW as DOWN


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("see: qmctl queue ls", "see: qmctl -c a:1 queue ls"),
        (
            "qmctl link stop X && qmctl link start X",
            "qmctl -c a:1 link stop X && qmctl -c a:1 link start X",
        ),
        (
            "look with: qmctl job show 5; to cancel it: qmctl job cancel 5",
            "look with: qmctl -c a:1 job show 5; to cancel it: qmctl -c a:1 job cancel 5",
        ),
        ("qmctl -c b:2 link ls", "qmctl -c b:2 link ls"),
        ("qmctl link ls --context nyc", "qmctl link ls --context nyc"),
        ("if so, say at NYC: qmctl link delete EWR", "if so, say at NYC: qmctl link delete EWR"),
        ("see: qmctl explain QUEUE_FULL", "see: qmctl explain QUEUE_FULL"),
        ('see "qmctl queue --help"', 'see "qmctl queue --help"'),
        ("qmctl store verify DIR", "qmctl store verify DIR"),
        ("start qmgrd, not qmctl", "start qmgrd, not qmctl"),
        (
            "qmctl link ls, or qmctl link start N",
            "qmctl -c a:1 link ls, or qmctl -c a:1 link start N",
        ),
        (
            "qmctl queue show Q (or: qmctl -c b:2 status)",
            "qmctl -c a:1 queue show Q (or: qmctl -c b:2 status)",
        ),
    ],
)
def test_command_gets_what_was_given_unless_it_says_where(text: str, told: str) -> None:
    with connect_options.in_use("-c a:1"):
        assert connect_options.add_to(text) == told
        assert connect_options.add_to(told) == told
    assert connect_options.add_to(text) == text


def test_choices_of_the_doctor_go_there(capsys: pytest.CaptureFixture[str]) -> None:
    passive = DOWN | {"link": "EWR", "addresses": []}
    with connect_options.in_use("--context nyc"):
        explain(found([DOWN, passive], []))
    shown = capsys.readouterr().out
    assert "\n  qmctl -c nyc:1 status\n" in shown
    assert "\n  qmctl --context nyc link start NYC\n" in shown
    assert "run qmctl link doctor at EWR\n" in shown  # The user types this command at EWR.


def test_failure_is_also_written_to_stderr() -> None:
    with connect_options.in_use("-c a:1"):
        failure = Failure(Exit.FAILED, "cannot", "why", "see: qmctl queue ls")
    assert str(failure) == "cannot -- why -- see: qmctl -c a:1 queue ls"


@pytest.mark.process
def test_what_is_told_acts_on_the_same_queue_manager(
    qmctl: Qmctl, own_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ["--data-dir", str(own_daemon.data_dir)]
    missing = qmctl("queue", "show", "NONE", *where).err
    assert f"; see: qmctl {' '.join(where)} queue ls\n" in f"; {missing.rpartition(' -- ')[2]}"
    qmctl("link", "create", "NYC", "127.0.0.1:1", "--stopped", *where)
    qmctl("queue", "create", "Q@NYC", *where)
    qmctl("put", "Q@NYC", "x", *where)
    at = f"qmctl -c {own_daemon.unix} link start NYC"
    assert qmctl("-c", own_daemon.unix, "link", "doctor").out.endswith(f"\t{at}\n")
    told = qmctl("link", "doctor", "-o", "json", *where).json
    assert told["links"][0]["findings"][0]["remedy"] == "qmctl link start NYC"
    monkeypatch.setenv("QMCTL_CONNECT", own_daemon.unix)
    assert qmctl("link", "doctor").out.endswith("\tqmctl link start NYC\n")


@pytest.mark.process
def test_terminal_is_told_so(on_terminal: OnTerminal, at: Qmctl, own_daemon: Daemon) -> None:
    at("link", "create", "NYC", "127.0.0.1:1", "--stopped")
    at("queue", "create", "Q@NYC")
    at("put", "Q@NYC", "x")
    shown = on_terminal("link", "doctor", "-c", own_daemon.unix, TERM="dumb").out
    assert f"try: qmctl -c {own_daemon.unix} link start NYC\n" in shown
