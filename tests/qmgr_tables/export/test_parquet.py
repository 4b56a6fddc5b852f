"""Tests of exported files: their paths, their sizes and their metadata."""

import json
import random
import shutil
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest

from qmgr_protocol import messages as m
from qmgr_tables.export.failure import ExportFailed, ExportRefused
from qmgr_tables.tables.messages import MESSAGES
from tests.qmgr_tables.exported import SMALL, contents, life, rows_of, rows_read, run


def files(table: Path) -> list[str]:
    return [path.relative_to(table).as_posix() for path in sorted(table.rglob("*.parquet"))]


def test_queue_and_day_are_directories(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path)
    found = files(tmp_path / "messages")
    assert "q=@NYC/day=2023-11-14/53535353-4-1-2.parquet" in found
    assert "q=SYSTEM.DEAD.LETTERS/day=2023-11-14/53535353-7-1-1.parquet" in found


def test_names_are_those_of_queues_whatever_is_in_them(tmp_path: Path) -> None:
    with life(tmp_path / "qm", "007", "008") as store:
        store.app.ask(m.Subscribe, "a/#", "CRM:new")
        for queue in ("007", "008", "/a/b"):
            store.app.put(queue, b"x")
        path = store.shot()
    run(path, tmp_path / "out")
    assert any(name.startswith("q=CRM%3Anew/") for name in files(tmp_path / "out/messages"))
    found = rows_of(tmp_path / "out/messages")
    assert {row["queue"] for row in found} >= {"007", "008", "CRM:new"}
    assert found == rows_read(path)


def test_any_reader_of_parquet_has_every_column(snapshot: Path, tmp_path: Path) -> None:
    """A directory named like a column would make pyarrow fail. The manifest is hidden."""
    run(snapshot, tmp_path)
    found = pq.read_table(tmp_path / "messages")
    assert found.column_names[:-2] == MESSAGES.schema.names
    assert found.select(MESSAGES.schema.names).schema.equals(MESSAGES.schema)
    assert found.num_rows == len(rows_read(snapshot))


def test_a_file_says_what_it_is(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path, queues="ALL")
    (name,) = files(tmp_path / "messages")
    file = pq.ParquetFile(tmp_path / "messages" / name)
    said = file.schema_arrow.metadata
    assert said[b"qmgr.table"] == b"messages"
    assert said[b"qmgr.version"] == b"1"
    assert json.loads(said[b"qmgr.snapshot_ids"]) == [rows_read(snapshot)[0]["snapshot_id"]]
    group = file.metadata.row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    assert {column.compression for column in columns} == {"ZSTD"}
    (body,) = (column for column in columns if column.path_in_schema == "body")
    assert not body.is_stats_set
    (arrival,) = (column for column in columns if column.path_in_schema == "arrival")
    assert (arrival.statistics.min, arrival.statistics.max) == (1, 8)


def test_row_groups_rise_by_arrival(tmp_path: Path) -> None:
    with life(tmp_path / "qm", "A") as store:
        for number in range(300):
            store.app.put(
                "A", random.randbytes(300), priority=number % 10, delay_ms=number % 3 * 1_000
            )
        path = store.shot()
    run(path, tmp_path / "out", sizes=SMALL)
    names = (tmp_path / "out/messages").rglob("*.parquet")
    found = sorted(names, key=lambda path: int(path.stem.split("-")[2]))
    assert len(found) > 1
    arrivals = []
    for path in found:
        file = pq.ParquetFile(path)
        assert file.metadata.row_group(0).sorting_columns[0].column_index == 2
        here = [
            n
            for at in range(file.num_row_groups)
            for n in file.read_row_group(at, ["arrival"]).column(0).to_pylist()
        ]
        assert path.stem.split("-")[2:] == [str(here[0]), str(here[-1])]
        arrivals += here
    assert arrivals == list(range(1, 301))


def test_what_a_killed_run_left_is_done_again(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path)
    whole = contents(tmp_path)
    table = tmp_path / "messages"
    lines = (table / "_manifest").read_bytes().splitlines(keepends=True)
    (at,) = [number for number, line in enumerate(lines) if b"/53535353-5-1-7" in line]
    assert not any(b'"file"' in line for line in lines[at + 1 :])
    (table / "_manifest").write_bytes(b"".join(lines[:at]) + lines[at][:50])
    (table / "_partial-1").write_bytes(b"PAR1")
    left = table / "q=TIMES/day=2023-11-14"
    shutil.move(left / "53535353-5-1-7.parquet", left / "53535353-5-1-5.parquet")
    run(snapshot, tmp_path)
    assert contents(tmp_path) == whole


def test_files_of_others_are_left_alone(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path)
    for name in ("README", "q=ALL/mine.parquet"):
        (tmp_path / "messages" / name).write_bytes(b"")
    run(snapshot, tmp_path)
    assert (tmp_path / "messages/README").exists()
    assert (tmp_path / "messages/q=ALL/mine.parquet").exists()


def test_files_that_the_manifest_has_lost_are_not_removed(snapshot: Path, tmp_path: Path) -> None:
    """The rows in these files may no longer be in any snapshot."""
    run(snapshot, tmp_path)
    manifest, before = tmp_path / "messages" / "_manifest", rows_of(tmp_path / "messages")
    whole = manifest.read_bytes()
    for lines in (0, 1, 2):
        manifest.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
        with pytest.raises(ExportRefused, match=r"_manifest does not list [1-9]"):
            run(snapshot, tmp_path)
        assert rows_of(tmp_path / "messages") == before


def test_files_of_another_program_by_day_stay(snapshot: Path, tmp_path: Path) -> None:
    other = tmp_path / "messages" / "day=2024-01-01" / "part-00000-4f1c-c000.snappy.parquet"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"PAR1")
    run(snapshot, tmp_path)
    assert other.read_bytes() == b"PAR1"


def test_a_file_that_was_taken_away_is_not_made_again(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path)
    shutil.rmtree(tmp_path / "messages/q=MANY")
    assert run(snapshot, tmp_path).written == []
    assert not (tmp_path / "messages/q=MANY").exists()


def test_a_damaged_manifest_stops_it(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path)
    before = contents(tmp_path)
    with (tmp_path / "messages/_manifest").open("r+b") as file:
        file.write(b"#")
    with pytest.raises(ExportFailed, match="_manifest: line 1 is damaged"):
        run(snapshot, tmp_path)
    assert len(contents(tmp_path)) == len(before)


def test_it_goes_wherever_fsspec_reaches(snapshot: Path, tmp_path: Path) -> None:
    to = f"memory://{tmp_path.name}/out"
    assert run(snapshot, to).written != []
    assert run(snapshot, to).written == []
    system = fsspec.filesystem("memory")
    system.get(f"/{tmp_path.name}/out/messages", str(tmp_path / "copy"), recursive=True)
    assert rows_of(tmp_path / "copy") == rows_read(snapshot)
