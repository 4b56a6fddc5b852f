"""Each kind of message as a row."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pyspark_qmgr.row import headers, text
from tests.pyspark_qmgr.snapshots import GROUP_ID, LONG, rows

PUT_AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
PLAIN = {
    "queue": "ALL",
    "priority": 4,
    "origin": "QM1",
    "put_at": PUT_AT,
    "correlation_id": None,
    "headers": [],
    "reply_to": None,
    "content_type": None,
    "group_id": None,
    "group_number": None,
    "delivered": 0,
    "failed": 0,
    "state": "ready",
    "target": None,
    "queue_manager": "QM1",
}
UNKNOWN = (
    "message_id", "origin", "created_at", "correlation_id", "headers", "reply_to", "content_type",
    "group_id", "group_number", "target", "body", "body_bytes",
)  # fmt: skip


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
        "arrival": 2, "body": b"plain", "body_bytes": 5,
    }  # fmt: skip


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
    (row,) = rows(snapshot, queues="@NYC")
    assert (row["queue"], row["state"], row["target"]) == ("@NYC", "transmission", "FAR")
    assert (row["priority"], row["body"]) == (2, b"away")  # The message's own, not the queue's.


def test_bodies_are_left_out_but_not_their_sizes(snapshot: Path) -> None:
    found = rows(snapshot, queues="ALL", includeBody="false")
    assert {row["body"] for row in found} == {None}
    assert {row["body_bytes"] for row in found} == {None, 0, 3, 4, 5, len(LONG)}
    assert sum(row["state"] == "damaged" for row in found) == 2


def test_long_bodies_are_left_out(snapshot: Path) -> None:
    found = {
        row["body_bytes"]: row["body"] for row in rows(snapshot, queues="ALL", maxBodyBytes="4")
    }
    assert found == {None: None, 0: b"", 3: b"far", 4: b"full", 5: None, len(LONG): None}


def test_text_of_bytes() -> None:
    assert text(b"N14228") == "N14228"
    assert text("größe".encode()) == "größe"
    assert text(b"\x80\\") == "\\x80\\"


@pytest.mark.parametrize("envelope", [{}, {"headers": None}, {"headers": [1]}, {"headers": {}}])
def test_no_headers(envelope: dict[str, Any]) -> None:
    assert headers(envelope) == []
