"""Tests that both stores have the properties that the core requires."""

from pathlib import Path

import pytest

from qmgrd.core.layout.kv import Now, Space, Store
from qmgrd.store.lmdb_store import LmdbStore
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import AnyStore


def rows(store: Store) -> list[tuple[bytes, bytes]]:
    tx = store.begin()
    try:
        return list(tx.scan(b"\1", b"\xff" * 16))  # without the row of a checkpoint
    finally:
        store.abort()


def test_transaction_sees_its_own_writes_in_order(store: AnyStore) -> None:
    tx = store.begin()
    for key in (b"b", b"c", b"a"):
        tx.put(key, key * 2)
    tx.put(b"b", b"new")
    tx.delete(b"c")
    tx.delete(b"never there")
    assert tx.get(b"b") == b"new"
    assert tx.get(b"c") is None
    assert list(tx.scan(b"a", b"z")) == [(b"a", b"aa"), (b"b", b"new")]
    store.commit()
    assert rows(store) == [(b"a", b"aa"), (b"b", b"new")]


@pytest.mark.parametrize(
    ("start", "stop", "found"),
    [
        (b"a", b"c", b"ab"),
        (b"b", b"c", b"b"),
        (b"aa", b"d", b"bc"),
        (b"d", b"e", b""),
        (b"c", b"a", b""),
        (b"b", b"b", b""),
    ],
)
def test_scan_ends_before_its_stop(
    store: AnyStore, start: bytes, stop: bytes, found: bytes
) -> None:
    tx = store.begin()
    for key in (b"a", b"b", b"c"):
        tx.put(key, b"")
    assert b"".join(key for key, _ in tx.scan(start, stop)) == found
    store.abort()


def test_abort_forgets_the_transaction(store: AnyStore) -> None:
    tx = store.begin()
    tx.put(b"kept", b"1")
    tx.put(b"deleted", b"2")
    store.commit()
    tx = store.begin()
    tx.put(b"new", b"x")
    tx.put(b"kept", b"x")
    tx.delete(b"deleted")
    store.abort()
    store.abort()
    assert rows(store) == [(b"deleted", b"2"), (b"kept", b"1")]


def test_scan_may_be_dropped_before_its_end(store: AnyStore) -> None:
    tx = store.begin()
    for key in (b"a", b"b", b"c"):
        tx.put(key, b"")
    for key, _ in tx.scan(b"a", b"z"):
        assert key == b"a"
        break
    tx.delete(b"a")
    assert [key for key, _ in tx.scan(b"a", b"z")] == [b"b", b"c"]
    store.abort()


def test_space_grows_with_what_is_stored(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, 1 << 22)
    tx = store.begin()
    for i in range(200):
        tx.put(b"%d" % i, bytes(1000))
    store.commit()
    space = store.space()
    store.close()
    assert 200_000 < space.used_bytes < space.map_bytes == 1 << 22
    assert space.disk_free_bytes > 0


def test_plain_values_are_tuples() -> None:
    assert Space(1, 2, 3, 4, 5) == (1, 2, 3, 4, 5)
    assert Now(1, 2).ms == 1


def test_memory_store_counts_a_flush_only_after_a_write() -> None:
    store = MemoryStore()
    store.begin()
    store.commit()
    assert store.flushes == 0
    store.begin().put(b"a", b"")
    store.commit()
    assert store.flushes == 1
