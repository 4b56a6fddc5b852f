"""Tests of qmctl sub consume against a real daemon."""

import pytest

from qmgr_client.blocking import connect
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


def test_durable_one_is_made_and_goes_on_where_it_was(qm: Qmctl, queue: str) -> None:
    name = f"{queue}:log"
    qm("pub", f"{queue}/x", "kept", "--retain")
    words = ["sub", "consume", f"{queue}/#", name]
    assert qm(*words, "--count", "1", "--body-only").out == "kept\n"
    for body in ("a", "b"):
        qm("pub", f"{queue}/x", body)
    rows = qm(*words, "--count", "2", "-o", "json").lines
    assert [(row["body"], row["topic"], row["queue"]) for row in rows] == [
        ("a", f"{queue}/x", name),
        ("b", f"{queue}/x", name),
    ]
    assert qm("sub", "show", name, "-o", "json").json["behind"] == 0
    qm("topic", "delete", f"{queue}/x", "--retained")


def test_one_without_a_name_ends_with_the_command(qm: Qmctl, daemon: Daemon, queue: str) -> None:
    """C2: Each temporary subscription has a new name."""
    names = []
    qm("pub", queue, "x", "--retain")
    for _ in range(2):
        (row,) = qm("sub", "consume", queue, "--count", "1", "-o", "json").lines
        names.append(row["queue"])
    assert len(set(names)) == 2
    with connect(daemon.unix) as client:
        assert client.admin.subscription_list(queue) == []
    qm("topic", "delete", queue, "--retained")


def test_name_of_another_connection_is_refused(qm: Qmctl) -> None:
    ended = qm("sub", "consume", "a", "~1-2.3")
    assert (ended.code, "the subscription belongs to another connection" in ended.err) == (2, True)
    assert qm("sub", "consume", "a/#/b").code == 2
