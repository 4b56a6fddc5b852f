"""Tests of the deletion of body rows that no message owns."""

from qmgrd.core.layout import keys
from qmgrd.core.layout.unused_bodies import UnusedBodies
from tests.memory_store import MemoryStore


def filled(counts: dict[int, int]) -> MemoryStore:
    """Returns an open store with bodies, as numbers of rows by id, and their marks."""
    store = MemoryStore()
    store.begin()
    for body_id, count in counts.items():
        store.put(keys.unowned(body_id), b"")
        for chunk in range(count):
            store.put(keys.body(body_id, chunk), b"x")
    return store


def left(store: MemoryStore) -> tuple[int, int]:
    """Returns the numbers of rows and of marks."""
    found = [key[:1] for key, _ in store.scan(b"", b"\xff")]
    return found.count(keys.SPACE_BODY), found.count(keys.SPACE_UNOWNED)


def test_rows_are_deleted_in_slices_and_the_mark_at_the_end() -> None:
    store, bodies = filled({1: 10, 2: 3}), UnusedBodies()
    bodies.add(1)
    bodies.delete_slice(store, 4)
    assert left(store) == (9, 2)
    assert bodies.busy
    bodies.delete_slice(store, 4)
    bodies.delete_slice(store, 4)
    assert left(store) == (3, 1)
    assert not bodies.busy


def test_slice_may_delete_several_bodies() -> None:
    store, bodies = filled({1: 2, 2: 2, 3: 2}), UnusedBodies()
    for body_id in (1, 2, 3):
        bodies.add(body_id)
    bodies.delete_slice(store, 7)
    assert left(store) == (1, 1)
    bodies.delete_slice(store, 7)
    assert left(store) == (0, 0)


def test_rows_of_a_removed_message_are_marked() -> None:
    store, bodies = filled({}), UnusedBodies()
    store.put(keys.body(1, 0), b"x")
    bodies.disown(store, 1)
    assert left(store) == (1, 1)
    bodies.delete_slice(store, 9)
    assert left(store) == (0, 0)


def test_start_finds_the_marked_bodies() -> None:
    store, bodies = filled({5: 1, 1 << 63: 2}), UnusedBodies()
    store.put(keys.body(6, 0), b"of a message")
    bodies.load(store)
    bodies.delete_slice(store, 100)
    assert left(store) == (1, 0)


def test_body_without_rows_loses_its_mark() -> None:
    store, bodies = filled({1: 0}), UnusedBodies()
    bodies.load(store)
    bodies.delete_slice(store, 1)
    assert left(store) == (0, 0)
    assert not bodies.busy
