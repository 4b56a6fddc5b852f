"""Tests of whole exports: each row is exported once, even if exports are repeated or killed."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qmgr_protocol import messages as m
from qmgr_tables.export.export import _NOT_KEPT
from qmgr_tables.export.failure import ExportFailed, ExportRefused
from qmgr_tables.export.feed import POSITIONS
from qmgr_tables.export.sink import Sizes
from qmgr_tables.options import OptionInvalid, Options
from qmgr_tables.table import Column, Table
from qmgr_tables.tables.registry import TABLES
from qmgrd.snapshot.finder import SnapshotUnreadable, StoredSnapshot
from tests.qmgr_tables.exported import (
    SMALL,
    Life,
    contents,
    life,
    rows_in,
    rows_of,
    rows_read,
    run,
    tree,
)
from tests.qmgr_tables.snapshots import fill
from tests.qmgrd.core import harness
from tests.qmgrd.snapshot.shot import managed

TINY = Sizes(file_bytes=5_000, group_bytes=3_000, group_rows=7)
OLD = Path(__file__).parents[1] / "data"
# This program kills itself with SIGKILL at its n-th file operation.
KILLED = """
import os, sys
from pathlib import Path
from tests.qmgr_tables import exported
left = [int(sys.argv[4])]
DOES = {"open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "fcntl.flock"}
def hook(event, arguments):
    if event in DOES and (event != "open" or sys.argv[2] in str(arguments[0])):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), 9)
sys.addaudithook(hook)
print("x", flush=True)
exported.run(sys.argv[1], Path(sys.argv[2]), sizes=exported.SMALL, format=sys.argv[3])
"""


def test_every_row_is_exported_once_as_it_is_read(snapshot: Path, tmp_path: Path) -> None:
    done = run(snapshot, tmp_path)
    assert rows_of(tmp_path / "messages") == rows_read(snapshot)
    assert sum(part.rows for part in done.written) == len(rows_read(snapshot))


@pytest.mark.parametrize("formats", [("parquet", "delta"), ("delta", "parquet")])
def test_a_directory_of_the_other_format_is_refused(
    snapshot: Path, tmp_path: Path, formats: tuple[str, str]
) -> None:
    held, wanted = formats
    run(snapshot, tmp_path, format=held)
    before = tree(tmp_path)
    with pytest.raises(
        ExportRefused, match=f"format is {wanted}, but the directory contains {held}; "
    ):
        run(snapshot, tmp_path, format=wanted)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_second_run_changes_nothing(snapshot: Path, tmp_path: Path, format: str) -> None:
    run(snapshot, tmp_path, format=format)
    before = tree(tmp_path)
    assert run(snapshot, tmp_path, format=format).written == []
    assert tree(tmp_path) == before


def test_the_next_snapshot_adds_what_was_put_since(tmp_path: Path) -> None:
    with life(tmp_path / "qm", "A", "B") as store:
        store.app.put("A", b"1", b"2", priority=3)
        store.app.put("A", b"late", delay_ms=60_000)
        first = store.shot()
        store.app.ack(*store.app.get("A"))
        store.manager.turn(70_000)  # The delayed message becomes available, in another lane.
        store.app.put("A", b"3", priority=9)
        store.app.put("B", b"4")
        second = store.shot()
    out = tmp_path / "out"
    assert [part.rows for part in run(first, out).written] == [3]
    done = run(second, out)
    assert {part.queue: part.rows for part in done.written} == {"A": 1, "B": 1}
    bodies = [(row["queue"], row["body"]) for row in rows_of(out / "messages")]
    assert Counter(bodies) == Counter(
        [("A", b"1"), ("A", b"2"), ("A", b"late"), ("A", b"3"), ("B", b"4")]
    )
    other = tmp_path / "at once"
    run(f"{first},{second}", other)
    assert rows_of(other / "messages") == rows_of(out / "messages")
    assert run(first, out).written == []  # An older snapshot has no new rows.


def test_full_has_each_snapshot_as_it_is(tmp_path: Path) -> None:
    with life(tmp_path / "qm", "A") as store:
        store.app.put("A", b"1", b"2")
        first = store.shot()
        store.app.release(*store.app.get("A"))
        second = store.shot()
    out = tmp_path / "out"
    for _ in range(2):
        run(first, out, full=True)
    run(second, out, full=True)
    before = tree(out)
    run(f"{second},{first}", out, full=True)
    assert tree(out) == before
    assert rows_of(out / "messages") == rows_read(f"{first},{second}")
    with pytest.raises(ExportRefused, match="full is False, but the existing content has True"):
        run(second, out)


def test_a_queue_that_was_created_again_begins_again(tmp_path: Path) -> None:
    with life(tmp_path / "qm", "A") as store:
        store.app.put("A", *[b"old"] * 5)
        first = store.shot()
        store.app.ask(m.QueueDelete, "A", True)
        store.app.ask(m.QueueCreate, "A")
        store.app.put("A", b"new")
        second = store.shot()
    run(first, tmp_path / "out")
    run(second, tmp_path / "out")
    bodies = [row["body"] for row in rows_of(tmp_path / "out/messages")]
    assert sorted(bodies) == [b"new"] + [b"old"] * 5


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_queue_managers_share_a_directory(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shots = []
    for number, name in enumerate(("NYC", "LON")):
        monkeypatch.setattr(harness, "STORE_ID", bytes([number] * 16))
        with life(tmp_path / name, "A", name=name) as store:
            store.app.put("A", name.encode())
            shots.append(store.shot())
    run(f"{shots[0]},{shots[1]}", tmp_path / "out", format=format)
    found = rows_in(tmp_path / "out/messages", format)
    assert [(row["queue_manager"], row["body"]) for row in found] == [
        ("LON", b"LON"),
        ("NYC", b"NYC"),
    ]


def test_a_store_that_was_restored_is_seen(tmp_path: Path) -> None:
    with life(tmp_path / "qm", "A") as store:
        store.app.put("A", b"1")
        run(store.shot(), tmp_path / "out")
    shutil.rmtree(tmp_path / "qm/store")
    with life(tmp_path / "again", "A") as store:
        store.manager.turn(5)
        store.app.put("A", b"another", b"more")
        again = store.shot()
    with pytest.raises(
        ExportRefused, match="the store was restored from a backup; export to a new"
    ):
        run(again, tmp_path / "out")


def test_options_hold_for_a_directory(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path, queues="ALL", includePayload="false")
    assert {row["body"] for row in rows_of(tmp_path / "messages")} == {None}
    with pytest.raises(
        ExportRefused, match=r"include_body is none, but the export was created with False"
    ):
        run(snapshot, tmp_path)
    # Queues may be added later. Each queue continues from its own position.
    run(snapshot, tmp_path, includePayload="false")
    assert rows_of(tmp_path / "messages") == rows_read(snapshot, includePayload="false")


def test_each_option_is_known_to_hold_or_not() -> None:
    """For each option, _NOT_KEPT or this test must state whether the next run may change it."""
    assert set(Options._fields) - _NOT_KEPT == {
        "queues",
        "queues_pattern",
        "include_body",
        "max_body_bytes",
        "states",
        "since_us",
        "until_us",
        "filters",
    }


def test_rows_that_are_not_wanted_are_not_looked_at_again(snapshot: Path, tmp_path: Path) -> None:
    run(snapshot, tmp_path, states="delayed")
    before = tree(tmp_path)
    assert {row["state"] for row in rows_of(tmp_path / "messages")} == {"delayed"}
    assert run(snapshot, tmp_path, states="delayed").written == []
    assert tree(tmp_path) == before


def test_files_are_cut_by_size(snapshot: Path, tmp_path: Path) -> None:
    done = run(snapshot, tmp_path, sizes=SMALL)
    assert max(part.files for part in done.written) > 3
    assert rows_of(tmp_path / "messages") == rows_read(snapshot)


def test_a_snapshot_of_the_first_format_is_exported(tmp_path: Path) -> None:
    shutil.unpack_archive(OLD / "format-1.tar.xz", tmp_path / "old")
    (manifest,) = (tmp_path / "old").rglob("manifest.json")
    run(manifest.parent, tmp_path / "out")
    assert rows_of(tmp_path / "out/messages") == rows_read(manifest.parent)


def test_a_damaged_snapshot_is_named(snapshot: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(snapshot, tmp_path / "bad"))
    with (bad / "data.mdb").open("r+b") as file:
        file.seek(20_000)
        file.write(b"damage")
    with pytest.raises(SnapshotUnreadable, match=f"{bad}/data.mdb: damaged: its checksum"):
        run(bad, tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_damaged_snapshots_are_left_out_if_asked(snapshot: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(snapshot, tmp_path / "bad"))
    with (bad / "data.mdb").open("r+b") as file:
        file.seek(20_000)
        file.write(b"damage")
    gone = tmp_path / "gone"
    done = run(f"{bad},{gone}", tmp_path / "out", onDamaged="skip")
    assert [why.partition(":")[0] for why in done.skipped] == [str(gone), f"{bad}/data.mdb"]
    assert done.written == []
    run(snapshot, tmp_path / "out")
    assert rows_of(tmp_path / "out/messages") == rows_read(snapshot)


STATES = [name for name in TABLES if name not in POSITIONS]


@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("table", STATES)
def test_other_tables_are_whole_by_snapshot(tmp_path: Path, table: str, format: str) -> None:
    first, second = two_snapshots(tmp_path / "qm")
    out = tmp_path / "out"
    for _ in range(2):
        run(second, out, table=table, format=format)
    before = tree(out)
    run(second, out, table=table, format=format)
    assert tree(out) == before
    done = run(f"{first},{second}", out, table=table, format=format)
    read = rows_read(f"{first},{second}", table=table)
    assert rows_in(out / table, format) == read
    assert sum(part.rows for part in done.written) == len(rows_read(first, table=table))


def two_snapshots(directory: Path) -> tuple[Path, Path]:
    """Returns two snapshots of a store that has rows in most tables."""
    directory.mkdir(parents=True)
    with managed(directory / "store") as manager:
        fill(manager)
        store = Life(manager, directory)
        first = store.shot()
        store.app.put("ALL", b"one more")
        return first, store.shot()


def test_only_rows_of_some_time_are_exported(snapshot: Path, tmp_path: Path) -> None:
    rows = rows_read(snapshot)
    since = max(row["put_at"] for row in rows if row["put_at"])
    wanted = [row for row in rows if row["put_at"] and row["put_at"] >= since]
    assert 0 < len(wanted) < len(rows)
    run(snapshot, tmp_path, since=since.isoformat())
    assert rows_of(tmp_path / "messages") == wanted


def test_queues_may_be_in_one_snapshot_alone(tmp_path: Path) -> None:
    with life(tmp_path / "qm", "A") as store:
        store.app.put("A", b"1")
        first = store.shot()
        store.app.ask(m.QueueCreate, "B")
        store.app.put("B", b"2")
        second = store.shot()
    run(f"{first},{second}", tmp_path / "out", queues="B")
    assert [row["body"] for row in rows_of(tmp_path / "out/messages")] == [b"2"]


def test_invalid_values_are_reported(snapshot: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionInvalid, match=r"queue ALLL not found in .*; did you mean ALL"):
        run(snapshot, tmp_path, queues="ALLL")
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportFailed, match="Not a directory; choose a path below a directory"):
        run(snapshot, tmp_path / "file")


@pytest.mark.long
def test_killed_at_each_step_it_is_whole_in_the_end(tmp_path: Path) -> None:
    """The export is killed at its first step, then at the second, and so on until it finishes."""
    with life(tmp_path / "qm", "A", "B") as store:
        store.app.put("A", *(random.Random(n).randbytes(500) for n in range(90)))
        store.app.put("B", b"x")
        path = store.shot()
    whole, out = tmp_path / "whole", tmp_path / "out"
    run(path, whole, sizes=SMALL)
    assert len(list(whole.rglob("*.parquet"))) == 4
    kills = 0
    while _run_killed(path, out, kills + 1) != 0:
        kills += 1
    assert kills > 8
    assert contents(out) == contents(whole)


def _run_killed(snapshot: Path, out: Path, step: int) -> int:
    words = [sys.executable, "-c", KILLED, str(snapshot), str(out), "parquet", str(step)]
    code = subprocess.run(words, check=False, env=os.environ).returncode
    assert code in (0, -signal.SIGKILL)
    return code


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_killed_at_random_it_is_whole_in_the_end(
    snapshot: Path, tmp_path: Path, format: str
) -> None:
    kills = kill_until_done(snapshot, tmp_path, format, random.Random(8))
    assert kills  # The number of kills depends on the speed of the machine.


def kill_until_done(path: Path, directory: Path, format: str, chance: random.Random) -> int:
    """Kills exports until one finishes. The output must match that of a single run."""
    whole, out = directory / "whole", directory / "out"
    run(path, whole, sizes=SMALL, format=format)
    words = [sys.executable, "-c", KILLED, str(path), str(out), format, "0"]
    kills, patience_s = 0, 0.3
    while True:
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.read(1)  # The process has imported its modules.
            try:
                assert process.wait(chance.uniform(0, patience_s)) == 0
                break
            except subprocess.TimeoutExpired:
                process.kill()
        kills, patience_s = kills + 1, patience_s * 1.05
    if format == "parquet":
        assert contents(out) == contents(whole)
    assert rows_in(out / "messages", format) == rows_read(path)
    return kills


class Span(NamedTuple):
    """Rows of a scripted history, in the form in which table history plans them."""

    snapshot: StoredSnapshot
    first: int
    stop: int


def history(first: int, stop: int) -> Table:
    """Returns a table of history in which each number of the history describes three messages."""
    columns = (Column("seq", pa.int64(), ""), Column("body", pa.binary(), ""))

    def plan(snapshots: list[StoredSnapshot], options: Options) -> list[Span]:
        del options
        return [Span(snapshots[0], at, min(at + 10, stop)) for at in range(first, stop, 10)]

    def read(span: Span, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        del options
        seqs = [seq for seq in range(span.first, span.stop) for _ in range(3)]
        bodies = [random.Random(seq).randbytes(500) for seq in seqs]
        yield from pa.table([seqs, bodies], schema=schema).to_batches(max_chunksize=7)

    return Table("history", 1, "", columns, plan, read)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_history_goes_on_by_its_numbers(
    snapshot: Path, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setitem(TABLES, "history", history(1, 1))
    for first, stop in ((1, 31), (1, 31), (21, 51), (60, 80)):
        monkeypatch.setitem(TABLES, "history", history(first, stop))
        done = run(snapshot, tmp_path, table="history", format=format, sizes=TINY)
        told.append((sum(part.rows for part in done.written), len(done.skipped)))
    assert told == [(90, 0), (0, 0), (60, 0), (60, 1)]
    assert "seq 51 to 59 of QM1 were deleted before they were exported" in done.skipped[0]
    if format == "parquet":
        files = [pq.read_table(path)["seq"].to_pylist() for path in tmp_path.rglob("*.parquet")]
        assert len(files) > 4
        assert sorted(seq for seqs in files for seq in seqs) == [
            seq for seq in (*range(1, 51), *range(60, 80)) for _ in range(3)
        ]
        # Messages with the same number are in one file, so an interrupted run continues without
        # gaps.
        assert len({seq for seqs in files for seq in set(seqs)}) == sum(map(len, map(set, files)))


def test_history_of_snapshots_is_reported_once(tmp_path: Path) -> None:
    shots = []
    with life(tmp_path / "qm") as store:
        store.app.ask(m.QueueCreate, "A", {"accounting": "on"})
        for number in range(3):
            store.app.put("A", b"%d" % number)
            store.app.ack(*store.app.get("A"))
            store.manager.turn(1_000)
            shots.append(store.shot())
    done = [run(path, tmp_path / "out", table="history") for path in (*shots, shots[0], shots[2])]
    rows = rows_of(tmp_path / "out/history")
    events = [row["event"] for row in sorted(rows, key=lambda row: row["seq"])]
    assert events.count("put") == events.count("settled") == 3
    assert [bool(one.written) for one in done] == [True, True, True, False, False]
    assert sum(part.rows for one in done for part in one.written) == len(rows)
