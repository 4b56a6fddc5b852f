"""Tests of the command qmctl top: tables for scripts, and the full screen."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

pytestmark = pytest.mark.process


def test_batch_prints_tables_with_rates(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "x")
    ended = qm("top", "--batch", "-d", "100ms")
    assert (ended.code, ended.err) == (0, "")
    head, queues, *_ = ended.out.split("\n\n")
    facts = dict(line.split("\t") for line in head.splitlines())
    assert (facts["queue manager"], facts["puts/s"]) == ("QM", "0")
    header, *rows = queues.splitlines()
    assert header.split("\t") == [
        "QUEUE",
        "READY",
        "LEASED",
        "PUT/S",
        "GET/S",
        "ACK/S",
        "BYTES",
        "CONS",
        "STATE",
    ]
    (own,) = [row.split("\t") for row in rows if row.startswith(f"{queue}\t")]
    assert own[:6] == [queue, "1", "0", "0", "0", "0"]
    assert own[-1] == "open"


def test_json_has_a_line_for_each_look(qm: Qmctl, queue: str) -> None:
    looks = qm("top", "--batch", "-n", "2", "-d", "100ms", "-o", "json").lines
    assert [set(look) for look in looks] == [{"head", "queues", "links", "connections"}] * 2
    for look in looks:
        (row,) = [row for row in look["queues"] if row["queue"] == queue]
        assert (row["put_rate"], row["state"]) == (0.0, "open")
        assert {"cpu_percent", "turn_rate", "store_percent", "uptime_ms"} <= set(look["head"])
    assert len(looks[1]["queues"][0]["trend"]) == 3
    said = qm("top", "--help").out
    for key in ("put_rate", "cpu_percent", "store_percent", "turn_rate", "trend", "direction"):
        assert key in said


def test_context_is_honoured_and_told(
    qmctl: Qmctl, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMCTL_CONNECT", "unix:/nowhere/s")
    qmctl("context", "create", "nyc", daemon.unix)
    ended = qmctl("--context", "nyc", "top", "--batch", "-d", "100ms", "-o", "json")
    head = ended.json["head"]
    assert (head["name"], head["context"], head["address"]) == ("QM", "nyc", daemon.unix)


def test_batch_prints_one_view_where_one_is_named(qm: Qmctl) -> None:
    (look,) = qm("top", "--batch", "--view", "connections", "-d", "100ms", "-o", "json").lines
    assert set(look) == {"head", "connections"}
    out = qm("top", "-b", "--view", "connections", "-d", "100ms").out
    assert "\nID\tNAME\tKIND\t" in out
    assert "\nQUEUE\t" not in out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "input or output is not a terminal"),
        (["-n", "1"], "--count requires --batch"),
        (["-o", "json"], "-o json requires --batch"),
    ],
)
def test_screen_where_there_is_none_is_refused(words: list[str], why: str, qm: Qmctl) -> None:
    ended = qm("top", *words)
    assert (ended.code, ended.out) == (2, "")
    if "json" in words:
        error = json.loads(ended.err)["error"]
        told = " -- ".join((error["what"], error["why"], error["remedy"]))
    else:
        told = ended.err.removeprefix("error: ").rstrip("\n")
    assert told == f"cannot show a full screen -- {why} -- use --batch"


@pytest.mark.parametrize("words", [["-d", "0"], ["-n", "0", "-b"], ["--view", "topics"]])
def test_wrong_usage(words: list[str], qm: Qmctl) -> None:
    assert qm("top", *words).code == 2


def test_unreachable_daemon_is_an_error_at_the_start(qmctl: Qmctl) -> None:
    assert qmctl("-c", "unix:/nowhere/s", "top", "--batch").code == 5


def test_help_and_batch_do_not_load_the_screen(daemon: Daemon) -> None:
    program = (
        "import sys\nfrom qmgr_tools.main import run\nrun(sys.argv[1:])\nsys.exit('textual "
        "is loaded' if 'textual' in sys.modules else 0)\n"
    )
    for words in (["top", "--help"], ["-c", daemon.unix, "top", "-b", "-d", "100ms"]):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def screen(daemon: Daemon) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Runs qmctl top on a terminal of 80 columns and 24 lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    known = {"TERM": "xterm-256color", "QMCTL_CONNECT": daemon.unix}
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | known
    with subprocess.Popen(
        [*QMCTL, "top", "-d", "200ms"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            yield ours, process
        finally:
            process.kill()
            os.close(ours)


def test_terminal_is_filled_and_left_as_it_was(screen: tuple[int, subprocess.Popen[bytes]]) -> None:
    terminal, process = screen
    shown = b""
    while b"connections" not in shown or b"QM" not in shown:
        shown += os.read(terminal, 65_536)
    os.write(terminal, b"q")
    with suppress(OSError):  # Reading a terminal that all processes have closed raises EIO.
        while piece := os.read(terminal, 65_536):
            shown += piece
    assert process.wait(20) == 0
    assert b"\x1b[?1049h" in shown  # switches to the alternate screen
    assert b"\x1b[?1049l" in shown  # switches back to the main screen
