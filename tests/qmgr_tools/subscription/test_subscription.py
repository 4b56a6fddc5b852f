"""Tests of qmctl sub ls, show and lag against a real daemon."""

import re
from typing import Any

import pytest

from qmgr_client.blocking import connect
from qmgr_tools.subscription.subscription import COLUMNS, of, state_of, worst_first
from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl

pytestmark = pytest.mark.process


def test_list_has_those_that_a_topic_fits(qm: Qmctl, queue: str, topic: str) -> None:
    head, *lines = qm("sub", "ls", "--topic", topic).out.splitlines()
    assert head.split("\t")[:4] == ["SUBSCRIPTION", "TOPIC", "STATE", "READY"]
    assert [line.split("\t")[:4] for line in lines] == [
        [f"{queue}:{name}", f"{queue}/#", "open", "0"] for name in "ab"
    ]
    assert qm("sub", "ls", "--topic", f"{topic}/x", "--where", "parked>0", "-o", "json").json == []
    assert qm("queue", "ls", "--where", f"queue={queue}:*", "-o", "json").json == []


def test_show_has_all_that_is_told_and_the_help_says_so(
    qm: Qmctl, queue: str, topic: str, parked: list[str]
) -> None:
    row = qm("sub", "show", f"{queue}:a", "-o", "json").json
    assert (row["parked"], row["behind"], row["durable"], row["suspended"]) == (2, 2, True, False)
    help_ = qm("sub", "show", "--help").out
    limits = {column.key for column in COLUMNS} - set(help_.replace(",", " ").split())
    assert [key for key in row if key not in help_ and key not in limits] == []
    (listed,) = qm("sub", "ls", "--where", f"subscription={queue}:a", "-o", "json").json
    assert listed == row
    shown = qm("sub", "show", f"{queue}:a").out
    assert "parked\t2\n" in shown
    assert "redelivery limit\t0\n" in shown
    assert qm("queue", "show", f"{queue}:a").out == shown
    qm("pub", topic, "x")
    assert qm("sub", "show", f"{queue}:b", "-o", "json").json["oldest_ms"] >= 0


def test_lag_has_the_worst_first(qm: Qmctl, queue: str, topic: str, parked: list[str]) -> None:
    """C24: The lag lists parked publications separately from those not yet consumed."""
    rows = qm("sub", "lag", "--topic", topic, "-o", "json").json
    assert [(row["subscription"], row["behind"], row["parked"]) for row in rows] == [
        (f"{queue}:b", 2, 1),
        (f"{queue}:a", 2, 2),
    ]
    qm("get", f"{queue}:b")
    head, line, _ = qm("sub", "lag", "--topic", topic).out.splitlines()
    assert head == "\t".join(
        [
            "SUBSCRIPTION",
            "STATE",
            "BEHIND",
            "READY",
            "LEASED",
            "DELAYED",
            "PARKED",
            "MISSED",
            "OLDEST",
            "CONSUMERS",
        ]
    )
    assert line.split("\t")[:8] == [f"{queue}:a", "open", "2", "0", "0", "0", "2", "0"]


def test_one_that_lives_with_its_connection_is_listed(
    qm: Qmctl, daemon: Daemon, queue: str
) -> None:
    with connect(daemon.unix) as client, client.subscribe(f"{queue}/#") as subscription:
        (row,) = qm("sub", "ls", "--topic", f"{queue}/x", "-o", "json").json
        assert (row["subscription"], row["durable"]) == (subscription.name, False)
        assert qm("sub", "show", subscription.name, "-o", "json").json["durable"] is False


def test_what_is_none_is_told(qm: Qmctl, queue: str) -> None:
    assert (qm("sub", "show", "B:none").code, qm("sub", "show", queue).code) == (3, 2)
    assert qm("sub", "ls", "--topic", "a/+").code == 2


def test_order_is_by_what_is_behind_then_missed_then_age() -> None:
    rows: list[dict[str, Any]] = [
        {"kind": "subscription", "behind": 1, "missed": 0, "oldest_ms": 5},
        {"kind": "subscription", "behind": 1, "missed": 0, "oldest_ms": 9},
        {"kind": "proxy", "behind": 9},
        {"kind": "subscription", "behind": 1, "missed": 2, "oldest_ms": None},
        {"kind": "subscription", "behind": 3, "missed": 0, "oldest_ms": None},
    ]
    assert worst_first(rows) == [rows[4], rows[3], rows[1], rows[0]]


def test_state_and_age_of_a_row() -> None:
    assert state_of({"suspended": True, "get_inhibit": True}) == "suspended"
    assert state_of({"depth": 2, "depth_max": 2}) == "full"
    known = {"depth": 1, "delayed": 2, "parked": 3}
    row = of(known | {"oldest_us": 1_000_000}, 3_000_000)
    assert row == {
        "depth": 1,
        "delayed": 2,
        "parked": 3,
        "state": "open",
        "behind": 6,
        "oldest": "1970-01-01T00:00:01.000000Z",
        "oldest_ms": 2_000,
    }


def test_lag_is_pleasant_on_a_terminal(on_terminal: OnTerminal, queue: str, topic: str) -> None:
    shown = on_terminal("sub", "lag", "--topic", topic, NO_COLOR="1").out
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert lines[0].split() == [
        "SUBSCRIPTION",
        "STATE",
        "BEHIND",
        "READY",
        "LEASED",
        "DELAYED",
        "PARKED",
        "MISSED",
        "OLDEST",
        "CONSUMERS",
    ]
    assert [line.split()[:3] for line in lines[1:]] == [
        [f"{queue}:{name}", "open", "0"] for name in "ab"
    ]
