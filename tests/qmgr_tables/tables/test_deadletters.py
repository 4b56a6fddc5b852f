"""Tests of the table of dead letters."""

from pathlib import Path

import pytest

from qmgr_tables.tables import deadletters, messages
from qmgr_tables.tables.deadletters import GAP_MAX, _stretches
from qmgr_tables.tables.registry import TABLES
from tests.qmgr_tables.snapshots import rows


def test_columns_are_those_of_messages_with_why_first() -> None:
    names = [column.name for column in deadletters.COLUMNS]
    assert sorted(names) == sorted(column.name for column in messages.COLUMNS)
    assert names[0] == "dead_code"
    assert TABLES["deadletters"].time == "dead_at"


def test_table_has_only_dead_letters(snapshot: Path, office: Path) -> None:
    """The table contains neither parked messages nor messages that only failed."""
    found = rows(f"{snapshot},{office}", table="deadletters")
    assert [(row["queue_manager"], row["dead_queue"]) for row in found] == [
        ("OFFICE", "FAILS"),
        ("OFFICE", "FAILS"),
        ("OFFICE", "FAILS"),
        ("QM1", "FAILS"),
    ]
    assert {row["queue"] for row in found} == {"SYSTEM.DEAD.LETTERS"}
    assert [row["body"] for row in found] == [b"0", b"1", b"2", b"dead"]


def test_they_are_those_of_messages(office: Path) -> None:
    dead = [row for row in rows(office) if row["dead_code"] and row["state"] != "parked"]
    assert rows(office, table="deadletters") == dead


@pytest.mark.parametrize("options", [{"includePayload": "false"}, {"maxBodyBytes": "0"}])
def test_bodies_can_be_left_out(office: Path, options: dict[str, str]) -> None:
    found = rows(office, None, table="deadletters", **options)
    assert {(row["body"], row["body_bytes"]) for row in found} == {(None, 1)}


def test_they_are_chosen_by_when_they_died(office: Path) -> None:
    """The time when they were put on the dead letter queue does not matter."""
    (one, *_) = rows(office, table="deadletters")
    at = f"{one['dead_at'].timestamp():.6f}"
    assert rows(office, table="deadletters", until=at) == []
    assert len(rows(office, table="deadletters", since=at)) == 3


def test_some_columns_are_read_alone(office: Path) -> None:
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField("message_id", StringType())])
    assert len(rows(office, schema, table="deadletters", since="2000-01-01")) == 3


def test_stretches_leave_out_what_lies_far_between() -> None:
    assert list(_stretches(iter(()))) == []
    assert list(_stretches(iter([5]))) == [(5, 6)]
    far = 7 + GAP_MAX + 1
    assert list(_stretches(iter([1, 2, 7, far, far + GAP_MAX]))) == [(1, 8), (far, far + 17)]
