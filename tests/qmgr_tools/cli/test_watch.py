import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from qmgr_tools.cli.watch import timed
from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

FAST = "100ms"


@contextmanager
def watching(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Yields a qmctl process that watches, then ends it with Ctrl-C and checks its exit code."""
    with subprocess.Popen(
        [*QMCTL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--watch"], ["--watch=2s"]),
        (["--watch", "5"], ["--watch", "5"]),
        (["--watch", "500 ms"], ["--watch", "500 ms"]),
        (["--watch=5s"], ["--watch=5s"]),
        (["--watch", "ORDERS"], ["--watch=2s", "ORDERS"]),
        (["ORDERS", "--watch", "-o", "json"], ["ORDERS", "--watch=2s", "-o", "json"]),
        (["--watch", "4711.dead"], ["--watch=2s", "4711.dead"]),
        (["--", "--watch"], ["--", "--watch"]),
    ],
)
def test_watch_alone_has_its_time(words: list[str], expected: list[str]) -> None:
    assert timed(words) == expected


@pytest.mark.parametrize(
    ("said", "why"), [("0", "0 is too short"), ("2 years", "unit"), ("-1s", "negative")]
)
def test_time_that_is_none_is_wrong_usage(said: str, why: str, qmctl: Qmctl) -> None:
    ended = qmctl("queue", "ls", f"--watch={said}")
    assert (ended.code, ended.out) == (2, "")
    assert "invalid value for '--watch'" in ended.err
    assert why in ended.err


def test_daemon_that_never_ran_is_a_failure(qmctl: Qmctl) -> None:
    ended = qmctl("-c", "unix:/nowhere/qmgrd.sock", "status", "--watch")
    assert (ended.code, ended.out) == (5, "")


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["status"], "turn"),
        (["queue", "ls"], "0"),
        (["queue", "show", "{queue}"], "depth"),
        (["link", "ls"], "0"),
        (["link", "show", "{link}"], "state"),
        (["connection", "ls"], "0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_json_is_a_document_a_line(
    words: list[str], key: str, queue: str, way: str, daemon: Daemon
) -> None:
    said = [word.format(queue=queue, link=way) for word in words]
    with watching("-c", daemon.unix, *said, "--watch", FAST, "-o", "json") as process:
        documents = [json.loads(line_of(process)) for _ in range(2)]
    for document in documents:
        assert isinstance(document[0], dict) if key == "0" else key in document


@pytest.mark.process
def test_changes_are_shown(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    words = ["queue", "show", queue, "--watch", FAST, "-o", "json"]
    with watching("-c", daemon.unix, *words) as process:
        assert json.loads(line_of(process))["depth"] == 0
        qm("put", queue, "x")
        while json.loads(line_of(process))["depth"] == 0:
            pass


@pytest.mark.process
def test_tables_follow_one_another_where_no_terminal_is(queue: str, daemon: Daemon) -> None:
    words = ["queue", "ls", "--where", f"queue={queue}", "--columns", "queue,ready"]
    with watching("-c", daemon.unix, *words, "--watch", FAST) as process:
        assert [line_of(process) for _ in range(6)] == [
            "QUEUE\tREADY\n",
            f"{queue}\t0\n",
            "\n",
            "QUEUE\tREADY\n",
            f"{queue}\t0\n",
            "\n",
        ]


@pytest.mark.process
def test_terminal_is_drawn_anew(queue: str, daemon: Daemon) -> None:
    ours, theirs = pty.openpty()
    words = ["-c", daemon.unix, "queue", "ls", "--where", f"queue={queue}", "--watch", FAST]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen([*QMCTL, *words], stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        shown = b""
        try:
            while shown.count(b"every 100 ms; press Ctrl-C to end") < 3:
                shown += screen.read(65_536)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
    assert shown.count(queue.encode()) >= 2
    assert b"\x1b[1A" in shown  # The cursor moves up to overwrite the previous output.


@pytest.mark.process
def test_lost_daemon_is_told_and_found_again(own_daemon: Daemon) -> None:
    where = ["--data-dir", str(own_daemon.data_dir)]
    with watching(*where, "status", "--watch", FAST, "-o", "json") as process:
        assert process.stderr is not None
        assert json.loads(line_of(process))["boot"] == 1
        own_daemon.program.stop()
        assert json.loads(process.stderr.readline())["note"].startswith("lost the connection: ")
        own_daemon.start()
        assert json.loads(process.stderr.readline()) == {"note": "connected again"}
        while json.loads(line_of(process))["boot"] == 1:
            pass


@pytest.mark.process
def test_queue_that_is_deleted_ends_the_watch(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    with subprocess.Popen(
        [*QMCTL, "-c", daemon.unix, "queue", "show", queue, "--watch", FAST, "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        line_of(process)
        qm("queue", "delete", queue)
        assert process.stderr is not None
        error = json.loads(process.stderr.read())["error"]
        assert (error["code"], error["what"]) == ("QUEUE_UNKNOWN", f"cannot show queue {queue}")
    assert process.returncode == 3
