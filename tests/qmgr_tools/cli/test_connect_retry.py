"""Tests of commands that start before the daemon listens."""

import json
import socket
import time
from pathlib import Path

import pytest

from qmgr_bench.host import QMGRD
from qmgr_bench.server import Program, free_port
from qmgr_tools.cli import connect_retry
from qmgr_tools.cli.connect_retry import retried
from qmgr_tools.cli.failure import Exit, Failure, NotListening
from tests.qmgr_tools.conftest import Qmctl


class Dial:
    """A connect function that fails several times, and then returns "open"."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def __call__(self) -> str:
        self.left -= 1
        if self.left >= 0:
            raise NotListening("cannot look", "cannot connect to h:1: refused", "")
        return "open"


def test_place_where_nobody_listens_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert retried(Dial(3), 60_000) == "open"
    assert capsys.readouterr().err == ""


def test_wait_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_retry, "QUIET_MS", 0)
    assert retried(Dial(3), 60_000) == "open"
    err = capsys.readouterr().err
    assert err == "retrying for up to 60 s: cannot connect to h:1: refused\n"


def test_patience_ends() -> None:
    dial = Dial(10**9)
    with pytest.raises(NotListening):
        retried(dial, 120)
    assert 10**9 - dial.left >= 2
    started_s, once = time.monotonic(), Dial(10**9)
    with pytest.raises(NotListening):
        retried(once, 0)
    assert (once.left, time.monotonic() - started_s < 60) == (10**9 - 1, True)


def test_environment_says_for_how_long(qmctl: Qmctl, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connect_retry.patience_ms({}) == 3_000
    assert connect_retry.patience_ms({connect_retry.ENVIRONMENT: ""}) == 3_000
    assert connect_retry.patience_ms({connect_retry.ENVIRONMENT: "0"}) == 0
    assert connect_retry.patience_ms({connect_retry.ENVIRONMENT: "30s"}) == 30_000
    monkeypatch.setenv(connect_retry.ENVIRONMENT, "5")
    ended = qmctl("-c", "unix:/nowhere/qmgrd.sock", "status")
    assert (ended.code, "error: invalid QMCTL_PATIENCE -- duration 5 has no unit" in ended.err) == (
        2,
        True,
    )


def test_other_failures_are_not_tried_again() -> None:
    def dial() -> None:
        calls.append(1)
        raise Failure(Exit.UNAVAILABLE, "cannot look", "unreachable")

    calls: list[int] = []
    with pytest.raises(Failure):
        retried(dial, 60_000)
    assert len(calls) == 1


@pytest.mark.process
@pytest.mark.parametrize("way", ["tcp", "unix", "data-dir"])
def test_command_right_behind_the_start_of_a_daemon_finds_it(
    qmctl: Qmctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv(connect_retry.ENVIRONMENT, "60s")
    port, data_dir, program = free_port(), tmp_path / "qm", Program()
    where = {
        "tcp": ["-c", f"127.0.0.1:{port}"],
        "unix": ["-c", f"unix:{data_dir}/qmgrd.sock"],
        "data-dir": ["--data-dir", str(data_dir)],
    }
    words = ["--data-dir", str(data_dir), "--tcp", f"127.0.0.1:{port}", "--name", "SOON"]
    try:
        program.start([*QMGRD, *words], tmp_path)
        ended = qmctl(*where[way], "status", "--json")
        assert (ended.code, ended.json["name"]) == (0, "SOON")
    finally:
        program.stop()


def test_script_that_asks_whether_a_daemon_is_down_has_its_answer_in_3_s(
    qmctl: Qmctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(connect_retry.ENVIRONMENT)
    with socket.socket() as place:  # This reserves the port without listening.
        place.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{place.getsockname()[1]}"
        ended = qmctl("-c", address, "--json", "status")
    note, error = map(json.loads, ended.err.splitlines())
    assert note["note"].startswith(f"retrying for up to 3 s: cannot connect to {address}: ")
    assert (ended.code, error["error"]["exit_code"]) == (5, 5)


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        ("Connection refused", True),
        ("No such file or directory", True),
        ("no answer within 10 ms", False),
        ("h:1: Connection refused; unix:/s: No such file or directory", True),
        ("h:1: Connection refused; h:2: no answer within 10 ms", False),
    ],
)
def test_reasons_show_whether_nobody_listens(why: str, expected: bool) -> None:
    assert connect_retry.is_nobody(why) is expected


def test_list_where_nobody_listens_is_tried_again(
    qmctl: Qmctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_retry, "QUIET_MS", 0)
    monkeypatch.setenv(connect_retry.ENVIRONMENT, "200ms")
    ended = qmctl("-c", f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}", "status")
    assert ended.code == Exit.UNAVAILABLE
    assert "retrying for up to 0.2 s" in ended.err
