"""The common part of the tables of system queues."""

from pathlib import Path

from tests.qmgr_tables.snapshots import rows


def test_other_queues_can_be_selected_and_their_bodies_are_damage(snapshot: Path) -> None:
    for table in ("audit", "events"):
        found = rows(snapshot, table=table, queues="ALL")
        assert found
        assert {row["queue"] for row in found} == {"ALL"}


def test_snapshot_without_the_queue_has_no_rows(empty: Path) -> None:
    assert rows(empty, table="audit") == rows(empty, table="events") == []
