"""G19: qmctl dlq, against a real daemon: what is told of dead letters, and that they go back."""

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
    """G19: the header of a dead letter."""
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
    """G19: the retry tool puts the message back where it was, with what it had."""
    uid = uids(qm, bad)[1]
    ended = qm("dlq", "retry", uid, "--queue", bad)
    assert (ended.code, ended.out, ended.err) == (0, f"sent back 1 message from {bad}\n", "")
    (row,) = qm("browse", queue, "-o", "json").lines
    assert (row["uid"], row["body"], row["headers"]) == (uid, "bb", {"n": 2})
    assert (row["delivered"], row["failed"]) == (0, 0)
    assert len(uids(qm, bad)) == 2


def test_retry_of_all_to_another_queue(qm: Qmctl, queue: str, bad: str) -> None:
    later = f"{queue}.LATER"
    qm("queue", "create", later)
    words = ["dlq", "retry", "--queue", bad, "--all", "--to", later]
    assert qm(*words, "--dry-run").out.startswith(f"would send 3 messages from {bad} to {later};")
    assert qm(*words, "-o", "json").json["done"] == 3
    assert len(qm("browse", later, "-o", "json").lines) == 3


def test_what_went_back_often_enough_stays(qm: Qmctl, daemon: Daemon, queue: str, bad: str) -> None:
    words = ["dlq", "retry", "--queue", bad, "--all", "--max-retries", "1"]
    assert qm(*words).code == 0
    with connect(daemon.unix) as client:
        for _ in range(3):
            message = client.get(queue)
            assert message is not None
            client.reject(message)
    assert "; 3 stayed: they could not go" in qm(*words).out
    assert [row["dead"]["retries"] for row in rows(qm, bad)] == [1, 1, 1]  # type: ignore[index]
    assert qm(*words, "--dry-run", "-o", "json").json["messages"] == 0


@pytest.mark.parametrize("verb", ["retry", "drop"])
def test_which_is_said_in_exactly_one_way(verb: str, qm: Qmctl, bad: str) -> None:
    for words in ([], ["QM.1", "--all"], ["--all", "--where", "size = 1"]):
        ended = qm("dlq", verb, "--queue", bad, *words)
        assert (ended.code, ended.out) == (2, "")
    assert qm("dlq", verb, "no-uid", "--queue", bad).code == 2
    assert qm("dlq", verb, "QM.1", "--queue", bad, "-o", "json").code == 3


def test_drop_asks_and_removes_those_named(qm: Qmctl, bad: str) -> None:
    words = ["dlq", "drop", "--queue", bad, "--where", "n = 2"]
    assert qm(*words).code == 2
    assert qm(*words, "--dry-run").out.startswith(f"would remove 1 message from {bad};")
    assert len(uids(qm, bad)) == 3
    assert qm(*words, "--yes").out == f"dropped 1 message from {bad}\n"
    first = uids(qm, bad)[0]
    assert qm("dlq", "drop", first, "--queue", bad, "-y", "-o", "json").json["messages"] == 1
    assert len(uids(qm, bad)) == 1
