"""Tests of qmctl republish send and delete against a real daemon."""

from collections.abc import Iterator

import pytest

from qmgr_client.blocking import Client, connect
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


@pytest.fixture
def there(daemon: Daemon, queue: str, topic: str, parked: list[str]) -> Iterator[Client]:
    """A client that consumes from the first subscription. The second one has no consumer."""
    with connect(daemon.unix) as client, client.consume(f"{queue}:a"):
        yield client


def where(topic: str) -> list[str]:
    return ["--where", f"topic = '{topic}'"]


def on_list(qm: Qmctl, topic: str) -> dict[str, list[str]]:
    rows = qm("republish", "ls", *where(topic), "-o", "json").json
    return {row["uid"]: row["first"] for row in rows}


def test_all_that_is_parked_is_sent_to_those_who_are_there(
    qm: Qmctl, queue: str, topic: str, parked: list[str], there: Client
) -> None:
    """C14, C16: All publications are sent. Those of an absent subscriber wait for its return."""
    ended = qm("republish", "send", *where(topic))
    assert (ended.code, ended.err) == (0, "")
    assert (
        ended.out == "delivering 2 messages again; 1 message waits until its subscriber returns\n"
    )
    assert on_list(qm, topic) == {parked[0]: [f"{queue}:b"]}
    (row,) = qm("republish", "ls", *where(topic), "-o", "json").json
    assert row["awaited"] == 1
    got = qm("sub", "consume", f"{queue}/#", f"{queue}:b", "--count", "2", "-o", "json").lines
    assert {(one["uid"], one["republished"]) for one in got} == {
        (parked[0], True),
        (parked[1], False),
    }
    again = qm("republish", "send", *where(topic))
    assert (again.code, again.out) == (0, "no selected publication is parked\n")


def test_one_publication_is_sent(
    qm: Qmctl, queue: str, topic: str, parked: list[str], there: Client
) -> None:
    """C14: The operator can select one publication."""
    assert qm("republish", "send", parked[1]).out == "delivering 1 message again\n"
    assert on_list(qm, topic) == {parked[0]: [f"{queue}:a", f"{queue}:b"]}
    ended = qm("republish", "send", parked[1])
    assert (ended.code, ended.out) == (3, "")


def test_one_subscriber_gets_what_is_parked(
    qm: Qmctl, queue: str, topic: str, parked: list[str], there: Client
) -> None:
    """C14: The operator can select one subscriber."""
    row = qm("republish", "send", "--to", f"{queue}:a", "--max", "1", "-o", "json").json
    assert (row["kind"], row["done"], row["skipped"], row["total"]) == ("republish", 1, 0, 2)
    assert on_list(qm, topic) == {parked[0]: [f"{queue}:b"], parked[1]: [f"{queue}:a"]}
    job = str(row["job"])
    assert qm("job", "show", job, "-o", "json").json == row
    assert "kind\trepublish\n" in qm("job", "show", job).out
    assert qm("republish", "send", "--to", "B:none").code == 3
    assert qm("republish", "send", "--to", queue).code == 2


def test_job_may_be_left(qm: Qmctl, topic: str, there: Client) -> None:
    ended = qm("republish", "send", *where(topic), "--rate", "1", "--detach")
    job = ended.out.split()[2].rstrip(";")
    assert ended.out == f"started job {job}; see: qmctl job show {job}\n"
    assert qm("job", "cancel", job).out.startswith(f"job {job} is ")


def test_those_without_room_stay_and_are_told(
    qm: Qmctl, queue: str, topic: str, parked: list[str], daemon: Daemon
) -> None:
    name = f"{queue}:a"
    with connect(daemon.unix) as client, client.consume(name, prefetch=1):
        for body in "xy":
            qm("pub", topic, body)
        qm("sub", "alter", name, "--depth-max", "1")
        ended = qm("republish", "send", "--to", name)
        assert (ended.code, ended.out) == (6, "")
        assert f"2 stayed: subscription {name} is full" in ended.err
        tried = qm("republish", "send", "--to", name, "--dry-run").out
        assert tried.startswith(
            "would deliver 0 messages; 2 messages would stay because there is no room;"
        )


def test_drop_asks_and_forgets(qm: Qmctl, queue: str, topic: str, parked: list[str]) -> None:
    words = ["republish", "delete", parked[0], "--to", f"{queue}:b"]
    assert qm(*words).code == 2
    assert len(on_list(qm, topic)[parked[0]]) == 2
    assert qm(*words, "--yes").out == "deleted 1 message from the parked publications\n"
    assert on_list(qm, topic) == {parked[0]: [f"{queue}:a"], parked[1]: [f"{queue}:a"]}
    row = qm("republish", "delete", *where(topic), "--yes", "-o", "json").json
    assert (row["kind"], row["done"]) == ("republish-drop", 2)
    assert on_list(qm, topic) == {}
    assert qm("republish", "delete", *where(topic)).out == "no selected publication is parked\n"
