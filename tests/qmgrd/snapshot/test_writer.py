"""Tests of the writer of a snapshot, called directly.

A snapshot is complete or absent, and the numbers in its manifest are right.
"""

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from qmgrd.snapshot.facts import describe
from qmgrd.snapshot.writer import TRAILER, WriteFailed, WriteRequest, write
from tests.qmgrd.core.harness import Manager, record
from tests.qmgrd.snapshot.shot import managed


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with managed(tmp_path / "qm") as manager:
        yield manager


def image(manager: Manager) -> bytes:
    """Returns a copy of the last turn in the format of the pipe."""
    with TemporaryFile() as file:
        pin = manager.store.pin()
        pin.copy_to(file.fileno())
        pin.release()
        file.seek(0)
        return file.read()


def order(target: Path, turn: int = 0, **changes: Any) -> WriteRequest:
    made = WriteRequest(str(target), f"{target.name}.partial-1", turn, 0, 1 << 40, 0)
    return made._replace(**changes)


def feed(what: WriteRequest, *pieces: bytes) -> dict[str, Any]:
    """Writes *pieces* as if they arrived one by one through a pipe."""
    source, pipe = os.pipe()

    def pump() -> None:
        with open(pipe, "wb", buffering=0) as file:
            for piece in pieces:
                try:
                    file.write(piece)
                except BrokenPipeError:
                    return

    thread = Thread(target=pump)
    thread.start()
    try:
        return write(what, source)
    finally:
        os.close(source)
        thread.join()


def turn_of(manager: Manager) -> int:
    return manager.turns.broker.context.turn_number


def manifest_of(manager: Manager, tmp_path: Path) -> dict[str, Any]:
    return feed(order(tmp_path / "snap", turn_of(manager)), image(manager), TRAILER)


def only_the_store_is_left(tmp_path: Path) -> bool:
    return os.listdir(tmp_path) == ["qm"]


def test_manifest_has_the_queue_manager_and_the_turn(manager: Manager, tmp_path: Path) -> None:
    manager.connect().ask(m.QueueCreate, "Q")
    manifest = manifest_of(manager, tmp_path)
    size = (tmp_path / "snap" / "data.mdb").stat().st_size
    turn = turn_of(manager)
    elsewhere = ("data_sha256", "manifest_sha256", "queues")
    assert {key: manifest[key] for key in manifest if key not in elsewhere} == {
        "format": 2,
        "snapshot_id": f"QM1-53535353-1-{turn}",
        "queue_manager": "QM1",
        "store_id": "53" * 16,
        "boot": 1,
        "turn": turn,
        "created": "2023-11-14T22:13:20+00:00",
        "clock_ms": 0,
        "wall_us": 1_700_000_000_000_000,
        "store_format": keys.FORMAT,
        "record_format": 1,
        "lmdb_format": 1,
        "messages": 0,
        "bytes": 0,
        "history": {"first": 1, "next": 1},
        "links": [],
        "inboxes": [],
        "data_bytes": size,
    }


def test_empty_queues_are_in_the_manifest(manager: Manager, tmp_path: Path) -> None:
    manager.connect().ask(m.QueueCreate, "Q")
    assert manifest_of(manager, tmp_path)["queues"] == [
        {
            "queue": "Q",
            "queue_id": 1,
            "kind": "local",
            "depth": 0,
            "delayed": 0,
            "bytes": 0,
            "first_arrival": None,
            "last_arrival": None,
            "ranges": [],
            "lost": [],
        }
    ]


def test_each_priority_is_a_range(manager: Manager, tmp_path: Path) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    for priority in (3, 7, 3, 3):
        app.put("Q", b"x", priority=priority)
    app.ack(*app.get("Q"))
    (queue,) = manifest_of(manager, tmp_path)["queues"]
    assert queue["ranges"] == [
        {"lane": 0, "priority": 3, "messages": 3, "first_arrival": 1, "last_arrival": 4}
    ]
    assert (queue["depth"], queue["first_arrival"], queue["last_arrival"]) == (3, 1, 4)
    assert queue["bytes"] == manager.queue("Q").counters.bytes


def test_what_waits_for_its_time_has_a_range_of_its_own(manager: Manager, tmp_path: Path) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"now")
    app.put("Q", b"then", b"then", delay_ms=60_000)
    manager.turn(25)
    app.put("Q", b"now")
    manifest = manifest_of(manager, tmp_path)
    (queue,) = manifest["queues"]
    assert (queue["depth"], queue["delayed"], manifest["messages"]) == (2, 2, 4)
    assert [found["lane"] for found in queue["ranges"]] == [keys.LANE_READY, keys.LANE_DELAYED]
    assert (manifest["clock_ms"], manifest["wall_us"]) == (25, manager.wall_us)


def test_message_lost_in_a_restart_is_not_counted(tmp_path: Path) -> None:
    flags = records.FLAG_NOT_PERSISTENT
    with managed(tmp_path / "qm") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put("Q", b"kept")
        app.put_records("Q", *(record(b"", flags=flags) for _ in range(3_000)))
        manager.restart()
        manager.connect().put("Q", b"new", flags=flags)
        (queue,) = manifest_of(manager, tmp_path)["queues"]
        assert len(manager.scan(keys.lane(1, keys.LANE_READY))) > 1_000
    assert (queue["depth"], queue["lost"]) == (2, [[2, 3_002]])


def test_damaged_messages_have_a_range_and_no_depth(manager: Manager, tmp_path: Path) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"one", b"two", b"three")
    tx = manager.store.begin()
    key, value = next(tx.scan(keys.SPACE_MESSAGE, keys.after(keys.SPACE_MESSAGE)))
    tx.put(key, value[:-1] + b"?")
    manager.store.commit()
    assert [found.body for found in app.get("Q")] == [b"two"]
    (queue,) = manifest_of(manager, tmp_path)["queues"]
    assert queue["depth"] == 2
    assert [(found["lane"], found["messages"]) for found in queue["ranges"]] == [
        (keys.LANE_READY, 2),
        (keys.LANE_DAMAGED, 1),
    ]


def test_transmission_queues_are_listed_and_remote_queues_are_not(
    manager: Manager, tmp_path: Path
) -> None:
    app = manager.connect()
    app.ask(m.LinkCreate, "NYC", {"addresses": ["127.0.0.1:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", b"away")
    (queue,) = manifest_of(manager, tmp_path)["queues"]
    assert (queue["queue"], queue["kind"], queue["depth"]) == ("@NYC", "transmission", 1)


def test_rows_of_a_deleted_queue_are_not_counted(manager: Manager, tmp_path: Path) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"left")
    tx = manager.store.begin()
    row = dict(tx.scan(keys.SPACE_MESSAGE, keys.after(keys.SPACE_MESSAGE)))
    manager.store.abort()
    app.ask(m.QueueDelete, "Q", True)
    manager.rest()
    tx = manager.store.begin()
    for key, value in row.items():
        tx.put(key, value)
    manager.store.commit()
    manifest = manifest_of(manager, tmp_path)
    assert (manifest["messages"], manifest["queues"]) == (0, [])


def test_end_that_comes_early_leaves_nothing(manager: Manager, tmp_path: Path) -> None:
    """The data ends after any number of bytes, as if the daemon had been killed."""
    data = image(manager) + TRAILER
    for size in (0, 1, len(TRAILER), 4096, len(data) - len(TRAILER), len(data) - 1):
        with pytest.raises(WriteFailed, match="the daemon stopped the copy after"):
            feed(order(tmp_path / "snap", turn_of(manager)), data[:size])
        assert only_the_store_is_left(tmp_path)


def test_pieces_may_be_cut_anywhere(manager: Manager, tmp_path: Path) -> None:
    data = image(manager) + TRAILER
    pieces = [data[:5], data[5:4099], *(data[at : at + 999] for at in range(4099, len(data), 999))]
    feed(order(tmp_path / "snap", turn_of(manager)), *pieces)
    assert (tmp_path / "snap" / "data.mdb").read_bytes() == image(manager)


def test_directory_without_a_store_is_refused(manager: Manager, tmp_path: Path) -> None:
    for data in (b"", b"not a store" * 1000, image(manager)[:8192]):
        with pytest.raises(WriteFailed, match="the copy cannot be read: "):
            feed(order(tmp_path / "snap"), data, TRAILER)
        assert only_the_store_is_left(tmp_path)


def test_another_turn_is_refused(manager: Manager, tmp_path: Path) -> None:
    with pytest.raises(WriteFailed, match="the copy is of turn 0, not of turn 5"):
        feed(order(tmp_path / "snap", 5), image(manager), TRAILER)
    assert only_the_store_is_left(tmp_path)


def test_reserve_is_held_while_it_writes(manager: Manager, tmp_path: Path) -> None:
    manager.connect().ask(m.QueueCreate, "Q")
    for _ in range(10):
        app = manager.connect()
        app.put("Q", *[bytes(100_000)] * 10)
    disk = os.statvfs(tmp_path)
    reserve = disk.f_bavail * disk.f_frsize - (5 << 20)
    with pytest.raises(WriteFailed, match=f"{reserve} must remain: free some space"):
        feed(order(tmp_path / "snap", reserve_bytes=reserve), image(manager), TRAILER)
    assert only_the_store_is_left(tmp_path)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_only_the_owner_may_read_messages(manager: Manager, tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        manifest_of(manager, tmp_path)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "snap").stat().st_mode) == 0o700
    for path in (tmp_path / "snap").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_files_are_synced_before_the_snapshot_gets_its_name(
    manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, rename = os.fsync, os.rename

    def note_sync(fd: int) -> None:
        steps.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path.resolve()))
        sync(fd)

    def note_rename(*args: Any) -> None:
        steps.append("rename")
        rename(*args)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "rename", note_rename)
    manifest_of(manager, tmp_path)
    assert steps == [
        "snap.partial-1/data.mdb",
        "snap.partial-1/manifest.json",
        "snap.partial-1",
        "rename",
        ".",
    ]


def test_describe_reads_what_was_written(manager: Manager, tmp_path: Path) -> None:
    manager.connect().ask(m.QueueCreate, "Q")
    manifest = manifest_of(manager, tmp_path)
    assert describe(tmp_path / "snap" / "data.mdb").items() <= manifest.items()


def run(what: WriteRequest, data: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "qmgrd.snapshot.writer", json.dumps(what._asdict())]
    return subprocess.run(command, input=data, capture_output=True, check=False)


def test_process_prints_the_manifest(manager: Manager, tmp_path: Path) -> None:
    done = run(order(tmp_path / "snap"), image(manager) + TRAILER)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["manifest"]["queue_manager"] == "QM1"


def test_process_reports_why_it_wrote_no_snapshot(manager: Manager, tmp_path: Path) -> None:
    done = run(order(tmp_path / "snap"), b"")
    assert (done.returncode, done.stderr) == (1, b"")
    assert "stopped the copy" in json.loads(done.stdout)["error"]


def test_copy_with_a_damaged_row_is_no_snapshot(manager: Manager, tmp_path: Path) -> None:
    manager.connect().ask(m.QueueCreate, "ORDERS")
    key = keys.of_queue(keys.SPACE_COUNTERS, manager.queue("ORDERS").id)
    tx = manager.store.begin()
    tx.put(key, (tx.get(key) or b"")[:-1] + b"!")
    manager.store.commit()
    with pytest.raises(WriteFailed, match=r"the counters of queue ORDERS \(id 1\)"):
        manifest_of(manager, tmp_path)


def test_writer_without_a_descriptor_for_its_lock_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(".partial-1"):
            monkeypatch.setattr(os, "open", opened)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WriteFailed, match="Too many open files"):
        write(order(tmp_path / "copy"), 0)
    assert list(tmp_path.iterdir()) == []


def test_messages_of_groups_are_counted_with_what_can_be_got(
    manager: Manager, tmp_path: Path
) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"x", b"x", b"x")
    app.put("Q", b"x", group=(b"G" * 24, 1, False))
    app.put("Q", b"x", group=(b"G" * 24, 2, True), delay_ms=1_000)
    (queue,) = manifest_of(manager, tmp_path)["queues"]
    assert (queue["depth"], queue["delayed"]) == (4, 1)
    assert (queue["first_arrival"], queue["last_arrival"]) == (1, 4)
    lanes = {one["lane"]: one["messages"] for one in queue["ranges"]}
    assert lanes == {keys.LANE_READY: 3, keys.LANE_GROUPED: 1, keys.LANE_DELAYED: 1}
