"""Tests of the table of queues."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from qmgr_tables.tables.queues import COLUMNS
from qmgrd.core.layout.counters import Counters
from tests.qmgr_tables.office import by
from tests.qmgr_tables.snapshots import rows
from tests.qmgrd.core.harness import WALL_US


def test_each_counter_is_a_column() -> None:
    """A new counter becomes a new column at the end of the table."""
    names = [column.name for column in COLUMNS]
    assert [field.name for field in fields(Counters) if field.name not in names] == []


def test_queue_shows_what_it_holds_and_counts(office: Path) -> None:
    queue = by(rows(office, table="queues"), "queue")["UIDS"]
    shown = {name: queue[name] for name in ("kind", "depth", "puts", "acked", "fast", "slow")}
    assert shown == {
        "kind": "local",
        "depth": 211,
        "puts": 311,
        "acked": 100,
        "fast": 310,
        "slow": 1,
    }
    assert (queue["duplicates"], queue["first_arrival"], queue["last_arrival"]) == (1, 101, 311)
    assert json.loads(queue["config"]) == {"dedup_retention_ms": 60_000}
    assert queue["damage"] is None


def test_states_of_messages_are_apart(snapshot: Path, office: Path) -> None:
    found = by(rows(f"{snapshot},{office}", table="queues"), "queue_manager", "queue")
    assert found["QM1", "ALL"]["set_aside"] == 1
    assert found["QM1", "ALL"]["damaged"] == 1
    assert (found["QM1", "TIMES"]["depth"], found["QM1", "TIMES"]["delayed"]) == (4, 3)
    assert (found["OFFICE", "A:bad"]["depth"], found["OFFICE", "A:bad"]["parked"]) == (0, 2)
    assert found["OFFICE", "SYSTEM.PUBLICATIONS"]["kind"] == "publications"


def test_oldest_is_the_first_of_any_priority(office: Path) -> None:
    found = by(rows(office, table="queues"), "queue")
    oldest = found["GROUPS"]["oldest_put_at"]
    assert oldest.timestamp() * 1_000_000 == WALL_US
    assert found["~1-535353535353.1"]["oldest_put_at"] is None


@pytest.mark.parametrize(
    ("options", "names"),
    [({"queues": "UIDS,IN"}, ["IN", "UIDS"]), ({"queuesPattern": "U.*"}, ["UIDS"])],
)
def test_only_wanted_queues_are_shown(
    office: Path, options: dict[str, str], names: list[str]
) -> None:
    assert [row["queue"] for row in rows(office, None, table="queues", **options)] == names
