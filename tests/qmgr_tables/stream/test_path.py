"""Tests of snapshots as a stream sees them, while more snapshots are taken."""

import shutil
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_tables.stream.connection import DataLost
from qmgr_tables.stream.options import parse
from qmgr_tables.stream.path import Snapshots
from qmgr_tables.stream.source import Offsets
from qmgr_tables.tables.history_batch import SCHEMA
from qmgrd.snapshot.finder import SnapshotUnreadable
from tests.qmgr_tables.tables.test_history import happen, keep_accounts, picture
from tests.qmgrd.core import harness
from tests.qmgrd.snapshot.shot import managed

STORE = harness.STORE_ID.hex()


@pytest.fixture
def days(tmp_path: Path) -> Path:
    (tmp_path / "days").mkdir()
    return tmp_path / "days"


def snapshots(days: Path, **options: str) -> Snapshots:
    return Snapshots(parse({"path": str(days), "waitMs": "0", **options}))


def seqs(source: Snapshots, start: Offsets, end: Offsets) -> list[int]:
    of = source._options.of
    rows = [
        row
        for part in source.parts(start, end, of)
        for batch in part.read(of, SCHEMA)
        for row in batch.to_pylist()
    ]
    assert {row["snapshot_id"] for row in rows} <= {None}
    assert len({(row["seq"], row["number"]) for row in rows}) == len(rows)
    return sorted({row["seq"] for row in rows})


def test_new_snapshots_bring_new_history(tmp_path: Path, days: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 2)
        picture(manager, days, 1)
        source = snapshots(days)
        start = source.begin()
        assert start == {STORE: 0}
        first = source.ends(start, wait=False)
        assert first == source.lasts()
        last = first[STORE]
        assert seqs(source, start, first) == list(range(1, last + 1))
        assert sum(events for _, events, _ in source.sizes(STORE, 0, 2)) > 0
        assert source.ends(first, wait=False) == first
        happen(manager, 2)
        picture(manager, days, 2)
        second = source.ends(first, wait=False)
        assert seqs(source, first, second) == list(range(last + 1, second[STORE] + 1)) != []
        assert seqs(snapshots(days), {STORE: 1}, {STORE: 3}) == [2, 3]
        assert seqs(source, second, second) == []
        source.commit(second)
        source.close()


def test_latest_is_what_the_first_batch_says_also_where_it_is_read_again(
    tmp_path: Path, days: Path
) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 2)
        picture(manager, days, 1)
        source = snapshots(days, startingOffsets="latest")
        start = source.begin()
        first = source.ends(start, wait=False)
        assert first == source.lasts() != {STORE: 0}
        happen(manager, 2)
        picture(manager, days, 2)
        second = source.ends(first, wait=False)
        again = snapshots(days, startingOffsets="latest")
        assert again.begin() == start
        assert seqs(again, start, first) == []
        assert seqs(again, first, second) == list(range(first[STORE] + 1, second[STORE] + 1)) != []


def test_store_that_comes_later_is_begun_before_it_is_read(
    tmp_path: Path, days: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        monkeypatch.setattr(harness, "STORE_ID", bytes([number]) * 16)
        with managed(tmp_path / f"qm{number}") as manager:
            keep_accounts(manager)
            happen(manager, 2)
            picture(manager, days, number)
    one, two = "01" * 16, "02" * 16
    found = snapshots(days).ends({one: 1}, wait=False)
    assert found[one] > 1
    assert found[two] == 0


def test_history_between_two_snapshots_is_lost_or_skipped(
    tmp_path: Path, days: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        operator = manager.connect()
        happen(manager, 2)
        picture(manager, days, 1)
        last = operator.ask(m.HistoryShow)["next"] - 1
        happen(manager, 3)
        operator.ask(m.CursorCommit, "lake", last + 2)
        happen(manager, 1)
        picture(manager, days, 2)
    source = snapshots(days)
    end = source.ends({STORE: 0}, wait=False)
    with pytest.raises(DataLost, match=f"rows {last + 1} to {last + 2} of the history of store"):
        source.parts({STORE: 0}, end, source._options.of)
    with pytest.raises(DataLost, match=f"rows {end[STORE] + 1} to {end[STORE] + 5} of the"):
        source.parts({STORE: last + 2}, {STORE: end[STORE] + 5}, source._options.of)
    found = seqs(snapshots(days, failOnDataLoss="false"), {STORE: 0}, end)
    assert found == [*range(1, last + 1), *range(last + 3, end[STORE] + 1)]
    assert "are in no snapshot" in caplog.text


def test_snapshot_that_is_damaged_is_named_before_it_is_read(tmp_path: Path, days: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        happen(manager, 2)
        path = picture(manager, days, 1)
    source = snapshots(days)
    end = source.ends({STORE: 0}, wait=False)
    with (path / "data.mdb").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    with pytest.raises(SnapshotUnreadable, match="its checksum differs from the manifest"):
        source.parts({STORE: 0}, end, source._options.of)
    shutil.rmtree(path)
    with pytest.raises(SnapshotUnreadable, match="not a snapshot"):
        source.ends(end, wait=False)
