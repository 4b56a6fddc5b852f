"""Tests of the table of the audit."""

from datetime import datetime
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from tests.qmgr_tables.snapshots import rows
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Manager
from tests.qmgrd.snapshot.shot import Camera, managed


def make(manager: Manager) -> None:
    guarded = Guarded(manager)
    guarded.owner.ask(m.QueueCreate, "Q", {"depth_max": 5})
    guarded.owner.put("Q", b'{"action": 7, "count": "x", "detail": 1}', b"no JSON", b"[]")
    app = guarded.user("app")
    for _ in range(3):
        app.code_of(m.QueueDelete, "Q")
    manager.turn(60_000)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    with managed(tmp_path / "store") as manager:
        make(manager)
        Camera(manager).take(tmp_path / "snap")
    return tmp_path / "snap"


def test_record_has_typed_columns(snapshot: Path) -> None:
    found = rows(snapshot, table="audit")
    created = next(row for row in found if row["action"] == "QueueCreate")
    assert (created["kind"], created["object"], created["result"]) == ("queue", "Q", "OK")
    assert (created["user"], created["method"]) == ("", "owner of the daemon")
    assert (created["count"], created["since"], created["queue"]) == (1, None, "SYSTEM.AUDIT")
    assert dict(created["detail"]) == {"attributes": '{"depth_max": 5}'}
    assert isinstance(created["at"], datetime)
    assert created["damage"] is None


def test_repeated_refusals_are_one_row_with_their_number(snapshot: Path) -> None:
    found = [row for row in rows(snapshot, table="audit") if row["result"] == "NOT_AUTHORIZED"]
    assert [(row["user"], row["action"], row["count"]) for row in found] == [
        ("app", "QueueDelete", 1),
        ("app", "QueueDelete", 2),
    ]
    assert found[1]["since"] == found[0]["at"]


def test_records_may_be_copied_elsewhere_and_others_are_damaged(snapshot: Path) -> None:
    first, *bad = rows(snapshot, table="audit", queues="Q")
    assert (first["action"], first["count"], first["damage"]) == (None, None, None)
    reasons = [str(row["damage"]).partition(":")[0] for row in bad]
    assert reasons == ["the body is not a record of the audit"] * 2


def test_without_an_audit_there_is_no_row(empty: Path) -> None:
    assert rows(empty, table="audit") == []


def test_records_are_chosen_by_time(snapshot: Path) -> None:
    assert rows(snapshot, table="audit", since="2999-01-01") == []
    assert rows(snapshot, table="audit", until="2999-01-01")
