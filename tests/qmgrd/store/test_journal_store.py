"""Tests that a store with a journal has, after each kill, exactly the turns that were committed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from qmgr_config.model import DurabilityConfig
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store import flush_time
from qmgrd.store.journal import BLOCK_BYTES, FILE
from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import LmdbStore
from qmgrd.store.opening import open_store
from tests.disk_stores import disk_store

MAP_BYTES = 1 << 30
FILE_BYTES = 8 * BLOCK_BYTES
KEYS = st.binary(min_size=1, max_size=2).map(lambda key: b"\x10" + key)
VALUES = st.one_of(st.binary(max_size=5), st.binary(min_size=9_000, max_size=12_000))


def opened(directory: Path, file_bytes: int = FILE_BYTES) -> JournalStore:
    return disk_store(directory, MAP_BYTES, file_bytes)


def rows(store: LmdbStore) -> dict[bytes, bytes]:
    found = dict(store.begin().scan(b"\x10", b"\x11"))
    store.commit()
    return found


def put(store: LmdbStore, **values: bytes) -> None:
    tx = store.begin()
    for key, value in values.items():
        tx.put(b"\x10" + key.encode(), value)
    store.commit()


def killed(store: JournalStore, directory: Path) -> Path:
    """Returns a copy of the data directory as a kill would leave it."""
    copy = Path(tempfile.mkdtemp(dir=directory))
    return Path(shutil.copytree(store.directory, copy / "qm"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JournalStore]:
    store = opened(tmp_path / "qm")
    yield store
    store.close()


class Killed(RuleBasedStateMachine):
    """Changes rows, kills and restarts, and compares with a map of the committed rows."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.store = opened(Path(self.home.name) / "qm")
        self.committed: dict[bytes, bytes] = {}
        self.changed: dict[bytes, bytes] = {}
        self.is_open = False
        self.pinned: dict[bytes, bytes] | None = None

    @precondition(lambda self: not self.is_open)
    @rule()
    def begin(self) -> None:
        self.tx = self.store.begin()
        self.changed, self.is_open = dict(self.committed), True

    @precondition(lambda self: self.is_open)
    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: bytes) -> None:
        self.tx.put(key, value)
        self.changed[key] = value

    @precondition(lambda self: self.is_open)
    @rule(pairs=st.dictionaries(KEYS, VALUES, max_size=3))
    def put_all(self, pairs: dict[bytes, bytes]) -> None:
        self.tx.put_all(sorted(pairs.items()))
        self.changed.update(pairs)

    @precondition(lambda self: self.is_open)
    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        self.tx.delete(key)
        self.changed.pop(key, None)

    @precondition(lambda self: self.is_open)
    @rule(is_commit=st.booleans())
    def end(self, *, is_commit: bool) -> None:
        if is_commit:
            self.store.commit()
            self.committed = self.changed
        else:
            self.store.abort()
        self.is_open = False

    @rule()
    def kill(self) -> None:
        directory = killed(self.store, Path(self.home.name))
        self.store.abort()
        self.store.close()
        self.store, self.is_open = opened(directory), False

    @precondition(lambda self: not self.is_open)
    @rule()
    def close(self) -> None:
        """Stops cleanly. The store then needs no journal, and may be used without one."""
        self.store.close()
        (self.store.directory / "store" / FILE).unlink()
        self.store = opened(self.store.directory)

    @rule()
    def switch_off(self) -> None:
        """Kills, starts without a journal, and starts with one."""
        directory = killed(self.store, Path(self.home.name))
        self.store.abort()
        self.store.close()
        plain = open_store(directory, MAP_BYTES, DurabilityConfig(journal=False))
        assert rows(plain) == self.committed
        assert not (directory / "store" / FILE).exists()
        put(plain, z=b"plain")
        self.committed[b"\x10z"] = b"plain"
        plain.close()
        self.store, self.is_open = opened(directory), False

    @precondition(lambda self: not self.is_open)
    @rule()
    def snapshot(self) -> None:
        pin = self.store.pin()
        path = Path(self.home.name) / "snapshot"
        with path.open("wb") as file:
            pin.copy_to(file.fileno())
        pin.release()
        self.pinned = dict(self.committed)

    @precondition(lambda self: self.pinned is not None and not self.is_open)
    @rule(is_clean=st.booleans())
    def restore(self, *, is_clean: bool) -> None:
        """Restores the snapshot in place, next to the journal of later turns."""
        directory = self.store.directory
        if is_clean:
            self.store.close()
        else:
            directory = killed(self.store, Path(self.home.name))
            self.store.close()
        shutil.copy(Path(self.home.name) / "snapshot", directory / "store" / "data.mdb")
        self.store = opened(directory)
        assert self.pinned is not None
        self.committed = dict(self.pinned)

    @invariant()
    def has_the_committed_rows(self) -> None:
        if not self.is_open:
            assert rows(self.store) == self.committed

    def teardown(self) -> None:
        self.store.close()
        self.home.cleanup()


Killed.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestKilled = Killed.TestCase


def test_turns_are_in_the_journal_until_a_checkpoint(tmp_path: Path, store: JournalStore) -> None:
    put(store, a=b"1")  # The first turn is a checkpoint.
    for number in range(3):
        put(store, b=b"%d" % number)
    again = opened(killed(store, tmp_path))
    assert rows(again) == {b"\x10a": b"1", b"\x10b": b"2"}
    assert again.replayed == 3
    again.close()


def test_turn_without_changes_writes_nothing(store: JournalStore) -> None:
    put(store, a=b"1")
    before = (store.directory / "store" / FILE).read_bytes()
    tx = store.begin()
    tx.delete(b"\x10missing")
    store.commit()
    assert (store.directory / "store" / FILE).read_bytes() == before


def test_missing_journal_of_a_killed_daemon_is_refused(tmp_path: Path, store: JournalStore) -> None:
    put(store, a=b"1")
    put(store, a=b"2")
    directory = killed(store, tmp_path)
    (directory / "store" / FILE).unlink()
    for _ in range(2):
        again = opened(directory)
        with pytest.raises(StoreFailed, match="journal is missing, so the turns after 1 may be"):
            again.begin()
        again.close()
    (directory / "qmgrd.lock").unlink()
    again = opened(directory)
    assert rows(again) == {b"\x10a": b"1"}
    again.close()


def test_damaged_journal_is_refused_and_nothing_changes(
    tmp_path: Path, store: JournalStore
) -> None:
    put(store, a=b"1")
    for number in range(3):
        put(store, b=b"%d" % number)
    directory = killed(store, tmp_path)
    file = directory / "store" / FILE
    data = bytearray(file.read_bytes())
    data[BLOCK_BYTES] ^= 1
    file.write_bytes(data)
    for _ in range(2):
        again = opened(directory)
        with pytest.raises(StoreFailed, match=r"turn 3 is damaged or missing, but .* turn 4"):
            again.begin()
        again.close()


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_failed_write_of_a_record_has_an_unknown_outcome(
    tmp_path: Path, store: JournalStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    put(store, a=b"1")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StoreFailed, match="the outcome of a turn is unknown"):
            put(store, a=b"2")
    store.abort()
    with pytest.raises(StoreFailed, match="start the daemon again"):
        store.begin()
    again = opened(killed(store, tmp_path))
    assert rows(again)[b"\x10a"] in (b"1", b"2")
    again.close()


def test_record_that_takes_longer_than_a_flush_is_a_checkpoint(tmp_path: Path) -> None:
    store = JournalStore(tmp_path / "qm", MAP_BYTES, 1 << 20)
    put(store, a=b"1")
    assert store._flush.seconds > 0
    flush_s = store._flush.seconds = 200_000 * flush_time.RECORD_S_PER_BYTE
    put(store, b=bytes(190_000))
    assert store._stored == 1
    store._flush.seconds = flush_s
    put(store, b=bytes(210_000))
    assert store._stored == store._number == 3
    tx = store.begin()
    for number in range(5_000):  # The size is estimated from a sample.
        tx.put(b"\x10%d" % number, bytes(200))
    store.commit()
    assert store._stored == 4
    store.close()


def test_failed_last_checkpoint_is_reported_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path / "qm")
    put(store, a=b"1")
    with monkeypatch.context() as patch:

        def fail(self: LmdbStore) -> None:
            raise StoreFailed("the disk failed")

        patch.setattr(LmdbStore, "commit", fail)
        with pytest.raises(StoreFailed, match="the disk failed; no acknowledged message is lost"):
            store.close()
    again = opened(tmp_path / "qm")
    assert rows(again) == {b"\x10a": b"1"}
    again.close()


def test_large_turn_is_a_checkpoint(store: JournalStore) -> None:
    put(store, a=b"1")
    before = (store.directory / "store" / FILE).read_bytes()
    put(store, b=bytes(FILE_BYTES))
    assert store._stored == store._number == 2
    assert (store.directory / "store" / FILE).read_bytes() == before


def test_row_of_the_checkpoint_is_sealed(store: JournalStore) -> None:
    put(store, a=b"1")
    tx = store.begin()
    assert tx.get(keys.CHECKPOINT) is not None
    store.commit()


def test_kill_during_a_snapshot_loses_nothing(
    tmp_path: Path, store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store then says that it needs no journal, which is true."""
    for number in range(3):
        put(store, a=b"%d" % number)
    with monkeypatch.context() as patch:
        patch.setattr(JournalStore, "_begun", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.pin()
    again = opened(killed(store, tmp_path))
    assert rows(again) == {b"\x10a": b"2"}
    assert again.replayed == 0
    again.close()


def test_snapshot_in_a_new_directory_needs_no_journal(tmp_path: Path, store: JournalStore) -> None:
    put(store, a=b"1")
    put(store, a=b"2")
    pin = store.pin()
    path = tmp_path / "new" / "store" / "data.mdb"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        pin.copy_to(file.fileno())
    pin.release()
    again = opened(tmp_path / "new")
    assert rows(again) == {b"\x10a": b"2"}
    again.close()


def test_full_disk_refuses_the_first_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    store = opened(tmp_path / "qm")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StoreFailed, match="store/journal: No space left on device"):
            store.begin()
    put(store, a=b"1")
    store.close()


def test_nearly_full_store_makes_each_turn_a_checkpoint(tmp_path: Path) -> None:
    """LMDB needs a free page for each changed page, and reuses a page after two commits only."""
    small = disk_store(tmp_path / "qm", 2 << 20, FILE_BYTES)
    put(small, a=bytes(1 << 20))
    for number in range(600):
        put(small, **{f"b{number % 7}": bytes(900)})
        space = small.space()
    assert small._stored >= small._number - 30
    assert space.used_bytes < 2 << 20
    small.close()


def test_space_has_the_turns_since_the_checkpoint(store: JournalStore) -> None:
    put(store, a=b"1")
    before = store.space().used_bytes
    put(store, b=bytes(3 * 4096))
    assert store.space().used_bytes >= before + 3 * 4096
