"""Tests that the store in memory behaves like those on disk, and fails where a test wants it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Space, Store, Transaction
from qmgrd.store.lmdb_store import LmdbStore
from tests.disk_stores import disk_store, reopened
from tests.memory_store import MemoryStore

ALL = (b"", b"\xff" * 600)
# The keys are few, so that they collide. Some are prefixes of others, and one has the maximum
# length.
KEYS = st.one_of(
    st.binary(min_size=1, max_size=2).filter(lambda key: key != keys.CHECKPOINT),
    st.sampled_from([b"\x10", b"\x10\x00", b"\x10\xff", b"\xff", b"k" * 511]),
)
VALUES = st.one_of(st.binary(max_size=5), st.sampled_from([b"v" * 2000, b"w" * 4000, b"x" * 9000]))


def without_checkpoint(pairs: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yields *pairs* without the row that only a store with a journal has."""
    return (pair for pair in pairs if pair[0] != keys.CHECKPOINT)


class AllStores(RuleBasedStateMachine):
    """Performs the same operations on all stores, and compares all visible results."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.stores: list[Store] = [
            MemoryStore(),
            LmdbStore(Path(self.directory.name) / "lmdb", 1 << 30),
            disk_store(Path(self.directory.name) / "journal", 1 << 30),
        ]
        self.open: list[Transaction] = []

    @initialize()
    def start(self) -> None:
        self.begin()

    @precondition(lambda self: not self.open)
    @rule()
    def begin(self) -> None:
        self.open = [store.begin() for store in self.stores]

    @precondition(lambda self: self.open)
    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: bytes) -> None:
        for tx in self.open:
            tx.put(key, value)

    @precondition(lambda self: self.open)
    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        for tx in self.open:
            tx.delete(key)

    @precondition(lambda self: self.open)
    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        in_memory, *on_disk = (tx.get(key) for tx in self.open)
        for found in on_disk:
            assert in_memory == found
            assert type(in_memory) is type(found)

    @precondition(lambda self: self.open)
    @rule(start=KEYS | st.just(b""), stop=KEYS | st.just(ALL[1]), count=st.integers(1, 9))
    def scan(self, start: bytes, stop: bytes, count: int) -> None:
        """Scans all or part of a range, perhaps with writes during the scan."""
        in_memory, *on_disk = (without_checkpoint(tx.scan(start, stop)) for tx in self.open)
        for _ in range(count):
            expected = next(in_memory, None)
            assert all(next(found, None) == expected for found in on_disk)

    @precondition(lambda self: self.open)
    @rule(end=st.sampled_from(["commit", "abort"]))
    def end(self, end: str) -> None:
        self.open = []
        for store in self.stores:
            getattr(store, end)()
        self.compare()

    @precondition(lambda self: not self.open)
    @rule()
    def abort_without_a_transaction(self) -> None:
        for store in self.stores:
            store.abort()

    @precondition(lambda self: not self.open)
    @rule()
    def reopen(self) -> None:
        self.stores[1:] = [reopened(store) for store in self.stores[1:]]  # type: ignore[arg-type]
        self.compare()

    def compare(self) -> None:
        found = [list(without_checkpoint(store.begin().scan(*ALL))) for store in self.stores]
        for store in self.stores:
            store.abort()
        assert found[0] == found[1] == found[2]

    def teardown(self) -> None:
        for store in self.stores[1:]:
            store.close()  # type: ignore[attr-defined]
        self.directory.cleanup()


AllStores.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAllStores = AllStores.TestCase


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.begin().put(b"a", b"1")
    store.commit()
    return store


def rows(store: MemoryStore) -> dict[bytes, bytes]:
    return dict(store.rows)


def test_flushes_count_the_commits_that_wrote_something(store: MemoryStore) -> None:
    assert store.flushes == 1
    store.begin().get(b"a")
    store.commit()
    store.begin().put(b"b", b"2")
    store.abort()
    assert store.flushes == 1
    store.begin().delete(b"a")
    store.commit()
    assert store.flushes == 2


class PowerCut(Exception):
    """A power cut, raised on request."""


def strike() -> Any:
    raise PowerCut


def test_fault_before_a_commit_leaves_the_store_unchanged(store: MemoryStore) -> None:
    store.before_commit = strike
    store.begin().put(b"a", b"2")
    with pytest.raises(PowerCut):
        store.commit()
    store.abort()  # as after a restart
    assert rows(store) == {b"a": b"1"}


def test_fault_after_a_commit_leaves_the_changes(store: MemoryStore) -> None:
    store.after_commit = strike
    store.begin().put(b"a", b"2")
    with pytest.raises(PowerCut):
        store.commit()
    store.abort()
    assert rows(store) == {b"a": b"2"}


@pytest.mark.parametrize("key", [b"", b"k" * 512])
def test_key_that_lmdb_would_refuse_is_a_bug(store: MemoryStore, key: bytes) -> None:
    with pytest.raises(AssertionError, match="key of"):
        store.begin().put(key, b"")


def test_space_is_set_by_a_test(store: MemoryStore) -> None:
    store.map_bytes, store.disk_free_bytes = 1000, 77
    store.held_bytes, store.file_free_bytes = 500, 3
    assert store.space() == Space(501, 1000, 77, held_bytes=500, file_free_bytes=3)
