"""Tests that a start checks whether the store belongs to the queue manager."""

import pytest

from qmgrd.core.catalogue.boot import StoreForeign, boot
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import SECRET, AnyStore, Manager


def test_new_store_takes_the_id_it_is_given(store: AnyStore, manager: Manager) -> None:
    assert manager.boot.store_id == b"S" * 16
    manager.crash()
    assert boot(manager.store.begin(), "QM1", b"other" * 3 + b"x", SECRET).store_id == b"S" * 16
    manager.store.abort()


def test_secret_is_made_once_and_stays(manager: Manager) -> None:
    """Each start provides different random bytes."""
    secret = manager.boot.secret
    assert secret == SECRET
    manager.crash()
    assert manager.boot.secret == secret


@pytest.mark.parametrize("found", [None, b"", b"short"])
def test_store_without_a_secret_is_given_one(manager: Manager, found: bytes | None) -> None:
    """An older version wrote stores without a secret."""
    tx = manager.store.begin()
    tx.delete(keys.SECRET)
    if found is not None:
        rows.put(tx, keys.SECRET, found)
    manager.store.commit()
    manager.crash()
    assert manager.boot.secret == bytes(32)  # The harness passes these bytes to each later start.
    manager.crash()
    assert manager.boot.secret == bytes(32)


def test_secret_is_never_sent_to_peers(manager: Manager) -> None:
    boot = manager.boot
    assert boot.secret not in (boot.salt * 2, boot.store_id * 2)
    assert boot.secret[:16] not in manager.connect().session


def test_store_of_another_queue_manager_is_refused_and_left_alone() -> None:
    store = Manager(name="A").store
    before = dict(store.rows)
    with pytest.raises(
        StoreForeign, match="belongs to queue manager A, but the configuration names B"
    ):
        Manager(store, name="B")
    assert dict(store.rows) == before


@pytest.mark.parametrize("version", [0, keys.FORMAT + 1])
def test_store_of_another_format_is_refused_and_left_alone(version: int) -> None:
    store = Manager().store
    tx = store.begin()
    tx.put(keys.STORE, keys.STORE_ROW.pack(b"S" * 16, version, 1) + b"QM1")
    store.commit()
    before = dict(store.rows)
    with pytest.raises(
        StoreForeign, match=f"has format {version}, but this qmgrd reads {keys.FORMATS_READ_TEXT}"
    ):
        Manager(store)
    assert dict(store.rows) == before


def test_store_of_the_previous_format_is_changed_to_the_present_one() -> None:
    store = Manager().store
    tx = store.begin()
    rows.put(tx, keys.STORE, keys.STORE_ROW.pack(b"S" * 16, keys.FORMAT - 1, 1) + b"QM1")
    store.commit()
    Manager(store)
    assert keys.STORE_ROW.unpack_from(store.rows[keys.STORE])[1] == keys.FORMAT


def test_store_of_something_else_is_refused_and_left_alone() -> None:
    store = MemoryStore()
    store.begin().put(b"somebody", b"else")
    store.commit()
    with pytest.raises(StoreForeign, match="not empty, and qmgrd did not create it"):
        Manager(store)
    assert dict(store.rows) == {b"somebody": b"else"}


def test_default_name_is_not_blamed_on_a_configuration() -> None:
    tx = MemoryStore()
    boot(tx, "NYC", b"S" * 16, SECRET)
    words = "belongs to queue manager NYC, and no name is configured: give --name NYC"
    with pytest.raises(StoreForeign, match=words):
        boot(tx, "QM1", b"S" * 16, SECRET, is_named=False)
    assert boot(tx, "NYC", b"S" * 16, SECRET, is_named=False).number == 2
