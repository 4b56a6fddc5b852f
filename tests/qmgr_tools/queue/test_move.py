"""Tests of qmctl move and copy against a real daemon."""

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
    return [row["body"] for row in qm("browse", queue, "-o", "json").json]


def test_all_are_moved(qm: Qmctl, queue: str, target: str) -> None:
    ended = qm("move", queue, target)
    assert (ended.code, ended.out, ended.err) == (
        0,
        f"moved 3 messages from {queue} to {target}\n",
        "",
    )
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
    assert first == f"would move 2 messages from {queue} to {target}; nothing changed"
    assert len(rows) == 2
    row = qm("copy", queue, target, "--dry-run", "--limit", "2", "-o", "json").json
    assert (row["dry_run"], row["messages"], row["from"], row["to"]) == (True, 2, queue, target)
    assert len(bodies(qm, queue)) == 3
    assert qm("move", queue, f"{queue}.NONE", "--dry-run").code == 3


@pytest.mark.parametrize("verb", ["move", "copy"])
def test_dry_run_is_refused_as_the_job_would_be(verb: str, qm: Qmctl, queue: str, way: str) -> None:
    """A dry run checks the target and fails in the same way as the job."""
    qm("queue", "create", f"{queue}.GONE", "--alias-of", f"{queue}.NONE")
    qm("queue", "create", f"{queue}.ALIAS", "--alias-of", queue)
    for source, target in (
        (queue, f"{queue}.NONE"),
        (queue, f"{queue}.GONE"),
        (queue, f"@{way}"),
        (queue, queue),
        (queue, f"{queue}.ALIAS"),
        (f"{queue}.ALIAS", queue),
        (f"@{way}", queue),
        (f"{queue}.GONE", queue),
        (queue, "no name"),
    ):
        tried, done = (qm(verb, source, target, *dry) for dry in (["--dry-run"], []))
        assert (tried.code, tried.out, tried.err) == (done.code, "", done.err), (source, target)
        assert done.code != 0


@pytest.mark.long
def test_dry_run_says_why_it_would_wait(qm: Qmctl, queue: str, target: str, way: str) -> None:
    def waits(to: str) -> str:
        ended = qm("move", queue, to, "--dry-run")
        assert ended.code == 0
        assert qm("move", queue, to, "--dry-run", "-o", "json").json["waits"] == (
            ended.err.removeprefix("note: ").rstrip() or None
        )
        return ended.err

    qm("queue", "create", f"{target}.ALIAS", "--alias-of", target)
    assert waits(target) == waits(f"{queue}@{way}") == ""
    qm("queue", "alter", target, "--depth-max", "2")
    rest = f"note: {target} has room for only 2 messages: the job would wait with the rest\n"
    assert waits(target) == waits(f"{target}.ALIAS") == rest
    qm("put", target, "--lines", stdin=b"a\nb\n")
    assert waits(target) == f"note: {target} is full: the job would wait\n"
    for shut, to in ((target, target), (f"{queue}@{way}",) * 2, (f"@{way}", f"{queue}@{way}")):
        qm("queue", "alter", shut, "--put-inhibit")
        assert waits(to) == f"note: puts are inhibited on {shut}: the job would wait\n"
        qm("queue", "alter", shut, "--no-put-inhibit")


def test_dry_run_of_an_alias_is_about_its_queue(qm: Qmctl, queue: str, target: str) -> None:
    qm("queue", "create", f"{queue}.ALIAS", "--alias-of", queue)
    row = qm("move", f"{queue}.ALIAS", target, "--dry-run", "-o", "json").json
    assert row["messages"] == 3


def test_delayed_messages_stay_and_are_told_of(qm: Qmctl, queue: str, target: str) -> None:
    for body in ("later", "later still"):
        qm("put", queue, body, "--delay", "1h")
    for verb in ("move", "copy"):
        assert "If the target queue is full, the job waits." in qm(verb, "--help").out
        tried = qm(verb, queue, target, "--dry-run")
        assert tried.err == "note: 2 messages would stay: they are delayed\n"
    assert qm("move", queue, target, "--dry-run", "-o", "json").json["delayed"] == 2
    ended = qm("move", queue, target)
    assert ended.out == f"moved 3 messages from {queue} to {target}; 2 delayed messages stayed\n"
    assert qm("queue", "show", queue, "-o", "json").json["delayed"] == 2


def test_missing_queue_is_looked_for_not_the_other(qm: Qmctl, queue: str) -> None:
    """If one of the two queues is missing, the error suggests a queue with a similar name."""
    for name in ("ORDERS", "SALES", "K.IN"):
        qm("queue", "create", f"{queue}.{name}")
    for source, wrong, meant in (("SALES", "ORDRES", "ORDERS"), ("SALES", "K.INN", "K.IN")):
        for words in ((source, wrong), (wrong, source)):
            ended = qm("copy", *(f"{queue}.{word}" for word in words))
            assert (ended.code, ended.out) == (3, "")
            assert f"did you mean {queue}.{meant}? " in ended.err
    ended = qm("move", f"{queue}.SALES", f"{queue}.SOMETHING.ELSE")
    assert f"create it with: qmctl queue create {queue}.SOMETHING.ELSE" in ended.err


def test_copy_leaves_them_and_is_told_of_those_there_already(
    qm: Qmctl, queue: str, target: str
) -> None:
    assert qm("copy", queue, target).out == f"copied 3 messages from {queue} to {target}\n"
    assert bodies(qm, queue) == bodies(qm, target)
    assert (
        "; 3 skipped because they are leased or exist at the target"
        in qm("copy", queue, target).out
    )


def test_move_that_is_left_to_itself_is_looked_at_and_cancelled(
    qm: Qmctl, queue: str, target: str
) -> None:
    qm("queue", "alter", target, "--put-inhibit")
    ended = qm("move", queue, target, "--detach", "-o", "json")
    job = str(ended.json["job"])
    assert qm("job", "show", job, "-o", "json").json["state"] in ("running", "waiting")
    assert (
        qm("job", "cancel", job).out
        == f"job {job} is cancelled; it processed 0 messages of 3 on the queue\n"
    )
    assert len(bodies(qm, queue)) == 3


def test_ctrl_c_leaves_it_running_and_says_how_to_go_on(
    qm: Qmctl, daemon: Daemon, queue: str, target: str
) -> None:
    qm("queue", "alter", target, "--put-inhibit")
    process = subprocess.Popen(
        [*QMCTL, "move", queue, target],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"QMCTL_CONNECT": daemon.unix},
    )
    assert process.stderr is not None
    assert b" is waiting: " in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    (row,) = qm("job", "ls", "-o", "json", "--where", f"queue={queue}").json
    job = row["job"]
    assert said.decode() == (
        f"job {job} continues; to show it: qmctl job show {job}; to cancel it: qmctl job "
        f"cancel {job}\n"
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
