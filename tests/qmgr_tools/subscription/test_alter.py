"""Tests of qmctl sub create, alter, delete and healthy against a real daemon."""

import pytest

from qmgr_client.blocking import connect
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


def test_create_is_done_once(qm: Qmctl, queue: str) -> None:
    """C3: A durable subscription keeps its name."""
    name = f"{queue}:late"
    words = ["sub", "create", f"/{queue}/+", name, "--where", "delay > 20", "--lease", "5min"]
    assert qm(*words).out == f"created subscription {name} to {queue}/+\n"
    assert qm(*words).out == f"subscription {name} already exists\n"
    row = qm(*words, "-o", "json").json
    assert (row["where"], row["lease_ms"], row["given"]) == ("delay > 20", 300_000, ["lease_ms"])
    other = qm("sub", "create", queue, name)
    assert (other.code, "SUBSCRIPTION_EXISTS" in other.err) == (6, True)
    qm("pub", f"{queue}/x", "a", "--header", "delay:=20")
    qm("pub", f"{queue}/x", "b", "--header", "delay:=21")
    assert qm("get", name, "--all", "--body-only").out == "b\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a/#/b", "B:x"], "TOPIC_INVALID"),
        (["a", "x"], "NAME_INVALID"),
        (["a", "B:x", "--overflow", "refuse"], "is not one of discard-newest"),
        (["a", "B:x", "--redelivery-limit", "-1"], "is not a whole number (0 or more)"),
        (["a", "B:x", "--where", "("], "SELECTOR_INVALID"),
    ],
)
def test_invalid_subscription_is_refused(words: list[str], why: str, qm: Qmctl) -> None:
    ended = qm("sub", "create", *words)
    assert (ended.code, ended.out) == (2, "")
    assert why in ended.err


def test_alter_says_what_changed(qm: Qmctl, queue: str, topic: str) -> None:
    words = ["sub", "alter", f"{queue}:a", "--redelivery-limit", "7"]
    dry = qm(*words, "--dry-run")
    told = f"subscription {queue}:a: redelivery limit 0 -> 7"
    assert dry.out == f"would alter {told}; nothing changed\n"
    assert qm(*words, "--dry-run", "-o", "json").json["changed"] == {"redelivery_limit": [0, 7]}
    assert qm(*words).out == f"altered {told}\n"
    assert qm(*words).out == f"subscription {queue}:a is unchanged\n"
    row = qm(*words[:-1], "default", "-o", "json").json
    assert (row["changed"], row["given"]) == ({"redelivery_limit": [7, -1]}, [])
    assert qm("sub", "alter", f"{queue}:a").code == 2
    assert qm("sub", "alter", "B:none", "--lease", "1s").code == 3


def test_suspended_one_goes_on_once_it_is_healthy(qm: Qmctl, queue: str, topic: str) -> None:
    name = f"{queue}:a"
    qm("sub", "alter", name, "--overflow", "suspend", "--depth-max", "1")
    for body in "xyz":
        qm("pub", topic, body)
    row = qm("sub", "show", name, "-o", "json").json
    assert (row["state"], row["suspended"], row["missed"]) == ("suspended", True, 2)
    assert qm("sub", "healthy", name).out == f"resumed subscription {name}\n"
    assert qm("sub", "show", name, "-o", "json").json["suspended"] is False
    again = qm("sub", "healthy", name).out
    assert again == f"subscription {name} was not suspended\n"


def test_healthy_one_gets_what_is_parked_where_its_topic_says_so(
    qm: Qmctl, daemon: Daemon, queue: str, topic: str, parked: list[str]
) -> None:
    """C14: Once a subscriber is reported healthy, its parked publications are delivered again."""
    name = f"{queue}:a"
    note = f"note: 2 messages parked; to deliver again: qmctl republish send --to {name}\n"
    assert qm("sub", "healthy", name).err == note
    qm("topic", "set", topic, "--republish", "healthy")
    with connect(daemon.unix) as client, client.consume(name):
        ended = qm("sub", "healthy", name)
        assert ended.out == (
            f"subscription {name} was not suspended; delivering 2 parked messages again\n"
        )
        assert ended.err == ""
    assert qm("sub", "healthy", f"{queue}:b", "-o", "json").json["job"]
    qm("topic", "delete", topic)


def test_rm_asks_where_messages_would_be_lost(
    qm: Qmctl, queue: str, topic: str, parked: list[str]
) -> None:
    """C23: Deleting a subscription also deletes its parked publications."""
    name = f"{queue}:b"
    assert qm("sub", "delete", name).code == 2
    assert qm("sub", "delete", name, "--dry-run").out == (
        f"would delete subscription {name} and 2 messages, 1 of them parked; nothing changed\n"
    )
    row = qm("sub", "delete", name, "--dry-run", "-o", "json").json
    assert (row["messages"], row["parked"], row["consumers"]) == (2, 1, 0)
    assert qm("sub", "delete", name, "--yes").out == f"deleted subscription {name} and 2 messages\n"
    assert qm("sub", "delete", name, "--yes").code == 3
    rows = qm("republish", "ls", "--where", f"topic = '{topic}'", "-o", "json").json
    assert [row["first"] for row in rows] == [[f"{queue}:a"]] * 2
    assert qm("sub", "delete", f"{queue}:a", "--yes", "-o", "json").json["messages"] == 2


def test_queue_commands_say_what_to_do_with_a_subscription(
    qm: Qmctl, queue: str, topic: str
) -> None:
    ended = qm("queue", "delete", f"{queue}:a")
    assert (ended.code, f"qmctl sub delete {queue}:a" in ended.err) == (6, True)
    qm("pub", topic, "x")
    words = ["queue", "purge", f"{queue}:a", "--where", "size = 1"]
    assert qm(*words, "--dry-run", "-o", "json").json["messages"] == 1
    assert qm(*words, "--yes").out == f"purged 1 message from queue {queue}:a\n"


def test_wildcards_of_others_are_told(qm: Qmctl, queue: str, topic: str) -> None:
    noted = qm("sub", "create", f"{topic}/*", f"{queue}:star").err
    assert "note: * is not a wildcard: use + for one level" in noted
    assert qm("sub", "create", f"{topic}/#", f"{queue}:many").err == ""
    slip = qm("sub", "show", f"{queue}:stat").err
    assert f"did you mean {queue}:star?" in slip
    made = qm("queue", "create", f"{queue}:q")
    assert (made.code, f"qmctl sub create FILTER {queue}:q" in made.err) == (2, True)
