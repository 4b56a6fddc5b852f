"""Fixtures that run a daemon, and qmctl in this process."""

import io
import itertools
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from qmgr_bench.server import Program, wait_for
from qmgr_client.blocking import connect
from qmgr_tools.cli import connect_retry
from qmgr_tools.main import run
from tests.forked import Forked, ForkedProgram

QMCTL = (sys.executable, "-c", "from qmgr_tools.main import main; main()")
LOGIN = "QMGR_USER", "QMGR_PASSWORD", "QMGR_PASSWORD_FILE", "QMGR_CA_FILE", "QMGR_FINGERPRINT"
numbers = itertools.count(1)


class Daemon:
    """A queue manager as a process that listens on a Unix socket and a free port."""

    def __init__(self, name: str, data_dir: Path) -> None:
        self.name = name
        self.data_dir = data_dir
        self.program: Program = ForkedProgram()
        self.options: list[str] = []  # further options of the daemon

    def start(self) -> None:
        """Starts the daemon, and waits until it listens."""
        listening = self.data_dir / "listening.json"
        listening.unlink(missing_ok=True)
        where = ["--data-dir", str(self.data_dir), "--tcp", "127.0.0.1:0", "--name", self.name]
        self.program.start(["qmgrd", *where, *self.options], self.data_dir)
        wait_for(self.program, listening.exists)

    @property
    def tcp(self) -> str:
        """The TCP address of the daemon."""
        addresses: list[str] = json.loads((self.data_dir / "listening.json").read_text())
        return addresses[0]

    @property
    def unix(self) -> str:
        """The address of the daemon's Unix socket."""
        return f"unix:{self.data_dir}/qmgrd.sock"


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The daemon that most tests share. Each test uses separate queues."""
    started = Daemon("QM", tmp_path_factory.mktemp("qm"))
    try:
        started.start()
        yield started
    finally:
        started.program.stop()


@pytest.fixture
def own_daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon for one test, which the test can stop and start."""
    started = Daemon("OWN", tmp_path)
    try:
        started.start()
        yield started
    finally:
        started.program.stop()


class Ended(NamedTuple):
    """The exit code and the output of a command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output, parsed as JSON."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The lines of the output, each parsed as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


Qmctl = Callable[..., Ended]


@pytest.fixture
def qmctl(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Qmctl:
    """A function that runs qmctl without a terminal, with the given words and *stdin*."""
    for variable in ("QMCTL_CONNECT", "QMCTL_CONTEXT", *LOGIN):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv(connect_retry.ENVIRONMENT, "0")  # test_connect_retry.py tests retries.

    def call(*words: str, stdin: bytes = b"") -> Ended:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            code = run(words)
        return Ended(code, *capsys.readouterr())

    return call


@pytest.fixture
def qm(qmctl: Qmctl, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Qmctl:
    """A function like ``qmctl``, but for the shared daemon."""
    monkeypatch.setenv("QMCTL_CONNECT", daemon.unix)
    return qmctl


@pytest.fixture
def queue(qm: Qmctl) -> str:
    """A new queue on the shared daemon."""
    name = f"Q{next(numbers)}"
    assert qm("queue", "create", name).code == 0
    return name


@pytest.fixture
def bad(qm: Qmctl, daemon: Daemon, queue: str) -> str:
    """A backout queue with three dead letters from *queue*."""
    name = f"{queue}.BAD"
    qm("queue", "create", name)
    with connect(daemon.unix, name="billing") as client:
        client.admin.queue_alter(queue, backout_queue=name)
        for body in (b"a", b"bb", b"\xff"):
            client.put(queue, body, headers={"n": len(body)}, expiry_ms=3_600_000)
            message = client.get(queue)
            assert message is not None
            client.reject(message, "no-amount", "the amount is missing")
    return name


@pytest.fixture
def topic(qm: Qmctl, queue: str) -> Iterator[str]:
    """A topic for one test, with two subscriptions."""
    for name in ("a", "b"):
        made = qm("sub", "create", f"{queue}/#", f"{queue}:{name}", "--redelivery-limit", "0")
        assert made.code == 0
    yield f"{queue}/JFK"
    for name in ("a", "b"):
        qm("sub", "delete", f"{queue}:{name}", "--yes")


@pytest.fixture
def parked(qm: Qmctl, daemon: Daemon, queue: str, topic: str) -> list[str]:
    """The UIDs of two publications that are parked for two and for one subscriber.

    The first one is parked for both subscribers, the second one for the first subscriber.
    """
    with connect(daemon.unix, name="billing") as client:
        uids = [
            str(client.publish(topic, body, headers={"n": n}).uid)
            for n, body in enumerate((b"one", b"two"))
        ]
        for name, count in (("a", 2), ("b", 1)):
            for _ in range(count):
                message = client.get(f"{queue}:{name}")
                assert message is not None
                client.release(message, reason="no-amount", text="the amount is missing")
    return uids


@pytest.fixture
def way(qm: Qmctl, queue: str) -> Iterator[str]:
    """A stopped link of the shared daemon with a remote queue *queue*@LINK, for one test."""
    link = f"L.{queue}"
    assert qm("link", "create", link, "127.0.0.1:1", "--stopped").code == 0
    assert qm("queue", "create", f"{queue}@{link}").code == 0
    yield link
    qm("queue", "delete", f"{queue}@{link}")
    qm("link", "delete", link, "--purge", "--yes")


OnTerminal = Callable[..., Ended]


@pytest.fixture
def on_terminal(daemon: Daemon) -> OnTerminal:
    """A function that runs qmctl on a separate terminal of 100 columns with the input *typed*."""

    def call(*words: str, typed: str = "", **environment: str) -> Ended:
        ours, theirs = pty.openpty()
        known = {"QMCTL_CONNECT": daemon.unix, "COLUMNS": "100", "TERM": "xterm"}
        known[connect_retry.ENVIRONMENT] = "0"
        with os.fdopen(ours, "r+b", buffering=0) as screen:
            screen.write(typed.encode())
            with os.fdopen(theirs, "r+b", buffering=0) as keyboard:
                known |= environment
                streams = (keyboard.fileno(),) * 3
                process = Forked(["qmctl", *words], os.environ | known, Path.cwd(), streams)
            shown = b""
            with suppress(OSError):  # Reading a terminal that all processes have closed raises EIO.
                while piece := screen.read(65_536):
                    shown += piece
            code = process.wait()
        return Ended(code, shown.decode().replace("\r\n", "\n"), "")

    return call


@pytest.fixture
def at_prompts(tmp_path: Path) -> OnTerminal:
    """A function that runs qmctl on a separate terminal and types *answers*, one at each prompt.

    A prompt for a password drops all that was typed before.
    """

    def call(*words: str, answers: tuple[str, ...] = (), **environment: str) -> Ended:
        ours, theirs = pty.openpty()
        known = {"COLUMNS": "100", "TERM": "xterm", "XDG_CONFIG_HOME": str(tmp_path / "config")}
        known[connect_retry.ENVIRONMENT] = "0"
        left, shown, prompt_at = list(answers), b"", 0
        with os.fdopen(ours, "r+b", buffering=0) as screen:
            with os.fdopen(theirs, "r+b", buffering=0) as keyboard:
                process = subprocess.Popen(
                    [*QMCTL, *words],
                    stdin=keyboard,
                    stdout=keyboard,
                    stderr=keyboard,
                    env=os.environ | known | environment,
                    start_new_session=True,  # Otherwise, it would ask on the tester's terminal.
                )
            with suppress(OSError):  # A terminal that all processes have closed reports EIO.
                while piece := screen.read(65_536):
                    shown += piece
                    if left and shown[prompt_at:].endswith(b": "):
                        prompt_at = len(shown)
                        screen.write(left.pop(0).encode() + b"\n")
            code = process.wait()
        assert not left, shown
        return Ended(code, shown.decode().replace("\r\n", "\n"), "")

    return call


@pytest.fixture
def at(qmctl: Qmctl, own_daemon: Daemon) -> Qmctl:
    """A function that runs qmctl against a separate daemon."""

    def call(*words: str, stdin: bytes = b"") -> Ended:
        return qmctl("-c", own_daemon.unix, *words, stdin=stdin)

    return call
