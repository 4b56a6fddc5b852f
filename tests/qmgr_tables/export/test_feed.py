"""Tests of the feeds that can be exported."""

from pathlib import Path

from qmgr_tables.export.feed import Feed, feeds
from qmgr_tables.option_parser import parse
from qmgr_tables.tables.messages import MESSAGES
from qmgrd.snapshot.finder import find
from tests.qmgr_tables.exported import life


def feeds_of(path: Path | str, *, full: bool = False, **options: str) -> list[Feed]:
    given = parse({"path": str(path), **options})
    return feeds(MESSAGES, find(given.paths), given, MESSAGES.schema, full=full)


def test_each_queue_is_a_feed_of_its_store(snapshot: Path) -> None:
    found = {feed.queue: feed for feed in feeds_of(snapshot)}
    assert found["ALL"].key == f"{'53' * 16}/1"
    assert found["ALL"].stem == "53535353-1"
    assert found["ALL"].last == 8
    assert "EMPTY" not in found


def test_all_of_a_snapshot_is_known_by_its_id(snapshot: Path) -> None:
    (found,) = feeds_of(snapshot, full=True, queues="ALL")
    (taken,) = find([str(snapshot)])
    assert (found.key, found.stem) == (f"{taken.id}/1", f"{taken.id}-1")


def test_rows_come_by_arrival_from_behind_a_position(snapshot: Path) -> None:
    (feed,) = feeds_of(snapshot, queues="ALL")
    for after in range(-1, 9):
        found = [row["arrival"] for table in feed.rows(after) for row in table.to_pylist()]
        assert found == [arrival for arrival in range(1, 9) if arrival > after]


def test_a_long_queue_is_one_feed_however_it_is_cut(snapshot: Path) -> None:
    (feed,) = feeds_of(snapshot, queues="MANY", rowsPerPartition="100")
    assert sum(table.num_rows for table in feed.rows(-1)) == 2_500
    assert sum(table.num_rows for table in feed.rows(1_499)) == 1_001


def test_about_so_many_are_to_come(snapshot: Path) -> None:
    (feed,) = feeds_of(snapshot, queues="MANY")
    assert [feed.about(after) for after in (-1, 0, 1_500, 2_500, 9_999)] == [2500, 2500, 1000, 0, 0]


def test_older_snapshots_come_first_and_each_once(tmp_path: Path) -> None:
    with life(tmp_path, "A") as store:
        shots = []
        for _ in range(3):
            store.app.put("A", b"x")
            shots.append(store.shot())
    paths = ",".join(map(str, [shots[2], shots[0], shots[1], shots[0]]))
    assert [feed.last for feed in feeds_of(paths)] == [1, 2, 3]
