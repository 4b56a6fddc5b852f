"""Tests of qmctl history against a real daemon."""

import json
import os
import subprocess

import pytest

from qmgr_client.blocking import connect
from qmgr_tools.cli.failure import Exit
from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

pytestmark = pytest.mark.process


def test_events_are_reported(qm: Qmctl, queue: str) -> None:
    assert qm("queue", "alter", queue, "--accounting", "on").code == 0
    assert qm("put", queue, "one", "--priority", "7").code == 0
    assert qm("get", queue).code == 0
    rows = qm("history", "ls", "--queue", queue, "-o", "json").json
    assert [row["event"] for row in rows] == ["put", "delivered", "settled"]
    assert {(row["arrival"], row["priority"], row["uid"]) for row in rows} == {
        (1, 7, rows[0]["uid"])
    }
    assert rows[1]["peer"] == rows[2]["peer"] is not None
    uid = rows[0]["uid"]
    lines = qm("history", "ls", "--uid", uid, "--event", "settled").out.splitlines()
    assert len(lines) == 2
    assert lines[1].split("\t")[1:4] == ["settled", queue, uid]
    assert len(qm("history", "ls", "--queue", queue, "--limit", "1").out.splitlines()) == 2
    assert qm("history", "ls", "--event", "eaten").code == 2


def test_nothing_is_explained(qm: Qmctl, queue: str) -> None:
    def why(*words: str) -> str:
        ended = qm("history", "ls", *words)
        assert (ended.code, len(ended.out.splitlines())) == (0, 1)
        return ended.err

    alter = f"qmctl queue alter {queue} --accounting on"
    assert why("--queue", queue) == f"{queue} has no history; to record it: {alter}\n"
    assert why("--queue", "NONE").startswith("no history of NONE: queue NONE does not exist")
    assert qm("queue", "alter", queue, "--accounting", "on").code == 0
    assert qm("put", queue, "one").code == 0
    assert " are stored; see: qmctl history show" in why("--uid", "NYC.1")
    assert qm("history", "ls", "--uid", "one").code == Exit.USAGE


def test_follow_tells_of_what_comes(qm: Qmctl, daemon: Daemon, queue: str) -> None:
    assert qm("queue", "alter", queue, "--accounting", "on").code == 0
    assert qm("put", queue, "one").code == 0
    process = subprocess.Popen(
        [*QMCTL, "history", "ls", "--follow", "--queue", queue, "-o", "json"],
        stdout=subprocess.PIPE,
        env=os.environ | {"QMCTL_CONNECT": daemon.unix},
    )
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["event"] == "put"
        assert qm("queue", "purge", queue, "--yes").code == 0
        assert json.loads(process.stdout.readline())["event"] == "removed"
    finally:
        process.kill()
        process.communicate()


def test_state_and_cursors_are_shown_and_forgotten(qm: Qmctl, daemon: Daemon) -> None:
    assert "no export cursor" in qm("history", "show").err
    with connect(daemon.unix) as client:
        shown = client.admin.history_show()
        client.admin.cursor_commit("LAKE", shown["next"] - 1)
    found = qm("history", "show", "-o", "json").json
    assert [row["cursor"] for row in found["cursors"]] == ["LAKE"]
    assert "LAKE" in qm("history", "show").out
    assert qm("history", "delete", "LAKE").out == "deleted export cursor LAKE\n"
    failed = qm("history", "delete", "LAKE")
    assert failed.code == Exit.REFUSED
    assert "export cursor 'LAKE' does not exist" in failed.err
