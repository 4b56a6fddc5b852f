"""Tests that the store on disk is durable, exclusive, and complete or absent."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import NoReturn

import lmdb
import pytest

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store.image import open_image
from qmgrd.store.inspect import StoreUnreadable
from qmgrd.store.lmdb_store import (
    CopyFailed,
    LmdbStore,
    StoreIsSnapshot,
    StoreLocked,
    StoreMissing,
    StoreReplaced,
)
from tests.qmgrd.descriptors import none_left

MAP_BYTES = 1 << 30
HOLDER = """
import sys
from pathlib import Path
from qmgrd.store.lmdb_store import LmdbStore
store = LmdbStore(Path(sys.argv[1]), 1 << 30)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    store = LmdbStore(tmp_path / "qm", MAP_BYTES)
    yield store
    store.close()


def put(store: LmdbStore, **rows: bytes) -> None:
    tx = store.begin()
    for key, value in rows.items():
        tx.put(key.encode(), value)
    store.commit()


def rows(store: LmdbStore) -> dict[bytes, bytes]:
    tx = store.begin()
    found = dict(tx.scan(b"", b"\xff"))
    store.abort()
    return found


def last_transaction(store: LmdbStore) -> int:
    return int(store._env.info()["last_txnid"])


def written_calls() -> int:
    """Returns the number of write system calls that this process has made."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["syscw"])


def test_turn_that_wrote_nothing_costs_no_write(store: LmdbStore) -> None:
    put(store, a=b"1")
    before, calls = last_transaction(store), written_calls()
    for _ in range(3):
        tx = store.begin()
        tx.get(b"a")
        list(tx.scan(b"a", b"b"))
        tx.delete(b"never there")
        store.commit()
    assert (last_transaction(store), written_calls()) == (before, calls)
    put(store, a=b"2")
    assert last_transaction(store) == before + 1
    assert written_calls() > calls


def test_abort_leaves_nothing(store: LmdbStore) -> None:
    put(store, a=b"1", b=b"2")
    tx = store.begin()
    tx.put(b"a", b"changed")
    tx.delete(b"b")
    tx.put(b"c", b"x" * 100_000)
    store.abort()
    store.abort()  # An abort without a transaction has no effect.
    assert rows(store) == {b"a": b"1", b"b": b"2"}


def test_second_transaction_is_a_bug_and_no_deadlock(store: LmdbStore) -> None:
    store.begin()
    with pytest.raises(AssertionError, match="a transaction is open"):
        store.begin()


def test_committed_data_survives_a_restart(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, MAP_BYTES)
    put(store, a=b"1")
    store.begin().put(b"b", b"2")
    store.close()
    store = LmdbStore(tmp_path, MAP_BYTES)
    assert rows(store) == {b"a": b"1"}
    store.close()


def test_second_daemon_is_refused_with_the_holder_of_the_directory(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        before = sha256((tmp_path / "store" / "data.mdb").read_bytes()).digest()
        with pytest.raises(StoreLocked) as refusal:
            LmdbStore(tmp_path, MAP_BYTES)
        assert str(refusal.value) == (
            f"{tmp_path} is in use by another qmgrd (process {holder.pid}): "
            "stop it, or give this one a different data_dir"
        )
        assert sha256((tmp_path / "store" / "data.mdb").read_bytes()).digest() == before
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    LmdbStore(tmp_path, MAP_BYTES).close()  # The lock ended when its holder ended.


def test_second_store_in_one_process_is_refused(store: LmdbStore) -> None:
    with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
        LmdbStore(store.directory, MAP_BYTES)
    put(store, a=b"1")


def test_no_file_can_be_removed_to_let_a_second_store_in(store: LmdbStore) -> None:
    (store.directory / "qmgrd.lock").unlink()
    with pytest.raises(StoreLocked, match="process unknown"):
        LmdbStore(store.directory, MAP_BYTES)


def test_new_store_is_synced_with_every_directory_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    sync = os.fsync

    def note(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        sync(fd)

    monkeypatch.setattr(os, "fsync", note)
    LmdbStore(tmp_path / "a" / "b", MAP_BYTES).close()
    here = str(tmp_path.resolve())
    made = synced.index(f"{here}/a/b/store.new/data.mdb")
    named = synced.index(f"{here}/a/b/store")
    assert made < synced.index(f"{here}/a/b/store.new") < named
    for parent in (f"{here}/a/b", f"{here}/a", here, str(Path(here).parent)):
        assert synced.index(parent) > made


def test_start_that_was_killed_early_is_made_up_for(tmp_path: Path) -> None:
    (tmp_path / "store.new").mkdir()
    (tmp_path / "store.new" / "data.mdb").touch()
    store = LmdbStore(tmp_path, MAP_BYTES)
    put(store, a=b"1")
    store.close()
    assert not (tmp_path / "store.new").exists()


def test_store_without_its_data_is_not_created_again(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with pytest.raises(StoreMissing, match=r"data\.mdb is missing"):
        LmdbStore(tmp_path, MAP_BYTES)
    assert list((tmp_path / "store").iterdir()) == []
    (tmp_path / "store").rmdir()
    LmdbStore(tmp_path, MAP_BYTES).close()  # The refused open left no lock behind.


def test_missing_store_is_not_created_again(tmp_path: Path) -> None:
    LmdbStore(tmp_path, MAP_BYTES).close()
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(StoreMissing) as refusal:
        LmdbStore(tmp_path, MAP_BYTES)
    assert str(refusal.value) == (
        f"{tmp_path}/store/data.mdb is missing, but a queue manager has used this "
        f"directory: restore the file from a snapshot, or, to begin with an empty store, "
        f"remove {tmp_path}/qmgrd.lock"
    )
    (tmp_path / "qmgrd.lock").unlink()
    LmdbStore(tmp_path, MAP_BYTES).close()


@pytest.mark.parametrize("what", ["the file", "the store", "the directory"])
def test_store_that_is_removed_is_noticed(store: LmdbStore, what: str) -> None:
    put(store, a=b"1")
    data = store.directory / "store" / "data.mdb"
    if what == "the file":
        data.unlink()
    else:
        shutil.rmtree(data.parent if what == "the store" else store.directory)
    with pytest.raises(StoreReplaced, match=r"data\.mdb was removed or replaced .*No such file"):
        store.begin()


def test_failed_file_system_is_a_failed_store(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def call(function: Callable[[], object]) -> None:
        with monkeypatch.context() as broken:  # pytest also calls fstat.
            broken.setattr(os, "fstat", fail)
            function()

    for function in (store.begin, store.check):
        with pytest.raises(StoreFailed, match=r"/store/data\.mdb: Input/output error"):
            call(function)


def test_store_that_is_replaced_is_noticed(store: LmdbStore) -> None:
    data = store.directory / "store" / "data.mdb"
    shutil.copy(data, data.with_name("copy"))
    data.with_name("copy").rename(data)
    with pytest.raises(StoreReplaced, match=r"another file has its name"):
        store.begin()


def test_damaged_store_is_refused_untouched(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, MAP_BYTES)
    put(store, **{f"k{number}": bytes(3000) for number in range(100)})
    store.close()
    data = tmp_path / "store" / "data.mdb"
    os.truncate(data, data.stat().st_size // 2)
    before = sha256(data.read_bytes()).digest()
    with pytest.raises(StoreUnreadable, match="damaged"):
        LmdbStore(tmp_path, MAP_BYTES)
    assert sha256(data.read_bytes()).digest() == before


def test_environment_variable_cannot_choose_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMDB_DEFAULT_LIB_VERSION", "1")
    store = LmdbStore(tmp_path, MAP_BYTES)
    put(store, a=b"1")
    store.close()
    LmdbStore(tmp_path, MAP_BYTES).close()


def test_only_its_owner_may_read_the_data(store: LmdbStore) -> None:
    assert (store.directory / "store").stat().st_mode & 0o077 == 0
    assert (store.directory / "store" / "data.mdb").stat().st_mode & 0o077 == 0


def test_space_counts_what_is_in_use_and_not_the_file(store: LmdbStore) -> None:
    empty = store.space()
    put(store, **{f"k{number:03}": bytes(3000) for number in range(500)})
    full = store.space()
    assert full.used_bytes - empty.used_bytes >= 500 * 3000
    size = (store.directory / "store" / "data.mdb").stat().st_size
    tx = store.begin()
    for number in range(500):
        tx.delete(b"k%03d" % number)
    store.commit()
    assert store.space().used_bytes < 100_000
    assert (store.directory / "store" / "data.mdb").stat().st_size >= size
    assert full.map_bytes == MAP_BYTES
    disk = os.statvfs(store.directory)
    assert abs(full.disk_free_bytes - disk.f_bavail * disk.f_frsize) < 1 << 30


def test_free_pages_of_the_file_were_written_once(store: LmdbStore) -> None:
    assert store.space().file_free_bytes < 100_000
    put(store, **{f"k{number:03}": bytes(3000) for number in range(500)})
    assert store.space().file_free_bytes < 100_000
    tx = store.begin()
    for number in range(500):
        tx.delete(b"k%03d" % number)
    store.commit()
    assert store.space().file_free_bytes >= 500 * 3000
    data = store.directory / "store" / "data.mdb"
    # A hole needs disk space once it is used.
    os.truncate(data, data.stat().st_size + (1 << 30))
    assert store.space().file_free_bytes < 3 << 20


@pytest.fixture
def files_end_at_once(store: LmdbStore) -> Iterator[None]:
    """Limits all files to the store's size, as on a full disk."""
    size = (store.directory / "store" / "data.mdb").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("files_end_at_once")
def test_failed_commit_reports_an_unknown_outcome(store: LmdbStore) -> None:
    store.begin().put(b"a", bytes(200_000))
    with pytest.raises(StoreFailed, match="the outcome of a commit is unknown: "):
        store.commit()


def test_pinned_turn_stays_as_it_was(store: LmdbStore, tmp_path: Path) -> None:
    put(store, a=b"1", long=b"x" * 50_000)
    pin = store.pin()
    put(store, a=b"2", b=b"3")
    copy = tmp_path / "copy.mdb"
    with copy.open("wb") as file:
        # on another thread, as in a snapshot
        thread = Thread(target=pin.copy_to, args=(file.fileno(),))
        thread.start()
        thread.join()
    pin.release()
    pin.release()
    image = open_image(copy)
    with image.transaction() as tx:
        assert dict(tx.scan(b"", b"\xff")) == {b"a": b"1", b"long": b"x" * 50_000}
    image.close()
    assert rows(store)[b"a"] == b"2"


def test_copy_without_a_reader_fails_without_effect(store: LmdbStore) -> None:
    put(store, a=bytes(500_000))
    source, pipe = os.pipe()
    os.close(source)
    pin = store.pin()
    with pytest.raises(CopyFailed, match="Broken pipe"):
        pin.copy_to(pipe)
    os.close(pipe)
    pin.release()
    put(store, b=b"2")
    assert rows(store)[b"b"] == b"2"


def test_released_pin_lets_freed_pages_be_used_again(store: LmdbStore) -> None:
    data = store.directory / "store" / "data.mdb"

    def churn() -> int:
        size = data.stat().st_size
        for number in range(50):
            put(store, a=bytes([number]) * 100_000)
        return data.stat().st_size - size

    churn()
    pin = store.pin()
    assert churn() > 1_000_000
    pin.release()
    assert churn() < 200_000


def test_pages_that_a_pin_holds_count_as_used(store: LmdbStore) -> None:
    """LMDB cannot reuse these pages. Otherwise, the map would be full with little content."""
    put(store, a=bytes(100_000))
    put(store, a=bytes(100_000))
    before = store.space()
    pin = store.pin()
    for number in range(20):
        put(store, a=bytes([number]) * 100_000)
    pinned = store.space()
    assert pinned.used_bytes - pinned.held_bytes == before.used_bytes
    assert 20 * 100_000 < pinned.held_bytes < 24 * 100_000
    assert store.space() == pinned
    file_bytes = (store.directory / "store" / "data.mdb").stat().st_size
    assert pinned.used_bytes + pinned.file_free_bytes == pytest.approx(file_bytes, rel=0.02)
    pin.release()
    after = store.space()
    assert (after.used_bytes, after.held_bytes) == (before.used_bytes, 0)
    assert after.file_free_bytes > 20 * 100_000
    store.pin().release()


def test_pages_that_a_pin_holds_are_counted_without_another_descriptor(store: LmdbStore) -> None:
    """Pages are counted after each turn. A snapshot must not stop a daemon without descriptors."""
    put(store, a=b"1")
    pin = store.pin()
    with none_left():
        put(store, a=b"2")
        assert store.space().held_bytes > 0
    pin.release()


def test_turns_go_on_until_what_is_used_fills_the_map(tmp_path: Path) -> None:
    """The number matches the pages that LMDB can use, however many were free at the pin."""
    store = LmdbStore(tmp_path / "small", 4 << 20)
    for _ in range(3):
        pin = store.pin()
        number = 0
        while store.space().used_bytes < store.map_bytes * 95 // 100:
            put(store, **{f"k{number % 400}": bytes(3_000)})
            number += 1
        assert store.space().held_bytes > 1 << 20
        pin.release()
    store.close()


def test_full_map_is_the_failure_of_the_store(store: LmdbStore) -> None:
    tx = store.begin()
    with pytest.raises(lmdb.MapFullError) as full:
        tx.put(b"a", bytes(MAP_BYTES))
    store.abort()
    assert str(store.failure(full.value)) == (
        f"the store's map of {MAP_BYTES} bytes is full: raise store.map_bytes"
    )
    assert str(store.failure(lmdb.DiskError("mdb_put: No space left on device"))) == (
        "mdb_put: No space left on device"
    )
    assert store.failure(lmdb.BadValsizeError("mdb_put")) is None
    assert store.failure(ZeroDivisionError()) is None


@pytest.mark.parametrize("begun", [False, True])
def test_snapshot_is_not_opened_as_a_data_directory(tmp_path: Path, begun: bool) -> None:
    if begun:
        LmdbStore(tmp_path, MAP_BYTES).close()
    (tmp_path / "manifest.json").touch()
    (tmp_path / "data.mdb").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreIsSnapshot, match="is a snapshot, not a data directory: restore it to"):
        LmdbStore(tmp_path, MAP_BYTES)
    assert sorted(tmp_path.rglob("*")) == before


def test_copy_in_the_wrong_place_is_not_skipped(tmp_path: Path) -> None:
    """Such a copy next to a store has no effect."""
    (tmp_path / "data.mdb").touch()
    with pytest.raises(StoreIsSnapshot):
        LmdbStore(tmp_path, MAP_BYTES)
    (tmp_path / "data.mdb").unlink()
    LmdbStore(tmp_path, MAP_BYTES).close()
    (tmp_path / "data.mdb").touch()
    LmdbStore(tmp_path, MAP_BYTES).close()
