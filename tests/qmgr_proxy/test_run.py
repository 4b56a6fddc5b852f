"""Tests of a simulated network that runs as a process between qmctl and a daemon."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

pytestmark = pytest.mark.process


class Running:
    """The running command and its output."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.first = self.next()
        self.address = self.first["address"]

    def next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def until(self, what: str) -> dict[str, Any]:
        while (row := self.next())["what"] != what:
            pass
        return row

    def end(self) -> dict[str, Any]:
        """Ends the command, and returns its totals."""
        self.process.send_signal(signal.SIGTERM)
        row = self.until("ended")
        assert self.process.wait(30) == 0
        totals: dict[str, Any] = row["totals"]
        return totals


@contextmanager
def proxy(daemon: Daemon, *words: str, listen: str = "127.0.0.1:0") -> Iterator[Running]:
    command = [*QMCTL, "proxy", listen, daemon.tcp, *words, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def test_commands_go_through_it(qmctl: Qmctl, qm: Qmctl, queue: str, daemon: Daemon) -> None:
    with proxy(daemon, "--delay", "10ms") as made:
        assert made.first["target"] == daemon.tcp
        assert qmctl("-c", made.address, "put", queue, "late").code == 0
        assert made.until("opened")["connection"] == 0
        assert made.until("closed")["connection"] == 0
        assert made.end() == {"opened": 1, "closed": 1}
    assert qm("get", queue, "--body-only").out == "late"


def test_what_it_loses_is_reported_and_nothing_is_put_twice(
    qmctl: Qmctl, qm: Qmctl, queue: str, daemon: Daemon
) -> None:
    with proxy(daemon, "--double", "30", "--seed", "3") as made:
        assert made.first["seed"] == 3
        lines = "\n".join(map(str, range(200))).encode()
        qmctl("-c", made.address, "put", queue, "--lines", stdin=lines)
        assert made.until("doubled")["way"] in ("forth", "back")
        made.end()
    bodies = [row["body"] for row in qm("browse", queue, "--limit", "1000", "--json").json]
    assert len(bodies) == len(set(bodies))


def test_port_that_somebody_has_is_refused(qmctl: Qmctl, daemon: Daemon) -> None:
    ended = qmctl("proxy", daemon.tcp, "127.0.0.1:1")
    assert (ended.code, "Address already in use" in ended.err) == (1, True)
    with proxy(daemon) as made:
        ended = qmctl("proxy", made.address, daemon.tcp)
        assert (ended.code, "Address already in use" in ended.err) == (1, True)


def test_target_that_does_not_listen_is_reported(qmctl: Qmctl, daemon: Daemon) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{nobody.getsockname()[1]}"
        command = [*QMCTL, "proxy", "127.0.0.1:0", target, "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            made = Running(process)
            assert qmctl("-c", made.address, "status").code == 5
            assert made.until("target not reached")["connection"] == 0
            made.end()


def test_it_ends_by_itself_and_tells_people(qmctl: Qmctl, daemon: Daemon) -> None:
    ended = subprocess.run(
        [*QMCTL, "proxy", "127.0.0.1:0", daemon.tcp, "--duration", "50ms", "--seed", "7"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    first, last = ended.stdout.splitlines()
    assert f"target {daemon.tcp}  seed 7" in first
    assert last.endswith(" s  ended")
