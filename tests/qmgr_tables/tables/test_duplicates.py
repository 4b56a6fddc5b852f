"""Tests of the table of UIDs. Each UID is read once, for any number of parts."""

from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_tables.options import Options
from qmgr_tables.tables.duplicates import Slice, plan
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import LaneRange, QueueInfo, StoredSnapshot, read
from tests.qmgr_tables.office import by
from tests.qmgr_tables.snapshots import rows
from tests.qmgrd.core.harness import record
from tests.qmgrd.snapshot.shot import Camera, managed


def uids(path: Path | str, **options: str) -> dict[Any, dict[str, Any]]:
    return by(rows(path, None, table="duplicates", **options), "queue", "target", "message_id")


def test_uid_shows_where_its_message_is(office: Path) -> None:
    row = uids(office)["UIDS", None, "B.499"]
    assert (row["state"], row["priority"], row["arrival"]) == ("here", 4, 311)
    assert (row["origin"], row["timestamp"], row["highest"]) == ("B", 499, 509)
    assert (row["until"], row["damage"]) == (None, None)
    assert row["created_at"].timestamp() == 0.000499


def test_uid_that_is_remembered_shows_until_when(office: Path) -> None:
    found = uids(office, queues="UIDS")
    kept = {key[2] for key, row in found.items() if row["state"] == "remembered"}
    assert kept == {f"A.{stamp}" for stamp in range(1, 101)}
    row = found["UIDS", None, "A.7"]
    assert (row["priority"], row["arrival"]) == (4, 7)
    assert row["until"].isoformat() == "2023-11-14T22:14:21+00:00"


def test_on_a_transmission_queue_each_target_has_its_own(office: Path) -> None:
    targets = [key[1] for key in uids(office, queues="@NYC")]
    assert sorted(targets) == ["/flights/UA", "/flights/UA", "FLIGHTS", "FLIGHTS"]


def test_every_message_of_a_queue_has_its_uid(office: Path) -> None:
    here = [key for key, row in uids(office).items() if row["state"] == "here"]
    references = {"A:bad", "B:late"}  # The publications of these subscriptions have this UID.
    found = [row for row in rows(office) if row["queue"] not in references]
    assert sorted((queue, uid) for queue, _, uid in here) == sorted(
        (row["queue"], row["message_id"]) for row in found
    )


@pytest.mark.parametrize("rows_per_partition", ["1", "80", "300"])
def test_each_uid_is_read_once_however_it_is_cut(
    snapshot: Path, office: Path, rows_per_partition: str
) -> None:
    both = f"{snapshot},{office}"
    assert uids(both, rowsPerPartition=rows_per_partition) == uids(both)


def test_many_origins_are_cut_evenly(tmp_path: Path) -> None:
    with managed(tmp_path / "store") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q", {"dedup_retention_ms": 1_000})
        for origin in range(50):
            stamps = range(1, 1 + 20 * (1 + origin % 3))
            app.put_records("Q", *(record(b"", uid=(f"O{origin}", stamp)) for stamp in stamps))
        for _ in range(3):
            app.ack(*app.get("Q", 100))
            manager.turn(3_000)
        Camera(manager).take(tmp_path / "snap")
    (shot,) = [read(str(tmp_path / "snap"))]
    shares = plan([shot], Options((str(tmp_path),), rows_per_partition=200))
    here = [share for share in shares if not share.remembered]
    assert len(here) == 9
    sizes = [len(rows_of(share)) for share in here]
    assert sum(sizes) == 1_980 - 300
    assert max(sizes) < 3 * 200


def rows_of(share: Slice) -> list[dict[str, Any]]:
    from qmgr_tables.tables import duplicates
    from qmgr_tables.tables.registry import TABLES

    schema = TABLES["duplicates"].schema
    found = duplicates.read(share, Options(("/",)), schema)
    return [row for batch in found for row in batch.to_pylist()]


def test_subscriptions_have_none_and_small_queues_are_put_together() -> None:
    queues = (
        QueueInfo("A", 1, "local", (LaneRange(0, 4, 10, 1, 10),)),
        QueueInfo("B", 2, "local", (LaneRange(0, 4, 10, 1, 10),)),
        QueueInfo("C:c", 3, "subscription", (LaneRange(0, 4, 10, 1, 10),)),
        QueueInfo("D", 4, "local", (LaneRange(0, 4, 250, 1, 300),)),
    )
    shot = StoredSnapshot("/s", "s", "QM1", 1, 4096, "", queues)
    shares = plan([shot], Options(("/s",), rows_per_partition=100))
    cut = [([q.name for q in s.queues], s.remembered, s.part, s.parts) for s in shares]
    assert cut == [
        (["D"], False, 0, 3),
        (["D"], False, 1, 3),
        (["D"], False, 2, 3),
        (["A", "B"], False, 0, 1),
        (["A", "B", "D"], True, 0, 1),
    ]
    assert plan([shot], Options(("/s",), queues=frozenset(["C:c"]))) == []


def test_remembered_uid_whose_message_came_again_is_reported_once(tmp_path: Path) -> None:
    """The old row stays in the schedule, but the index points to the message."""
    with managed(tmp_path / "store") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q", {"dedup_retention_ms": 60_000})
        app.put("Q", b"x", uid=("A", 1))
        app.ack(*app.get("Q"))
        tx = manager.store.begin()
        index = keys.of_queue(keys.SPACE_UID, manager.queue("Q").id) + b"A" + (1).to_bytes(8, "big")
        tx.put(index, keys.POSITION.pack(keys.LANE_READY, 5, 2))
        manager.store.commit()
        Camera(manager).take(tmp_path / "snap")
    (row,) = rows(tmp_path / "snap", table="duplicates", queues="Q")
    assert (row["state"], row["arrival"]) == ("here", 2)


def test_damaged_highest_is_null(office: Path) -> None:
    assert {row["highest"] for row in uids(office, queues="IN").values()} == {None}


def test_what_expires_in_a_thousand_years_does_not_stretch_the_time(snapshot: Path) -> None:
    """TIMES has a message with an extremely late expiry time."""
    assert uids(snapshot, rowsPerPartition="1", queues="TIMES") == uids(snapshot, queues="TIMES")
