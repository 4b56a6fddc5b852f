"""Tests of the table of events."""

from pathlib import Path

from qmgr_protocol import messages as m
from tests.qmgr_tables.office import by
from tests.qmgr_tables.snapshots import rows
from tests.qmgrd.core.harness import Manager
from tests.qmgrd.snapshot.shot import Camera, managed


def test_event_shows_what_happened_to_what(office: Path) -> None:
    found = by(rows(office, table="events"), "event")
    assert list(found) == ["publication parked", "message dead-lettered"]
    parked = found["publication parked"]
    assert (parked["count"], parked["manager"], parked["queue"]) == (2, "OFFICE", "SYSTEM.EVENTS")
    assert dict(parked["facts"])["subscription"] == "A:bad"
    assert parked["at"] is not None


def test_where_nothing_happened_there_is_none(empty: Path, office: Path) -> None:
    assert rows(empty, table="events") == []
    assert len(rows(f"{empty},{office}", table="events")) == 2


def make(manager: Manager) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "COLLECTED")
    app.put("COLLECTED", b'{"event": "x", "count": 2, "n": 7, "list": [1], "none": null}')
    app.put("COLLECTED", b"no JSON", b"[]", b'{"event": 1, "count": "many", "manager": []}')


def test_events_may_be_kept_elsewhere_and_what_is_none_is_damaged(tmp_path: Path) -> None:
    with managed(tmp_path / "store") as manager:
        make(manager)
        Camera(manager).take(tmp_path / "snap")
    good, *bad = rows(tmp_path / "snap", table="events", queues="COLLECTED")
    assert (good["event"], good["count"], good["manager"]) == ("x", 2, None)
    assert dict(good["facts"]) == {"n": "7", "list": "[1]", "none": None}
    assert [row["event"] for row in bad] == [None] * 3
    reasons = [str(row["damage"]).partition(":")[0] for row in bad]
    assert reasons == ["the body is not an event"] * 2 + ["None"]


def test_events_are_chosen_by_time(office: Path) -> None:
    assert rows(office, table="events", since="2024-01-01") == []
    assert len(rows(office, table="events", until="2024-01-01")) == 2
