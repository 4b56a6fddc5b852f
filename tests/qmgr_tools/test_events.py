"""qmctl events, against a real daemon."""

import json
import os
import subprocess

import pytest

from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

pytestmark = pytest.mark.process


def expire(qm: Qmctl, queue: str) -> None:
    """Have the event "message expired" happen, and return once it has."""
    assert qm("put", queue, "x", "--expiry", "1ms").code == 0
    qm("queue", "show", queue)
    while qm("queue", "show", queue, "-o", "json").json["expired"] == 0:
        pass


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
    words = ["events", "--follow", "--where", f"queue = '{queue}'", "-o", "json"]
    process = subprocess.Popen(
        [*QMCTL, *words], stdout=subprocess.PIPE, env=os.environ | {"QMCTL_CONNECT": daemon.unix}
    )
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["facts"] == {"queue": queue}
        assert qm("put", queue, "y", "--expiry", "1ms").code == 0
        assert json.loads(process.stdout.readline())["event"] == "message expired"
    finally:
        process.kill()
        process.communicate()
