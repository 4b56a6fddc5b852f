"""Tests of qmctl audit against a real daemon."""

import json
import os
import subprocess

import pytest

from qmgr_protocol import record as records
from qmgr_protocol.messages import DELIVERY
from qmgr_tools.manager import audit
from tests.qmgr_tools.conftest import QMCTL, Daemon, Qmctl

pytestmark = pytest.mark.process


@pytest.fixture
def guarded(at: Qmctl) -> Qmctl:
    """A function that runs qmctl at a daemon with an administrator and the user bob."""
    at("user", "create", "admin", "--role", "administrator", "--generate")
    at("user", "create", "bob", "--no-password", "--role", "monitor")
    at("queue", "create", "ORDERS", "--depth-max", "5")
    return at


def test_records_are_listed_in_the_order_of_their_arrival(guarded: Qmctl) -> None:
    rows = guarded("audit", "-o", "json").json
    done = [(row["action"], row["kind"], row["object"]) for row in rows if row["kind"]]
    assert done[:3] == [
        ("UserCreate", "user", "admin"),
        ("UserCreate", "user", "bob"),
        ("QueueCreate", "queue", "ORDERS"),
    ]
    assert sorted(rows, key=lambda row: row["time"]) == rows
    created = next(row for row in rows if row["action"] == "QueueCreate")
    assert set(created) == {
        "time", "action", "user", "method", "address", "client", "connection", "kind", "object",
        "result", "count", "since", "manager", "detail",
    }  # fmt: skip
    assert (created["address"], created["result"], created["count"]) == ("unix", "OK", 1)
    assert (created["user"], created["method"]) == ("", "owner of the daemon")
    assert created["detail"] == {"attributes": {"depth_max": 5}}
    assert "SCRAM" not in json.dumps(rows)


def test_records_are_selected_by_the_daemon(guarded: Qmctl) -> None:
    def found(*words: str) -> list[str]:
        return [row["action"] for row in guarded("audit", *words, "-o", "json").json]

    assert found("--object", "ORDERS") == ["QueueCreate"]
    assert found("--action", "UserCreate") == ["UserCreate", "UserCreate"]
    assert found("--action", "UserCreate", "--limit", "1") == ["UserCreate"]
    assert found("--object", "ORDERS", "--result", "QUEUE_EXISTS") == []
    assert found("--user", "it's") == []
    assert found("--object", "ORDERS", "--since", "1h") == ["QueueCreate"]
    assert found("--object", "ORDERS", "--since", "2999-01-31T18:00") == []


def test_table_shows_who_did_what_from_where(guarded: Qmctl) -> None:
    header, line = guarded("audit", "--object", "ORDERS").out.splitlines()
    assert header.split("\t")[1:] == [
        "WHO",
        "FROM",
        "ACTION",
        "OBJECT",
        "RESULT",
        "COUNT",
        "DETAIL",
    ]
    assert line.split("\t")[1:] == [
        "owner of the daemon",
        "unix",
        "QueueCreate",
        "ORDERS",
        "OK",
        "1",
        'attributes={"depth_max": 5}',
    ]


def test_invalid_time_is_refused(guarded: Qmctl) -> None:
    ended = guarded("audit", "--since", "5m")
    assert ended.code == 2
    assert "invalid time --since '5m'" in ended.err
    assert "nor a duration such as 2h or 5min" in ended.err


def test_follow_shows_new_records(guarded: Qmctl, own_daemon: Daemon) -> None:
    words = ["audit", "--follow", "--action", "QueueCreate", "-o", "json"]
    process = subprocess.Popen(
        [*QMCTL, *words],
        stdout=subprocess.PIPE,
        env=os.environ | {"QMCTL_CONNECT": own_daemon.unix},
    )
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["object"] == "ORDERS"
        guarded("queue", "create", "NEW")
        assert json.loads(process.stdout.readline())["object"] == "NEW"
    finally:
        process.kill()
        process.communicate()


def test_user_without_the_right_sees_no_record(guarded: Qmctl, own_daemon: Daemon) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QMGR_USER", "eve")
        patch.setenv("QMGR_PASSWORD", "any password at all")
        assert guarded("audit").code != 0
    refused = guarded("audit", "--action", "Login", "--result", "LOGIN_FAILED", "-o", "json").json
    assert [row["user"] for row in refused] == ["eve"]


def test_records_cannot_be_removed(guarded: Qmctl) -> None:
    for words in ("get", "queue purge --yes", "queue delete --yes", "queue alter --depth-max 1"):
        first, *rest = words.split()
        sub, options = (rest[:1], rest[1:]) if first == "queue" else ([], rest)
        ended = guarded(first, *sub, "SYSTEM.AUDIT", *options)
        assert ended.code != 0
        assert "SYSTEM.AUDIT" in ended.err
    assert guarded("audit", "--object", "ORDERS", "--action", "QueueCreate", "-o", "json").json


def test_dump_has_no_definition_of_the_audit(guarded: Qmctl) -> None:
    assert "SYSTEM.AUDIT" not in guarded("dump").out


def test_damaged_record_is_shown_as_damaged() -> None:
    head = DELIVERY.pack(4, 1, 0, 0, 0, 0, 1_700_000_000_000_000)
    good = records.encode(records.Fields(b"not JSON"))
    for record in (good, good[:-1] + b"x"):
        row = audit._row(head + record)
        assert row["time"] == "2023-11-14T22:13:20.000000Z"
        assert row["detail"]["damage"]
