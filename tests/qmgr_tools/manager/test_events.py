"""Tests of qmctl events against a real daemon."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from qmgr_tools.cli.command import Call
from qmgr_tools.manager import events
from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

pytestmark = pytest.mark.process


def expire(qm: Qmctl, queue: str) -> None:
    """Causes the event "message expired", and waits until qmctl lists it."""
    assert qm("put", queue, "x", "--expiry", "1ms").code == 0
    qm("queue", "show", queue)
    while qm("queue", "show", queue, "-o", "json").json["expired"] == 0:
        pass


@contextmanager
def following(daemon: Daemon, queue: str, *words: str) -> Iterator[IO[bytes]]:
    """Yields a process that runs `events --follow` for *queue*, with a pipe as output."""
    process = subprocess.Popen(
        [*QMCTL, "events", "--follow", "--where", f"queue = '{queue}'", *words],
        stdout=subprocess.PIPE,
        env=os.environ | {"QMCTL_CONNECT": daemon.unix},
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        process.communicate()


def test_events_are_shown_and_stay(qm: Qmctl, queue: str) -> None:
    expire(qm, queue)
    where = f"event = 'message expired' AND queue = '{queue}'"
    for _ in range(2):
        (row,) = qm("events", "--where", where, "-o", "json").json
        assert (row["event"], row["count"], row["manager"]) == ("message expired", 1, "QM")
        assert row["facts"] == {"queue": queue}
    line = qm("events", "--where", where, "--limit", "1").out.splitlines()[1]
    assert line.split("\t")[1:] == ["message expired", "1", f"queue={queue}"]
    assert qm("events", "--where", "event =").code == 2


def test_follow_tells_of_those_to_come_a_line_each(qm: Qmctl, daemon: Daemon, queue: str) -> None:
    expire(qm, queue)
    with following(daemon, queue, "-o", "json") as lines:
        assert json.loads(lines.readline())["facts"] == {"queue": queue}
        assert qm("put", queue, "y", "--expiry", "1ms").code == 0
        assert json.loads(lines.readline())["event"] == "message expired"


def test_follow_through_a_pipe_is_the_same_table(qm: Qmctl, daemon: Daemon, queue: str) -> None:
    expire(qm, queue)
    with following(daemon, queue) as lines:
        came = [lines.readline().decode() for _ in range(2)]
        assert came == qm("events", "--where", f"queue = '{queue}'").out.splitlines(keepends=True)
        assert qm("put", queue, "y", "--expiry", "1ms").code == 0
        cells = lines.readline().decode().rstrip("\n").split("\t")
        assert cells[1:] == ["message expired", "1", f"queue={queue}"]


def test_event_on_a_terminal_is_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    row = {"time": "12:00", "event": "queue full", "count": 3, "facts": {"queue": "Q"}}
    events._show_one(Call(), row)
    assert capsys.readouterr().out == "12:00  queue full (3 times)  queue=Q\n"
