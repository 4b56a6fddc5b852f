"""Tests of a Delta table, as deltalake reads it."""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from qmgr_tables.export.export import export
from qmgr_tables.export.failure import ExportFailed, ExportRefused
from qmgr_tables.option_parser import parse
from qmgr_tables.tables.messages import MESSAGES
from tests.qmgr_tables.exported import SMALL, life, rows_in, rows_of, rows_read, run

DELTA = "delta"


def test_it_has_what_parquet_has(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path / "lake", format=DELTA)
    run(snapshot, tmp_path / "files")
    found = rows_in(tmp_path / "lake/messages", DELTA)
    assert found == rows_of(tmp_path / "files/messages") == rows_read(snapshot)


def test_commits_say_up_to_where_they_are(snapshot: Path, tmp_path: Path) -> None:
    done = run(snapshot, tmp_path, format=DELTA)
    lake = DeltaTable(tmp_path / "messages")
    assert lake.metadata().partition_columns == ["queue"]
    assert lake.transaction_version(f"qmgr/messages/{'53' * 16}/1") == 8
    (said,) = lake.history()
    assert said["qmgr.table"] == "messages"
    assert json.loads(said["qmgr.snapshot_ids"]) == [rows_read(snapshot)[0]["snapshot_id"]]
    assert {part.queue: part.files for part in done.written}["ALL"] == 1
    assert all(part.bytes > 100 for part in done.written)


def test_long_queues_take_several_commits(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path, format=DELTA, sizes=SMALL)
    assert DeltaTable(tmp_path / "messages").version() >= 1
    assert rows_in(tmp_path / "messages", DELTA) == rows_read(snapshot)


def test_rows_that_are_not_wanted_are_not_looked_at_again(snapshot: Path, tmp_path: Path) -> None:
    assert run(snapshot, tmp_path, format=DELTA, since="2200-01-01").written == []
    lake = DeltaTable(tmp_path / "messages")
    assert lake.transaction_version(f"qmgr/messages/{'53' * 16}/1") == 8
    assert run(snapshot, tmp_path, format=DELTA, since="2200-01-01").written == []
    assert DeltaTable(tmp_path / "messages").version() == lake.version()


def test_several_snapshots_of_a_store_are_each_told_once(tmp_path: Path) -> None:
    with life(tmp_path / "qm", "A") as store:
        shots = []
        for number in range(3):
            store.app.put("A", b"%d" % number)
            shots.append(str(store.shot()))
    run(",".join(shots), tmp_path / "out", format=DELTA)
    found = rows_in(tmp_path / "out/messages", DELTA)
    assert [row["body"] for row in found] == [b"0", b"1", b"2"]


def test_an_export_beside_this_one_is_seen(snapshot: Path, tmp_path: Path) -> None:
    """deltalake accepts a transaction twice, so the sink checks the table before each commit."""
    run(snapshot, tmp_path, format=DELTA, queues="MANY")

    def meanwhile(rows: int) -> AbstractContextManager[Callable[[int], object]]:
        said = CommitProperties(app_transactions=[Transaction(f"qmgr/messages/{'53' * 16}/1", 8)])
        none = MESSAGES.schema.empty_table()
        write_deltalake(tmp_path / "messages", none, mode="append", commit_properties=said)
        return nullcontext(lambda more: None)

    options = parse({"path": str(snapshot), "queues": "ALL"})
    with pytest.raises(ExportRefused, match="another export writes to this table"):
        export(options, str(tmp_path), format=DELTA, bar=meanwhile)


def test_a_table_of_others_is_refused(snapshot: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "messages", MESSAGES.schema.empty_table())
    with pytest.raises(ExportRefused, match="qmctl did not create this Delta table"):
        run(snapshot, tmp_path, format=DELTA)


def test_other_options_are_refused(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path, format=DELTA)
    with pytest.raises(ExportRefused, match="full is True, but the existing content has False"):
        run(snapshot, tmp_path, format=DELTA, full=True)


def test_a_place_that_cannot_be_is_reported(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ExportFailed, match=r"file/messages: .*; fix the cause and run the export again"
    ):
        run(snapshot, tmp_path / "file", format=DELTA)


def test_without_deltalake_it_says_what_to_install(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(
        ExportRefused, match=r"not installed: run pip install 'qmgr-spark\[delta\]'"
    ):
        run(snapshot, tmp_path, format=DELTA)
