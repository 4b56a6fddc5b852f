"""Tests of the table of parked publications."""

from pathlib import Path

from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import read
from tests.qmgr_tables import office as offices
from tests.qmgr_tables.damage import damaged_copy
from tests.qmgr_tables.office import by
from tests.qmgr_tables.snapshots import rows


def test_parked_publication_shows_for_whom_and_why(office: Path) -> None:
    found = by(rows(office, table="republish"), "arrival")
    assert sorted(found) == [1, 2]
    row = found[1]
    assert (row["topic"], row["subscription"], row["priority"]) == ("flights/UA", "A:bad", 4)
    assert (row["failed"], row["delivered"], row["republished"]) == (1, 1, 0)
    assert (row["code"], row["client"]) == ("REDELIVERY_LIMIT_EXCEEDED", "app")
    assert row["message_id"].startswith("OFFICE.")
    assert row["since"] is not None
    assert row["damage"] is None


def test_it_is_chosen_by_subscription_and_time(office: Path) -> None:
    assert rows(office, table="republish", queues="B:late") == []
    assert len(rows(office, table="republish", queues="A:bad")) == 2
    assert rows(office, table="republish", until="2000-01-01") == []


def test_damage_of_what_it_leads_to_is_reported(tmp_path: Path) -> None:
    path = offices.make(tmp_path)
    (queue_id,) = (queue.id for queue in read(str(path)).queues if queue.name == "A:bad")
    note, index = keys.note(queue_id, 1), keys.parked(2, queue_id)
    found = by(rows(damaged_copy(path, note, index), table="republish", verify="false"), "arrival")
    assert (found[1]["code"], found[1]["topic"], found[1]["damage"]) == (None, "flights/UA", None)
    assert found[2]["damage"] == "the index row refers to a message that does not exist"
