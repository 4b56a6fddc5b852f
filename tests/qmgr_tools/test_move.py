"""qmctl move and copy, against a real daemon."""

import json
import os
import signal
import subprocess

import pytest

from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

pytestmark = pytest.mark.process


@pytest.fixture
def target(qm: Qmctl, queue: str) -> str:
    name = f"{queue}.OLD"
    assert qm("queue", "create", name).code == 0
    qm("put", queue, "--lines", stdin=b"red\nblue\nred\n")
    return name


def bodies(qm: Qmctl, queue: str) -> list[str]:
    return [row["body"] for row in qm("browse", queue, "-o", "json").lines]


def test_all_are_moved(qm: Qmctl, queue: str, target: str) -> None:
    ended = qm("move", queue, target)
    assert (ended.code, ended.out, ended.err) == (
        0, f"moved 3 messages from {queue} to {target}\n", "",
    )  # fmt: skip
    assert (bodies(qm, queue), bodies(qm, target)) == ([], ["red", "blue", "red"])


def test_those_that_the_selector_says_are_moved_up_to_the_limit(
    qm: Qmctl, queue: str, target: str
) -> None:
    ended = qm("move", queue, target, "--where", "size = 3", "--limit", "1", "-o", "json")
    row = ended.json
    assert (ended.code, row["kind"], row["state"], row["done"]) == (0, "move", "done", 1)
    assert (bodies(qm, queue), bodies(qm, target)) == (["blue", "red"], ["red"])
    assert row["ended"] >= row["started"]


def test_dry_run_counts_and_shows_the_first(qm: Qmctl, queue: str, target: str) -> None:
    ended = qm("move", queue, target, "--where", "size = 3", "--dry-run")
    assert ended.code == 0
    first, _, *rows = ended.out.splitlines()
    assert first == f"would move 2 messages from {queue} to {target}; nothing is changed"
    assert len(rows) == 2
    row = qm("copy", queue, target, "--dry-run", "--limit", "2", "-o", "json").json
    assert (row["dry_run"], row["messages"], row["from"], row["to"]) == (True, 2, queue, target)
    assert len(bodies(qm, queue)) == 3
    assert qm("move", queue, f"{queue}.NONE", "--dry-run").code == 3


def test_copy_leaves_them_and_is_told_of_those_there_already(
    qm: Qmctl, queue: str, target: str
) -> None:
    assert qm("copy", queue, target).out == f"copied 3 messages from {queue} to {target}\n"
    assert bodies(qm, queue) == bodies(qm, target)
    assert "; 3 skipped: leased, or there already" in qm("copy", queue, target).out


def test_move_that_is_left_to_itself_is_looked_at_and_cancelled(
    qm: Qmctl, queue: str, target: str
) -> None:
    qm("queue", "alter", target, "--put-inhibit")
    ended = qm("move", queue, target, "--detach", "-o", "json")
    job = str(ended.json["job"])
    assert qm("job", "show", job, "-o", "json").json["state"] in ("running", "waiting")
    assert qm("job", "cancel", job).out == f"job {job} is cancelled; it did 0 of 3\n"
    assert len(bodies(qm, queue)) == 3


def test_ctrl_c_leaves_it_running_and_says_how_to_go_on(
    qm: Qmctl, daemon: Daemon, queue: str, target: str
) -> None:
    qm("queue", "alter", target, "--put-inhibit")
    process = subprocess.Popen(
        [*QMCTL, "move", queue, target], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"QMCTL_CONNECT": daemon.unix},
    )  # fmt: skip
    assert process.stderr is not None
    assert b" waits: " in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    (row,) = qm("job", "ls", "-o", "json", "--where", f"queue={queue}").json
    job = row["job"]
    assert said.decode() == (
        f"job {job} goes on; look at it with: qmctl job show {job}; "
        f"end it with: qmctl job cancel {job}\n"
    )
    assert (process.returncode, row["ended"]) == (130, None)
    qm("job", "cancel", str(job))


def test_queue_is_not_moved_to_itself(qm: Qmctl, queue: str) -> None:
    ended = qm("move", queue, queue)
    assert ended.code == 2
    assert "itself" in ended.err


def test_selector_that_is_none_is_wrong_usage(qm: Qmctl, queue: str, target: str) -> None:
    ended = qm("move", queue, target, "--where", "size >")
    assert (ended.code, ended.out) == (2, "")
    assert "SELECTOR_INVALID" in ended.err


def test_help_says_that_where_is_a_selector(qm: Qmctl) -> None:
    for verb in ("move", "copy", "browse"):
        assert "docs/SELECTORS.md" in qm(verb, "--help").out
    assert json.loads(qm("job", "ls", "-o", "json").out) is not None
