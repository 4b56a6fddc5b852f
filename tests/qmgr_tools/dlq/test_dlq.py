"""G19: Tests that qmctl dlq lists and retries the dead letters of a real daemon."""

from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


def rows(qm: Qmctl, queue: str, *words: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = qm("dlq", "ls", "--queue", queue, *words, "-o", "json").json
    return found


def uids(qm: Qmctl, queue: str) -> list[str]:
    return [str(row["uid"]) for row in rows(qm, queue)]


def test_list_says_why_and_from_where(qm: Qmctl, queue: str, bad: str) -> None:
    """G19: The list shows the header of a dead letter."""
    head, *lines = qm("dlq", "ls", "--queue", bad).out.splitlines()
    assert head.split("\t")[:4] == ["UID", "FROM", "CODE", "REASON"]
    assert [line.split("\t")[1:7] for line in lines] == [
        [queue, "MESSAGE_REJECTED", "no-amount", "1", "1", "0"]
    ] * 3
    dead = rows(qm, bad)[0]["dead"]
    assert isinstance(dead, dict)
    assert (dead["queue"], dead["manager"], dead["code"]) == (queue, "QM", "MESSAGE_REJECTED")
    assert 3_000_000 < dead["left_ms"] <= 3_600_000


def test_list_is_selected_by_facts_of_dead_letters(qm: Qmctl, bad: str) -> None:
    assert len(rows(qm, bad, "--where", "dead_reason = 'no-amount' AND n = 2")) == 1
    assert rows(qm, bad, "--where", "dead_retries > 0") == []
    assert qm("dlq", "ls", "--queue", bad, "--columns", "text", "--limit", "1").out == (
        "TEXT\nthe amount is missing\n"
    )


def test_show_has_header_attempts_and_body(qm: Qmctl, queue: str, bad: str) -> None:
    uid = uids(qm, bad)[1]
    shown = qm("dlq", "show", uid, "--queue", bad).out
    assert f"from\t{queue}\n" in shown
    assert "TIME\tCODE\tREASON\tCLIENT\tTEXT\n" in shown
    assert "\tMESSAGE_REJECTED\tno-amount\tbilling\tthe amount is missing\n" in shown
    assert "\nbb\n" in shown
    found = qm("dlq", "show", uid, "--queue", bad, "-o", "json").json
    assert (found["body"], len(found["attempts"])) == ("bb", 1)
    assert qm("dlq", "show", "QM.1", "--queue", bad).code == 3


def test_retry_restores_the_original(qm: Qmctl, queue: str, bad: str) -> None:
    """G19: A retry returns the message, with its attributes, to its original queue."""
    uid = uids(qm, bad)[1]
    ended = qm("dlq", "retry", uid, "--queue", bad)
    assert (ended.code, ended.out, ended.err) == (0, f"moved back 1 message from {bad}\n", "")
    (row,) = qm("browse", queue, "-o", "json").json
    assert (row["uid"], row["body"], row["headers"]) == (uid, "bb", {"n": 2})
    assert (row["delivered"], row["failed"]) == (0, 0)
    assert len(uids(qm, bad)) == 2


def test_retry_of_all_to_another_queue(qm: Qmctl, queue: str, bad: str) -> None:
    later = f"{queue}.LATER"
    qm("queue", "create", later)
    words = ["dlq", "retry", "--queue", bad, "--all", "--to", later]
    assert qm(*words, "--dry-run").out.startswith(f"would move 3 messages from {bad} to {later};")
    row = qm(*words, "-o", "json").json
    assert (row["done"], row["kind"], row["target"]) == (3, "retry", later)
    assert len(qm("browse", later, "-o", "json").json) == 3


def test_what_went_back_often_enough_stays(qm: Qmctl, daemon: Daemon, queue: str, bad: str) -> None:
    words = ["dlq", "retry", "--queue", bad, "--all", "--max-retries", "1"]
    assert qm(*words).code == 0
    with connect(daemon.unix) as client:
        for _ in range(3):
            message = client.get(queue)
            assert message is not None
            client.reject(message)
    ended = qm(*words)
    why = "3 stayed: already retried 1 time (--max-retries)"
    assert (ended.code, ended.out) == (6, "")
    assert ended.err == f"error: nothing was moved back from {bad} -- {why}\n"
    ended = qm(*words, "-o", "json")
    assert (ended.code, ended.json["stayed"], ended.json["text"]) == (6, 3, why)
    assert [row["dead"]["retries"] for row in rows(qm, bad)] == [1, 1, 1]  # type: ignore[index]
    found = qm(*words, "--dry-run", "-o", "json").json
    assert (found["messages"], found["stay"]) == (0, {"already retried 1 time (--max-retries)": 3})


def test_those_whose_queue_is_gone_stay_and_are_told_of_before_and_after(
    qm: Qmctl, queue: str, bad: str
) -> None:
    words = ["dlq", "retry", "--queue", bad, "--all"]
    qm("put", bad, "no dead letters")
    assert qm("queue", "delete", queue).code == 0
    gone = f"queue {queue} does not exist here"
    tried = qm(*words, "--dry-run")
    assert tried.out.startswith(f"would move 0 messages from {bad} to their original queues;")
    assert tried.err == (
        f"note: 3 messages would stay: {gone}\nnote: 1 message would stay: not a dead letter\n"
    )
    done = qm(*words)
    assert (done.code, done.out) == (6, "")
    assert done.err.endswith(f" -- 3 stayed: {gone}; 1 stayed: not a dead letter\n")
    qm("queue", "create", queue, "--alias-of", f"{queue}.NONE")
    for dry in ([], ["--dry-run"]):
        assert f"{queue} is an alias of queue {queue}.NONE, which does not" in qm(*words, *dry).err
    qm("queue", "delete", queue)
    qm("queue", "create", queue)
    assert qm(*words).out == f"moved back 3 messages from {bad}; 1 stayed: not a dead letter\n"


def test_only_dead_letters_go_to_another_queue(qm: Qmctl, queue: str, bad: str) -> None:
    qm("put", bad, "no dead letters")
    words = ["dlq", "retry", "--queue", bad, "--all", "--to", queue]
    assert qm(*words, "--dry-run").out.startswith("would move 3 messages ")
    assert qm(*words).out == f"moved back 3 messages from {bad} to {queue}\n"
    assert [row["body"] for row in rows(qm, bad)] == ["no dead letters"]


@pytest.mark.parametrize("verb", ["retry", "drop"])
def test_which_is_said_in_exactly_one_way(verb: str, qm: Qmctl, bad: str) -> None:
    for words in ([], ["QM.1", "--all"], ["--all", "--where", "size = 1"]):
        ended = qm("dlq", verb, "--queue", bad, *words)
        assert (ended.code, ended.out) == (2, "")
    assert qm("dlq", verb, "no-uid", "--queue", bad).code == 2
    assert qm("dlq", verb, "QM.1", "--queue", bad, "-o", "json").code == 3


def test_drop_leaves_what_is_no_dead_letter(qm: Qmctl, bad: str) -> None:
    qm("put", bad, "ordinary")
    ordinary = uids(qm, bad)[-1]
    for where, count in ((["--where", "size > 1"], 1), (["--all"], 3)):
        tried = qm("dlq", "delete", "--queue", bad, *where, "--dry-run")
        assert tried.out.startswith(f"would delete {count} message")
        assert tried.err == "note: 1 message would stay: not a dead letter\n"
    for verb in ("drop", "retry"):
        ended = qm("dlq", verb, ordinary, "--queue", bad)
        assert (ended.code, ended.out) == (3, "")
        assert f"{ordinary} is not a dead letter" in ended.err
    ended = qm("dlq", "delete", "--all", "--queue", bad, "--yes")
    assert ended.out == f"deleted 3 messages from {bad}\n"
    assert ended.err == (
        f"note: 1 message stayed: not a dead letter; to delete all messages: qmctl queue "
        f"purge {bad}\n"
    )
    assert uids(qm, bad) == [ordinary]


def test_drop_asks_and_removes_those_named(qm: Qmctl, bad: str) -> None:
    words = ["dlq", "delete", "--queue", bad, "--where", "n = 2"]
    assert qm(*words).code == 2
    assert qm(*words, "--dry-run").out.startswith(f"would delete 1 message from {bad};")
    assert len(uids(qm, bad)) == 3
    assert qm(*words, "--yes").out == f"deleted 1 message from {bad}\n"
    first = uids(qm, bad)[0]
    assert qm("dlq", "delete", first, "--queue", bad, "-y", "-o", "json").json["messages"] == 1
    assert len(uids(qm, bad)) == 1


def skipped(qm: Qmctl, queue: str, *groups: str) -> None:
    """Makes the first of two messages of each group a dead letter."""
    for group in groups:
        for number in ("1", "2"):
            qm("put", queue, f"{group}-{number}", "--group", group, "--number", number)
        assert qm("group", "skip", queue, group, "--yes").code == 0


def test_dead_letters_of_a_group_are_named_by_text_or_digits(
    qm: Qmctl, queue: str, tmp_path: Path
) -> None:
    skipped(qm, queue, "N1", "N2")
    there = ("--where", f"dead_queue = '{queue}'")
    for group in ("N1", b"N1".ljust(24, b"\0").hex()):
        words = ("--group", group, *there)
        out = qm("dlq", "ls", *words, "--columns", "group,number,last").out
        assert out == "GROUP\tNUMBER\tLAST\nN1\t1\tno\n"
        file = tmp_path / f"{group}.jsonl"
        assert qm("dlq", "export", str(file), *words, "-o", "json").json["messages"] == 1
        tried = qm("dlq", "retry", *words, "--dry-run", "-o", "json").json
        assert tried["messages"] == 1
    assert qm("dlq", "delete", "--group", "N2", *there, "--yes").out.startswith("deleted 1 message")
    assert [row["group"] for row in qm("dlq", "ls", *there, "-o", "json").json] == ["N1"]
    ended = qm("dlq", "retry", "--group", "N1", "--all")
    assert (ended.code, "exactly one method" in ended.err) == (2, True)


def test_what_an_operator_skipped_says_so(qm: Qmctl, queue: str) -> None:
    skipped(qm, queue, "N1")
    there = ("--where", f"dead_queue = '{queue}'")
    out = qm("dlq", "ls", *there, "--columns", "code,reason,text").out
    assert out == "CODE\tREASON\tTEXT\nMESSAGE_REJECTED\tskipped by an operator\t\n"
    (row,) = qm("dlq", "ls", *there, "-o", "json").json
    assert (row["dead"]["reason"], row["dead"]["text"]) == ("skipped", "by an operator")
    shown = qm("dlq", "show", row["uid"]).out
    assert "reason\tskipped by an operator\n" in shown
    assert "\ntext\t" not in shown
    qm("dlq", "delete", row["uid"], "--yes")


def test_show_has_no_column_without_a_word_and_does_not_contradict_its_counts(
    qm: Qmctl, queue: str, daemon: Daemon
) -> None:
    name = f"{queue}.BAD"
    qm("queue", "create", name)
    with connect(daemon.unix, name="billing") as client:
        client.admin.queue_alter(queue, backout_queue=name, backout_threshold=2)
        client.put(queue, b"x")
        for _ in range(2):
            message = client.get(queue)
            assert message is not None
            client.release(message, reason="odd")
    (uid,) = uids(qm, name)
    shown = qm("dlq", "show", uid, "--queue", name).out
    assert "delivered\t2\n" in shown
    assert "redelivered" not in shown
    assert "TIME\tREASON\tCLIENT\n" in shown
