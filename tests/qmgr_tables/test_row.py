"""Tests of each kind of message as a row."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_tables.row import headers, text
from qmgrd.core.layout import keys
from qmgrd.core.queue import notes
from tests.qmgr_tables.snapshots import GROUP_ID, LONG, fill_dead_letters, rows
from tests.qmgrd.core.harness import record
from tests.qmgrd.snapshot.shot import Camera, managed

PUT_AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
PLAIN = {
    "queue": "ALL",
    "priority": 4,
    "origin": "QM1",
    "put_at": PUT_AT,
    "expires_at": None,
    "deliver_at": None,
    "persistent": True,
    "correlation_id": None,
    "headers": [],
    "reply_to": None,
    "content_type": None,
    "group_id": None,
    "group_number": None,
    "delivered": 0,
    "failed": 0,
    "state": "ready",
    "dead_code": None,
    "dead_reason": None,
    "dead_text": None,
    "dead_queue": None,
    "dead_manager": None,
    "dead_at": None,
    "dead_delivered": None,
    "dead_failed": None,
    "dead_retries": None,
    "target": None,
    "queue_manager": "QM1",
}
UNKNOWN = (
    "message_id",
    "origin",
    "created_at",
    "correlation_id",
    "headers",
    "reply_to",
    "content_type",
    "group_id",
    "group_number",
    "target",
    "body",
    "body_bytes",
)


@pytest.fixture(scope="module")
def by_arrival(snapshot: Path) -> dict[int, dict[str, Any]]:
    return {row["arrival"]: row for row in rows(snapshot, queues="ALL")}


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def test_plain_message(by_arrival: dict[int, dict[str, Any]]) -> None:
    row = by_arrival[2]
    assert row["message_id"] == f"QM1.{int(row['created_at'].timestamp() * 1e6)}"
    assert abs(row["created_at"] - PUT_AT).total_seconds() < 1
    assert row["snapshot_id"] == f"QM1-53535353-1-{row['turn']}"
    assert without(row, "message_id", "created_at", "snapshot_id", "turn") == PLAIN | {
        "arrival": 2,
        "body": b"plain",
        "body_bytes": 5,
    }


def test_message_with_everything(by_arrival: dict[int, dict[str, Any]]) -> None:
    row = by_arrival[3]
    expected = PLAIN | {
        "arrival": 3,
        "priority": 9,
        "correlation_id": "Nä\\xff",
        "headers": [
            ("text", "grün"),
            ("number", "-7"),
            ("flag", "true"),
            ("none", None),
            ("real", "1.5"),
            ("bytes", "\\xff\0a"),
            ("list", '[1, "zwei", "\\\\xff"]'),
            ("map", '{"a": {"b": 1}}'),
            ("\\xfekey", ""),
        ],
        "reply_to": "ANSWERS",
        "content_type": "text/plain",
        "group_id": GROUP_ID.hex(),
        "group_number": 3,
        "delivered": 1,
        "failed": 1,
        "body": b"full",
        "body_bytes": 4,
    }
    assert without(row, "message_id", "created_at", "snapshot_id", "turn") == expected


def test_message_that_brought_its_identity(by_arrival: dict[int, dict[str, Any]]) -> None:
    row = by_arrival[4]
    assert row["message_id"] == "ELSE.1600000000123456"
    assert row["origin"] == "ELSE"
    assert row["created_at"] == datetime(2020, 9, 13, 12, 26, 40, 123456, tzinfo=UTC)
    assert row["put_at"] == PUT_AT


def test_timestamp_that_is_no_time_is_null(by_arrival: dict[int, dict[str, Any]]) -> None:
    row = by_arrival[5]
    assert (row["message_id"], row["created_at"]) == (f"ELSE.{2**63 - 1}", None)


def test_long_and_empty_bodies(by_arrival: dict[int, dict[str, Any]]) -> None:
    assert (by_arrival[6]["body"], by_arrival[6]["body_bytes"]) == (LONG, len(LONG))
    assert by_arrival[6]["correlation_id"] == "long"
    assert (by_arrival[7]["body"], by_arrival[7]["body_bytes"]) == (b"", 0)


@pytest.mark.parametrize(("arrival", "priority"), [(8, 3), (1, 4)], ids=["in place", "set aside"])
def test_damaged_message_is_a_row_and_no_crash(
    by_arrival: dict[int, dict[str, Any]], arrival: int, priority: int
) -> None:
    row = by_arrival[arrival]
    assert row["state"] == "damaged"
    assert (row["priority"], row["put_at"], row["delivered"]) == (priority, PUT_AT, 0)
    assert {row[name] for name in UNKNOWN} == {None}


def test_message_on_its_way_elsewhere(snapshot: Path) -> None:
    row, undecided = rows(snapshot, queues="@NYC")
    assert (row["queue"], row["state"], row["target"]) == ("@NYC", "transmission", "FAR")
    # The message itself determines the priority, and not the transmission queue.
    assert (row["priority"], row["body"]) == (2, b"away")
    assert undecided["priority"] is None  # The destination queue determines the priority.


def test_times_are_those_of_the_wall_as_of_the_snapshot(snapshot: Path) -> None:
    found = {row["body"]: row for row in rows(snapshot, queues="TIMES")}

    def times(body: bytes) -> tuple[str, int | None, int | None]:
        row = found[body]
        ends = (row["expires_at"], row["deliver_at"])
        expires, deliver = (at and round((at - PUT_AT).total_seconds()) for at in ends)
        return row["state"], expires, deliver

    assert times(b"expires") == ("ready", 60, None)
    assert times(b"delayed") == ("delayed", None, 30)
    assert times(b"both") == ("delayed", 60, 30)
    # The message expires before it becomes available.
    assert times(b"in vain") == ("delayed", 30, None)
    assert times(b"for ever") == ("ready", None, None)  # The expiry is too late for a datetime.
    assert [body for body, row in found.items() if not row["persistent"]] == [b"volatile"]


def test_priority_is_the_one_by_which_a_message_has_its_turn(snapshot: Path) -> None:
    found = {row["body"]: row["priority"] for row in rows(snapshot, queues="TIMES")}
    assert (found[b"delayed"], found[b"of the queue"]) == (7, 4)


def test_dead_letter_says_why_and_from_where(snapshot: Path) -> None:
    (row,) = rows(snapshot, queues="SYSTEM.DEAD.LETTERS")
    assert row["dead_at"] == PUT_AT + timedelta(seconds=5)
    dead = {name: row[name] for name in row if name.startswith("dead_") and name != "dead_at"}
    assert dead == {
        "dead_code": "BACKOUT_THRESHOLD_REACHED",
        "dead_reason": None,
        "dead_text": None,
        "dead_queue": "FAILS",
        "dead_manager": "QM1",
        "dead_delivered": 1,
        "dead_failed": 1,
        "dead_retries": 0,
    }


@pytest.mark.parametrize(
    "note",
    [
        {"code": 609, "us": -1, "failed": 2**40, "delivered": "x", "reason": 7, "retries": None},
        {"code": 609, "us": 2**63, "failed": -1, "delivered": None, "queue": b"Q", "retries": ""},
    ],
)
def test_note_of_a_stranger_is_null_where_it_makes_no_sense(
    tmp_path: Path, note: dict[str, Any]
) -> None:
    with managed(tmp_path / "qm") as manager:
        fill_dead_letters(manager.connect())
        tx = manager.store.begin()
        queue = manager.queue("SYSTEM.DEAD.LETTERS")
        notes.write(tx, queue.id, 1, notes.encode(note))
        manager.store.commit()
        Camera(manager).take(tmp_path / "shot")
    (row,) = rows(tmp_path / "shot", queues="SYSTEM.DEAD.LETTERS")
    dead = {name: row[name] for name in row if name.startswith("dead_") and row[name] is not None}
    assert set(dead) == {"dead_code", "dead_retries"}
    assert dead["dead_retries"] == 0


def test_message_that_a_restart_lost_is_not_shown(tmp_path: Path) -> None:
    flags = records.FLAG_NOT_PERSISTENT
    with managed(tmp_path / "qm") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put("Q", b"kept")
        app.put_records("Q", *(record(b"", flags=flags) for _ in range(3_000)))
        manager.restart()
        manager.connect().put("Q", b"new", flags=flags)
        assert len(manager.scan(keys.lane(1, keys.LANE_READY))) > 1_000
        Camera(manager).take(tmp_path / "shot")
    found = rows(tmp_path / "shot")
    assert [(row["body"], row["persistent"]) for row in found] == [(b"kept", True), (b"new", False)]


@pytest.mark.parametrize(
    ("states", "bodies"),
    [
        ("delayed", {b"delayed", b"both", b"in vain"}),
        ("delayed, transmission", {b"delayed", b"both", b"in vain", b"away", b"as NYC says"}),
        ("DAMAGED", {None}),
    ],
)
def test_messages_are_asked_for_by_state(
    snapshot: Path, states: str, bodies: set[bytes | None]
) -> None:
    found = rows(snapshot, states=states)
    assert {row["body"] for row in found} == bodies
    assert {row["state"] for row in found} == {name.strip().lower() for name in states.split(",")}


def test_bodies_are_left_out_but_not_their_sizes(snapshot: Path) -> None:
    found = rows(snapshot, queues="ALL", includePayload="false")
    assert {row["body"] for row in found} == {None}
    assert {row["body_bytes"] for row in found} == {None, 0, 3, 4, 5, len(LONG)}
    assert sum(row["state"] == "damaged" for row in found) == 2


def test_long_bodies_are_left_out(snapshot: Path) -> None:
    found = {
        row["body_bytes"]: row["body"] for row in rows(snapshot, queues="ALL", maxBodyBytes="4")
    }
    assert found == {None: None, 0: b"", 3: b"far", 4: b"full", 5: None, len(LONG): None}


def test_publications_are_read_from_subscriptions_too(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        app = manager.connect()
        app.ask(m.Subscribe, "flights/+/UA", "B:late", "", {"redelivery_limit": 0})
        app.ask(m.Subscribe, "flights/#", "C:all")
        app.put("/flights/JFK/UA", LONG)
        app.release(*app.get("B:late"))
        Camera(manager).take(tmp_path / "shot")
    found = {
        row["queue"]: row
        for row in rows(tmp_path / "shot", queues="B:late,C:all,SYSTEM.PUBLICATIONS")
    }
    assert {queue: row["state"] for queue, row in found.items()} == {
        "B:late": "parked",
        "C:all": "ready",
        "SYSTEM.PUBLICATIONS": "publication",
    }
    assert {row["body"] for row in found.values()} == {LONG}
    assert {row["target"] for row in found.values()} == {"flights/JFK/UA"}
    assert len({row["message_id"] for row in found.values()}) == 1
    assert found["B:late"]["dead_code"] == "REDELIVERY_LIMIT_EXCEEDED"


def test_text_of_bytes() -> None:
    assert text(b"N14228") == "N14228"
    assert text("größe".encode()) == "größe"
    assert text(b"\x80\\") == "\\x80\\"


@pytest.mark.parametrize("envelope", [{}, {"headers": None}, {"headers": [1]}, {"headers": {}}])
def test_no_headers(envelope: dict[str, Any]) -> None:
    assert headers(envelope) == []
