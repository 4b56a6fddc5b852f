"""Tests of qmctl group pause, resume, skip, reassign and close against a real daemon."""

import pytest

from qmgr_client.blocking import connect
from qmgr_tools.group.alter import Skipped
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl
from tests.qmgr_tools.group.test_group import put

pytestmark = pytest.mark.process
GET = ("--order", "logical", "--body-only")


@pytest.mark.parametrize(
    ("given_up", "numbers", "loss"),
    [
        (Skipped(4, 5, 1), "number 4", "1 message becomes a dead letter"),
        (Skipped(4, 5, 0), "number 4", "1 number never arrived and would be refused"),
        (
            Skipped(4, 9, 3),
            "numbers 4 to 8",
            "3 messages become dead letters, 2 numbers never arrived and would be refused",
        ),
        (
            Skipped(4, 9, 3, 8),
            "numbers 4 to 8",
            "3 messages become dead letters, 2 numbers never arrived, the group ends, "
            "because 8 is its last number, and is forgotten",
        ),
        (
            Skipped(8, 9, 1, 8, is_kept=True),
            "number 8",
            "1 message becomes a dead letter, the group ends, because 8 is its last number",
        ),
    ],
)
def test_what_a_skip_gives_up_is_told(given_up: Skipped, numbers: str, loss: str) -> None:
    assert (given_up.numbers, given_up.effect) == (numbers, loss)


def test_paused_group_is_not_handed_out_until_it_is_resumed(qm: Qmctl, queue: str) -> None:
    put(qm, queue, "N1", 1)
    put(qm, queue, "N2", 1)
    ended = qm("group", "pause", queue, "N1")
    assert ended.out == (
        f"paused group N1 of {queue}; it is paused, number 1 is next, 1 message on the queue\n"
    )
    assert qm("get", queue, *GET).out == "N2-1"
    assert qm("get", queue, *GET).code == 7
    row = qm("group", "resume", queue, "N1", "-o", "json").json
    assert (row["group"], row["state"]) == ("N1", "open")
    assert qm("get", queue, *GET).out == "N1-1"


def test_due_message_is_skipped_into_the_dead_letters(qm: Qmctl, queue: str) -> None:
    for number in (1, 2):
        put(qm, queue, "N1", number)
    tried = qm("group", "skip", queue, "N1", "--dry-run")
    assert tried.out == (
        f"would skip number 1 of group N1 of {queue}: 1 message becomes a dead letter; "
        "nothing changed\n"
    )
    ended = qm("group", "skip", queue, "N1")
    assert (ended.code, "and there is no terminal to ask for confirmation" in ended.err) == (
        2,
        True,
    )
    row = qm("group", "skip", queue, "N1", "--yes", "-o", "json").json
    assert (row["next"], row["count"]) == (2, 1)
    (letter,) = qm("dlq", "ls", "--where", f"dead_queue = '{queue}'", "-o", "json").json
    assert (letter["body"], letter["dead"]["reason"]) == ("N1-1", "skipped")
    assert qm("get", queue, *GET).out == "N1-2"


def test_missing_numbers_are_skipped_to_what_is_there(qm: Qmctl, queue: str) -> None:
    for number in (3, 4):
        put(qm, queue, "N1", number)
    assert qm("get", queue, *GET).code == 7
    dry = qm("group", "skip", queue, "N1", "--dry-run", "-o", "json").json
    assert dry == {
        "dry_run": True,
        "queue": queue,
        "group": "N1",
        "group_id": b"N1".ljust(24, b"\0").hex(),
        "from": 1,
        "to": 3,
        "messages": 0,
        "absent": 2,
        "ends": False,
    }
    assert qm("group", "skip", queue, "N1", "--yes").code == 0
    assert qm("get", queue, *GET).out == "N1-3"


def test_skip_to_a_number_gives_up_all_below(qm: Qmctl, queue: str) -> None:
    for number in (1, 2, 5):
        put(qm, queue, "N1", number)
    dry = qm("group", "skip", queue, "N1", "--to", "5", "--dry-run", "-o", "json").json
    assert (dry["from"], dry["to"], dry["messages"], dry["absent"]) == (1, 5, 2, 2)
    ended = qm("group", "skip", queue, "N1", "--to", "5", "--yes")
    assert ended.out == (
        f"skipped in group N1 of {queue}; it is open, number 5 is next, 1 message on the queue\n"
    )
    again = qm("group", "skip", queue, "N1", "--to", "5", "--dry-run")
    assert (again.code, "is at number 5" in again.err) == (2, True)
    assert again.err == qm("group", "skip", queue, "N1", "--to", "5", "--yes").err


def test_closed_group_ends_with_its_highest_message(qm: Qmctl, queue: str) -> None:
    for number in (1, 2):
        put(qm, queue, "N1", number)
    tried = qm("group", "close", queue, "N1", "--dry-run")
    assert tried.out == (
        f"would close group N1 of {queue}: number 2 becomes its last; nothing changed\n"
    )
    assert qm("group", "close", queue, "N1").code == 2
    row = qm("group", "close", queue, "N1", "--yes", "-o", "json").json
    assert (row["state"], row["last"], row["closed"]) == ("complete", 2, True)
    refused = qm("put", queue, "late", "--group", "N1", "--number", "3")
    assert (refused.code, "(GROUP_ENDED)" in refused.err) == (6, True)


def test_leased_member_is_not_skipped(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    put(qm, queue, "N1", 1)
    with connect(daemon.unix, name="gate") as client, client.reader(queue) as reader:
        assert reader.get() is not None
        told = {qm("group", "skip", queue, "N1", *words) for words in (["--dry-run"], ["--yes"])}
    (ended,) = told
    assert (ended.code, ended.out) == (6, "")
    assert f"number 1 of group N1 on queue {queue} is leased to gate (GROUP_IN_USE)" in ended.err
    assert f"qmctl group pause {queue} N1" in ended.err


def test_group_is_reassigned_once_what_is_out_is_settled(
    qm: Qmctl, queue: str, daemon: Daemon
) -> None:
    for number in (1, 2):
        put(qm, queue, "N1", number)
    with connect(daemon.unix) as one, connect(daemon.unix) as other, one.reader(queue) as reader:
        message = reader.get()
        assert message is not None
        alone = qm("group", "reassign", queue, "N1")
        for ended, who in (
            (alone, f"no other connection reads groups of {queue}"),
            (
                qm("group", "reassign", queue, "N1", "--connection", "9999"),
                f"connection 9999 reads no groups of {queue}",
            ),
        ):
            assert (ended.code, f"{who} (GROUP_NO_READER)" in ended.err) == (6, True)
            assert "start a consumer" in ended.err
            assert "see: qmctl connection ls" in ended.err
        consumer = other.consume(queue, groups="pinned")
        ended = qm("group", "reassign", queue, "N1")
        told = "it is open, number 1 is next, 2 messages on the queue"
        assert ended.out == f"reassigned group N1 of {queue}; {told}\n"
        one.ack(message)
        assert next(consumer).body == b"N1-2"
    assert qm("group", "reassign", queue, "N1", "--connection", "0").code == 2


def test_skip_goes_no_further_than_behind_the_last(qm: Qmctl, queue: str) -> None:
    for number in (1, 2, 3):
        put(qm, queue, "N1", number, *(["--last"] if number == 3 else []))
    for word in ("--dry-run", "--yes"):
        ended = qm("group", "skip", queue, "N1", "--to", "99", word)
        assert (ended.code, ended.out) == (2, "")
        assert "group N1 ends with number 3, so it cannot continue with 99 " in ended.err
        assert "skip to 4 at most, which ends the group" in ended.err
    tried = qm("group", "skip", queue, "N1", "--to", "4", "--dry-run").out
    assert (
        "the group ends, because 3 is its last number, and is forgotten; nothing changed" in tried
    )
    assert qm("group", "skip", queue, "N1", "--to", "4", "--yes").out == (
        f"skipped in group N1 of {queue}; it has ended: number 3 was its last, and it has no "
        "messages\n"
    )
    assert qm("group", "show", queue, "N1").code == 3


def test_what_is_so_already_is_told_as_that(qm: Qmctl, queue: str) -> None:
    put(qm, queue, "N1", 1)
    ended = qm("group", "resume", queue, "N1")
    assert ended.out == (
        f"group N1 of {queue} was neither paused nor parked; it is open, "
        "number 1 is next, 1 message on the queue\n"
    )
    changes = [
        qm("group", *verb, queue, "N1", "-o", "json").json["changed"]
        for verb in (["pause"], ["pause"], ["resume"])
    ]
    assert changes == [True, False, True]
    put(qm, queue, "N1", 2, "--last")
    tried = qm("group", "close", queue, "N1", "--dry-run").out
    assert "its last number is already known: 2;" in tried
    assert qm("group", "close", queue, "N1", "--yes").out.startswith("closed group N1")
    assert (
        "it is already closed, with number 2;" in qm("group", "close", queue, "N1", "--dry-run").out
    )
    again = qm("group", "close", queue, "N1")  # The group is already closed, so qmctl does not ask.
    assert (again.code, "was already closed; " in again.out) == (0, True)


@pytest.mark.parametrize("verb", ["skip", "close"])
def test_people_type_the_group_to_go_on(
    verb: str, on_terminal: OnTerminal, qm: Qmctl, queue: str
) -> None:
    for number in (1, 2):
        put(qm, queue, "N1", number)
    ended = on_terminal("group", verb, queue, "N1", typed="N2\n")
    assert (ended.code, "you typed 'N2', not N1" in ended.out) == (1, True)
    assert qm("group", "show", queue, "N1", "-o", "json").json["count"] == 2
    assert on_terminal("group", verb, queue, "N1", typed="N1\n").code == 0


@pytest.mark.parametrize("verb", ["pause", "resume", "skip", "reassign", "close"])
def test_unknown_group_gets_a_suggestion_to_search(verb: str, qm: Qmctl, queue: str) -> None:
    put(qm, queue, "N1", 1)
    ended = qm("group", verb, queue, "NN1", *(["--yes"] if verb in ("skip", "close") else []))
    assert (ended.code, ended.out) == (3, "")
    assert f"did you mean N1? see: qmctl group ls {queue}" in ended.err
