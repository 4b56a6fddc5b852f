"""Tests of the table of history. Each row is read once, even if snapshots overlap."""

import shutil
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_tables.tables.history import HISTORY, Span, cut, extent, spans
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import SnapshotUnreadable, find
from tests.qmgr_tables.snapshots import flip_last_byte, reader_of, rows
from tests.qmgrd.core import harness
from tests.qmgrd.core.harness import Manager, record
from tests.qmgrd.core.past import history_of
from tests.qmgrd.snapshot.shot import Camera, managed


def keep_accounts(manager: Manager) -> None:
    app = manager.connect()
    for queue in ("Q", "OTHER"):
        app.ask(m.QueueCreate, queue, {"accounting": "on"})


def happen(manager: Manager, count: int) -> None:
    """Puts and consumes *count* messages, each with one row of history."""
    app = manager.connect()
    for _ in range(count):
        app.put("Q", b"a", b"b")
        app.ack(*app.get("Q", 2))
    app.put("OTHER", b"c")
    manager.turn(1_000)


def picture(manager: Manager, directory: Path, day: int) -> Path:
    manager.advance(1_000)
    manager.turn()
    Camera(manager).take(directory / f"day-{day}")
    return directory / f"day-{day}"


def test_each_event_comes_once_with_what_was_told(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 20)
        path = picture(manager, tmp_path, 1)
        told = history_of(manager)
    found = rows(path, table="history", rowsPerPartition="1000")
    assert [(row["seq"], row["event"], row["queue"], row["arrival"]) for row in found] == [
        (one.seq, one.event, one.queue, one.arrival) for one in told
    ]
    assert {row["snapshot_id"] for row in found} == {found[0]["snapshot_id"]} != {None}
    assert len({(row["store_id"], row["seq"], row["number"]) for row in found}) == len(found)
    assert len(reader_of(path, table="history", rowsPerPartition="1000").partitions()) > 1
    assert len(reader_of(path, table="history", minPartitions="7").partitions()) >= 7


def test_only_queues_that_are_asked_for(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 3)
        path = picture(manager, tmp_path, 1)
    found = rows(path, table="history", queues="OTHER")
    assert [(row["event"], row["queue"]) for row in found] == [("put", "OTHER")]
    assert {row["queue"] for row in rows(path, table="history", queuesPattern="Q")} == {"Q"}


def test_snapshots_that_overlap_are_one_history_told_by_the_newest(tmp_path: Path) -> None:
    days = tmp_path / "days"
    days.mkdir()
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 5)
        picture(manager, days, 1)
        operator = manager.connect()
        happen(manager, 5)
        picture(manager, days, 2)
        operator.ask(m.CursorCommit, "lake", operator.ask(m.HistoryShow)["next"] - 3)
        happen(manager, 5)
        picture(manager, days, 3)
    found = rows(days, table="history")
    seqs = sorted({row["seq"] for row in found})
    assert seqs == list(range(1, seqs[-1] + 1))
    assert len({(row["seq"], row["number"]) for row in found}) == len(found)
    by_day = {Path(one.directory).name: one for one in find([str(days)])}
    first, next_ = extent(by_day["day-3"])[1:]
    assert first > 1
    of_newest = {row["seq"] for row in found if row["snapshot_id"] == by_day["day-3"].id}
    assert of_newest == set(range(first, next_))
    assert by_day["day-1"].id not in {row["snapshot_id"] for row in found}


def test_spans_of_several_stores_do_not_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = tmp_path / "days"
    days.mkdir()
    for number, name in enumerate(["QM1", "QM2"]):
        monkeypatch.setattr(harness, "STORE_ID", bytes([number]) * 16)
        with managed(tmp_path / name, name) as manager:
            keep_accounts(manager)
            happen(manager, 2)
            picture(manager, days, number)
    found = spans(find([str(days)]))
    assert {span.snapshot.queue_manager for span in found} == {"QM1", "QM2"}


def test_store_without_history_has_none(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        manager.connect().ask(m.QueueCreate, "Q")
        manager.connect().put_records("Q", record(b"x"))
        path = picture(manager, tmp_path, 1)
    assert rows(path, table="history") == []
    assert reader_of(path, table="history").partitions() == []
    assert extent(find([str(path)])[0])[1:] == (1, 1)


def test_damaged_row_is_an_error_with_its_file(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 3)
        flip_last_byte(manager, keys.history(2))
        path = picture(manager, tmp_path, 1)
    with pytest.raises(SnapshotUnreadable, match=r"data.mdb is damaged: .*history row id 2: its"):
        rows(path, table="history")


def test_missing_row_is_an_error(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 3)
        tx = manager.store.begin()
        tx.delete(keys.history(2))
        manager.store.commit()
        path = picture(manager, tmp_path, 1)
    with pytest.raises(SnapshotUnreadable, match="row 2 of history is missing; copy or take"):
        rows(path, table="history")


def test_manifest_says_what_history_there_is_and_else_the_data_does(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 3)
        path = picture(manager, tmp_path, 1)
    (found,) = find([str(path)])
    assert found.history is not None
    assert extent(found._replace(history=None)) == extent(found)
    shutil.rmtree(path)
    with pytest.raises(SnapshotUnreadable, match="No such file"):
        extent(found._replace(history=None))


@pytest.mark.parametrize(
    ("first", "stop", "length"), [(1, 1, 5), (1, 2, 5), (3, 103, 10), (0, 7, 1)]
)
def test_cut_is_without_gaps(first: int, stop: int, length: int) -> None:
    found = list(cut(first, stop, length))
    assert all(end - start <= length for start, end in found)
    assert [number for start, end in found for number in range(start, end)] == list(
        range(first, stop)
    )


def test_spans_travel(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 3)
        path = picture(manager, tmp_path, 1)
    (span,) = spans(find([str(path)]))
    assert isinstance(span, Span)
    assert span.snapshot.queues == ()


def test_queue_that_is_gone_has_a_history_all_the_same(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 1)
        manager.connect().ask(m.QueueDelete, "OTHER", True)
        manager.rest()
        path = picture(manager, tmp_path, 1)
    found = rows(path, table="history", queues="OTHER")
    assert "put" in {row["event"] for row in found}
    assert {row["queue"] for row in found} == {"OTHER"}


def test_partitions_are_about_as_long_as_is_asked(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 30)
        path = picture(manager, tmp_path, 1)
    found = reader_of(path, table="history", rowsPerPartition="200").partitions()
    assert max(len(partition.value) for partition in found) == 1
    assert len(found) > 16


def test_filter_on_snapshots_takes_none_away_beneath_the_newest() -> None:
    assert "snapshot_id" not in HISTORY.pushed


def test_what_an_older_snapshot_has_behind_the_newest_is_left_out(tmp_path: Path) -> None:
    """The store was restored in between, so the older snapshot has history that was discarded."""
    with managed(tmp_path / "store") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q", {"accounting": "on"})
        for _ in range(3):
            app.put("Q", b"x")
        Camera(manager).take(tmp_path / "early")
        for _ in range(3):
            app.put("Q", b"x")
        manager.advance(1_000)
        app.put("Q", b"x")
        Camera(manager).take(tmp_path / "late")
    early, late = find([str(tmp_path / "early")]), find([str(tmp_path / "late")])
    put_back = early[0]._replace(wall_us=late[0].wall_us + 1)
    found = spans([put_back, *late])
    assert [(span.first, span.stop) for span in found] == [(1, extent(put_back).next)]
