"""Tests of snapshots of a store in use, and of all possible failures."""

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from qmgrd.core.layout import keys
from qmgrd.snapshot.snapshot import SnapshotFailed
from qmgrd.store.lmdb_store import LmdbStore
from tests.disk_stores import disk_store
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.snapshot.shot import MAP_BYTES, Camera, managed, rows_of, writers

SLOW = 64 << 10  # bytes per second; the copy does not end while a test checks it


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """Yields a manager with 200 messages of 5,000 bytes on queue Q."""
    with managed(tmp_path / "qm") as manager:
        client = manager.connect()
        client.ask(m.QueueCreate, "Q")
        client.put("Q", *(b"%04d" % number + bytes(5_000) for number in range(200)))
        yield manager
        for thread in threading.enumerate():
            assert thread.name != "snapshot"
        assert writers() == []


@pytest.fixture
def camera(manager: Manager) -> Camera:
    return Camera(manager)


@pytest.fixture
def slow(manager: Manager) -> Iterator[Camera]:
    """Yields a camera whose snapshots take a long time. An unfinished one ends with the test."""
    camera = Camera(manager, rate_bytes=SLOW)
    yield camera
    camera.snapshotter.close()


def client_of(manager: Manager) -> Client:
    return manager.connect("other")


def wait_until(true: Callable[[], Any]) -> Any:
    """Waits for another process. pytest's time limit ends the wait."""
    while not (found := true()):
        os.sched_yield()
    return found


def partials(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.partial-*"))


def test_snapshot_is_a_directory_with_data_and_manifest(camera: Camera, tmp_path: Path) -> None:
    manifest = camera.take(tmp_path / "snap")
    assert sorted(os.listdir(tmp_path / "snap")) == ["data.mdb", "manifest.json"]
    assert json.loads((tmp_path / "snap" / "manifest.json").read_text()) == manifest
    data = (tmp_path / "snap" / "data.mdb").read_bytes()
    assert manifest["data_bytes"] == len(data)
    assert manifest["data_sha256"] == hashlib.sha256(data).hexdigest()
    assert partials(tmp_path) == []


def test_snapshot_is_sound_in_the_eyes_of_lmdb(camera: Camera, tmp_path: Path) -> None:
    camera.take(tmp_path / "snap")
    data = str(tmp_path / "snap" / "data.mdb")
    command = [sys.executable, "-m", "lmdb", "verify", "-s", data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "verify: OK\n"


def test_snapshot_has_exactly_its_turn_despite_later_turns(
    manager: Manager, tmp_path: Path
) -> None:
    camera = Camera(manager, rate_bytes=4 << 20)
    client = client_of(manager)
    expected = dict(manager.scan(b""))
    camera.start(tmp_path / "snap")
    turns = 0
    while camera.calls.empty():
        client.put("Q", b"later" * 500)
        client.ack(*client.get("Q", 2))
        turns += 1
    assert isinstance(camera.wait(), dict)
    assert turns > 10
    found = rows_of(tmp_path / "snap" / "data.mdb")
    for rows in (found, expected):
        rows.pop(keys.CHECKPOINT)  # The pin itself changes it.
    assert found == expected


def test_start_returns_before_anything_is_copied(slow: Camera, tmp_path: Path) -> None:
    slow.start(tmp_path / "snap")
    assert slow.snapshotter.running
    assert slow.results == []
    assert not (tmp_path / "snap").exists()


def test_one_snapshot_at_a_time(slow: Camera, tmp_path: Path) -> None:
    slow.start(tmp_path / "first")
    with pytest.raises(RequestError) as refusal:
        slow.start(tmp_path / "second")
    assert refusal.value.code == ErrorCode.SNAPSHOT_RUNNING
    assert refusal.value.error_class == ErrorClass.RETRY_LATER
    assert refusal.value.text == (
        f"a snapshot is being written to {tmp_path}/first: try again when it is finished"
    )


def test_next_snapshot_follows_the_one_before(camera: Camera, tmp_path: Path) -> None:
    first = camera.take(tmp_path / "first")
    client_of(camera.manager).put("Q", b"more")
    second = camera.take(tmp_path / "second")
    assert second["turn"] > first["turn"]
    assert second["messages"] == first["messages"] + 1
    assert second["snapshot_id"] != first["snapshot_id"]


def test_turn_that_is_not_the_last_is_refused(camera: Camera, tmp_path: Path) -> None:
    camera.snapshotter.start(str(tmp_path / "snap"), 7_777, camera.results.append)
    result = camera.wait()
    assert isinstance(result, SnapshotFailed)
    assert "not of turn 7777" in result.text
    assert not (tmp_path / "snap").exists()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_directory_that_exists_is_left_alone(
    camera: Camera, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "snap")
    before = (tmp_path / "snap").lstat()
    assert camera.fail(tmp_path / "snap") == (
        f"{tmp_path}/snap already exists: choose a new name for the snapshot"
    )
    assert (tmp_path / "snap").lstat() == before


@pytest.mark.parametrize(
    ("below", "why"),
    [
        ("none/snap", "none/snap: No such file or directory: create its parent"),
        ("file/snap", "file/snap: Not a directory: choose a path below a directory"),
        ("x" * 250, "File name too long: choose another place"),
        ("a\0b", "is not a valid path: it contains a NUL"),
        ("a\udc80b", "is not a valid path"),
    ],
)
def test_place_that_cannot_be_written_is_named(
    camera: Camera, tmp_path: Path, below: str, why: str
) -> None:
    (tmp_path / "file").touch()
    assert why in camera.fail(f"{tmp_path}/{below}")
    assert partials(tmp_path) == []


def test_root_directory_cannot_be_a_snapshot(camera: Camera) -> None:
    assert camera.fail("/") == "/ already exists: choose a new name for the snapshot"


def test_disk_without_room_is_refused_before_it_is_full(manager: Manager, tmp_path: Path) -> None:
    camera = Camera(manager, reserve_bytes=1 << 60)
    text = camera.fail(tmp_path / "snap")
    assert f"{tmp_path}: the disk has " in text
    assert f"{1 << 60} must remain: free some space, or choose another disk" in text
    assert sorted(os.listdir(tmp_path)) == ["qm"]


def test_disk_that_fills_up_fails_the_snapshot_alone(tmp_path: Path) -> None:
    """The store has no journal, because its checkpoint would also reach the limit."""
    with managed(tmp_path / "qm", make=LmdbStore) as manager:
        client = manager.connect()
        client.ask(m.QueueCreate, "Q")
        client.put("Q", *(b"%04d" % number + bytes(5_000) for number in range(200)))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            text = Camera(manager).fail(tmp_path / "snap")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert f"{tmp_path}/snap: File too large: choose another place" in text
        assert sorted(os.listdir(tmp_path)) == ["qm"]
        client_of(manager).put("Q", b"goes on")


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_killed_writer_leaves_nothing(
    slow: Camera, manager: Manager, tmp_path: Path, kill: signal.Signals
) -> None:
    slow.start(tmp_path / "snap")
    wait_until(lambda: list(tmp_path.glob("*.partial-*/data.mdb")))
    os.kill(writers()[0], kill)
    result = slow.wait()
    assert isinstance(result, SnapshotFailed)
    assert result.text == (
        f"{tmp_path}/snap: the process that wrote the snapshot was killed by signal {kill.value}: "
        "try again"
    )
    assert result.error_class == ErrorClass.RETRY_LATER
    assert sorted(os.listdir(tmp_path)) == ["qm"]
    client_of(manager).put("Q", b"goes on")


def test_writer_that_hangs_is_given_up(manager: Manager, tmp_path: Path) -> None:
    camera = Camera(manager, rate_bytes=1, time_max_s=1.0)
    assert camera.fail(tmp_path / "snap") == (
        f"{tmp_path}/snap: the snapshot took more than 1 s: choose a faster disk"
    )
    assert sorted(os.listdir(tmp_path)) == ["qm"]


def test_closing_gives_up_what_is_being_taken(slow: Camera, tmp_path: Path) -> None:
    slow.start(tmp_path / "snap")
    wait_until(lambda: partials(tmp_path))
    slow.snapshotter.close()
    slow.snapshotter.close()
    assert sorted(os.listdir(tmp_path)) == ["qm"]
    result = slow.wait()
    assert isinstance(result, SnapshotFailed)
    assert result.text.endswith("the queue manager stops: try again when it has restarted")


def test_closing_at_once_gives_up_as_well(slow: Camera, tmp_path: Path) -> None:
    slow.start(tmp_path / "snap")
    slow.snapshotter.close()
    assert isinstance(slow.wait(), SnapshotFailed)
    assert sorted(os.listdir(tmp_path)) == ["qm"]


def test_snapshot_gives_way_where_what_it_holds_keeps_puts_out(
    manager: Manager, tmp_path: Path
) -> None:
    store, client = manager.store, client_of(manager)
    store.map_bytes = 8 << 20
    stop_bytes = store.map_bytes * manager.config.store.high_water_percent // 100
    camera = Camera(manager, rate_bytes=SLOW, puts_stop_bytes=stop_bytes)
    with closing(camera.snapshotter):
        camera.start(tmp_path / "snap")
        while camera.calls.empty():
            client.put_records("Q", record(bytes(10_000)))
            client.ack(*client.get("Q"))
            camera.snapshotter.give_way()
            assert store.space().used_bytes < stop_bytes + (1 << 20)
        result = camera.wait()
    assert isinstance(result, SnapshotFailed)
    assert result.text.startswith(f"{tmp_path}/snap: the snapshot held ")
    assert result.text.endswith(
        " bytes that the store needed for puts: try again under less load, or raise store.map_bytes"
    )
    assert sorted(os.listdir(tmp_path)) == ["qm"]
    assert store.space().held_bytes == 0
    client.put("Q", b"goes on")


def test_snapshot_of_a_store_that_is_full_anyway_does_not_give_way_at_once(
    manager: Manager, tmp_path: Path
) -> None:
    """The snapshot does not block the puts, and an operator may want a snapshot of a full store."""
    used_bytes = manager.store.space().used_bytes
    manager.store.map_bytes = used_bytes + (4 << 20)
    camera = Camera(manager, rate_bytes=4 << 20, puts_stop_bytes=used_bytes // 2)
    client = client_of(manager)
    with closing(camera.snapshotter):
        camera.start(tmp_path / "snap")
        for _ in range(5):
            client.ack(*client.get("Q"))
            camera.snapshotter.give_way()
        assert manager.store.space().held_bytes
        assert isinstance(camera.wait(), dict)


def test_turn_that_is_undone_does_not_wait_for_the_snapshot(
    manager: Manager, slow: Camera, tmp_path: Path
) -> None:
    """LMDB's abort waits for the end of a copy. A bug would stop the daemon for that long."""
    slow.start(tmp_path / "snap")
    wait_until(lambda: list(tmp_path.glob("*.partial-*/data.mdb")))
    manager.store.begin()
    manager.store.abort()
    result = slow.wait()
    assert isinstance(result, SnapshotFailed)
    assert result.text == (
        f"{tmp_path}/snap: a turn failed in the meantime: retry, and see the log"
    )
    assert sorted(os.listdir(tmp_path)) == ["qm"]
    client_of(manager).put("Q", b"goes on")


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_pages_freed_after_a_snapshot_are_used_again(
    manager: Manager, tmp_path: Path, ends: str
) -> None:
    """The snapshot closes its read transaction. Otherwise, the store would grow for ever."""
    data = tmp_path / "qm" / "store" / "data.mdb"
    client = client_of(manager)
    client.ask(m.QueueCreate, "C")

    def churn() -> int:
        size = data.stat().st_size
        for _ in range(30):
            client.put("C", bytes(100_000))
            client.ack(*client.get("C"))
        return data.stat().st_size - size

    churn()
    if ends == "well":
        Camera(manager).take(tmp_path / "snap")
    else:
        Camera(manager).fail("/none/of/it")
    assert churn() < 1_000_000


def test_leftovers_of_killed_runs_are_removed(camera: Camera, tmp_path: Path) -> None:
    dead, other = tmp_path / "snap.partial-dead", tmp_path / "snap2.partial-dead"
    for leftover in (dead, other):
        leftover.mkdir()
        (leftover / "data.mdb").write_bytes(b"half")
    camera.take(tmp_path / "snap")
    assert not dead.exists()
    assert other.exists()


def test_partial_directory_in_use_is_kept(slow: Camera, tmp_path: Path) -> None:
    slow.start(tmp_path / "snap")
    wait_until(lambda: list(tmp_path.glob("*.partial-*/data.mdb")))
    (at_work,) = partials(tmp_path)
    with managed(tmp_path / "qm2", "QM2") as second:
        Camera(second).take(tmp_path / "snap")
        assert at_work.exists()


def test_snapshot_is_a_store_to_start_from(camera: Camera, tmp_path: Path) -> None:
    manifest = camera.take(tmp_path / "snap")
    (tmp_path / "new" / "store").mkdir(parents=True)
    shutil.copy(tmp_path / "snap" / "data.mdb", tmp_path / "new" / "store")
    restored = Manager(disk_store(tmp_path / "new", MAP_BYTES))
    assert restored.queue("Q").counters.depth == manifest["messages"] == 200
    restored.connect().put("Q", b"more")
    restored.store.close()


def test_daemon_may_stand_where_a_folder_has_the_name_of_the_package(
    camera: Camera, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "qmgrd").mkdir()
    (tmp_path / "qmgrd" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    camera.take(tmp_path / "snap")
