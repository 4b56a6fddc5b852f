"""Tests of history from a daemon: each event once, and the cursor never ahead of the files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from qmgr_tables.export.export import Exported
from qmgr_tables.export.failure import ExportRefused, ExportUnavailable
from qmgr_tables.export.live import export_live
from qmgr_tables.export.manifest import line
from qmgr_tables.option_parser import parse
from tests.qmgr_tables.exported import rows_in
from tests.qmgr_tools.conftest import Daemon

pytestmark = pytest.mark.process


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    started = Daemon("OWN", tmp_path / "qm")
    started.data_dir.mkdir()
    try:
        started.start()
        yield started
    finally:
        started.program.stop()


def put(daemon: Daemon, count: int) -> None:
    with connect(daemon.unix) as client:
        if "A" not in [row["queue"] for row in client.admin.queue_list()]:
            client.admin.queue_create("A", accounting="on")
        for _ in range(count):
            client.put("A", b"x")


def run(
    daemon: Daemon, to: Path, format: str = "parquet", wait_ms: int = 5_000, **asked: str
) -> Exported:
    options = parse({"path": "-", "table": "history", **asked})
    return export_live(options, daemon.unix, "lake", str(to), format=format, wait_ms=wait_ms)


def position(daemon: Daemon) -> tuple[int, int]:
    """Returns the position of the cursor, and the last existing row."""
    with connect(daemon.unix) as client:
        found = client.admin.history_show()
    (cursor,) = found["cursors"]
    return cursor["position"], found["next"] - 1


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_each_event_is_exported_once(daemon: Daemon, tmp_path: Path, format: str) -> None:
    told = []
    for count in (3, 0, 2):
        put(daemon, count)
        done = run(daemon, tmp_path / "out", format)
        told.append(sum(part.rows for part in done.written))
        assert position(daemon)[0] == position(daemon)[1]
    assert told == [3, 0, 2]
    rows = rows_in(tmp_path / "out/history", format)
    assert [row["event"] for row in rows] == ["put"] * 5
    assert len({row["message_id"] for row in rows}) == 5
    assert {row["snapshot_id"] for row in rows} == {None}


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_the_cursor_passes_what_nobody_wants(daemon: Daemon, tmp_path: Path, format: str) -> None:
    for _ in range(2):
        put(daemon, 2)
        done = run(daemon, tmp_path / "out", format, queues="OTHER")
        assert (done.written, done.skipped) == ([], [])
        assert position(daemon)[0] == position(daemon)[1]


def test_a_queue_manager_that_is_away_is_reported(daemon: Daemon, tmp_path: Path) -> None:
    daemon.program.stop()
    with pytest.raises(
        ExportUnavailable, match="waited for 0 ms; run the export again: it continues"
    ):
        run(daemon, tmp_path / "out", wait_ms=0)


def test_files_that_are_ahead_of_the_store_are_seen(daemon: Daemon, tmp_path: Path) -> None:
    put(daemon, 3)
    run(daemon, tmp_path / "out")
    manifest = tmp_path / "out/history/_manifest"
    with connect(daemon.unix) as client:
        store_id = client.admin.history_show()["store_id"]
    with manifest.open("ab") as file:
        file.write(line({"key": store_id, "last": 1_000}))
    with pytest.raises(ExportRefused, match="the store was restored from a backup"):
        run(daemon, tmp_path / "out")


def test_the_cursor_goes_on_to_what_is_in_the_files(daemon: Daemon, tmp_path: Path) -> None:
    """If a run was killed before it moved the cursor, the next run moves the cursor."""
    put(daemon, 3)
    run(daemon, tmp_path / "out")
    with connect(daemon.unix) as client:
        client.admin.cursor_delete("lake")
    assert run(daemon, tmp_path / "out").written == []
    assert position(daemon)[0] == position(daemon)[1]
