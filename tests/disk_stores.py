"""Stores on disk for tests of the core: opened, killed, and opened again."""

from pathlib import Path

from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import LmdbStore

JOURNAL_BYTES = 1 << 20


def disk_store(directory: Path, map_bytes: int) -> JournalStore:
    """Returns a store with a journal that is small, so that tests write it quickly."""
    return JournalStore(directory, map_bytes, JOURNAL_BYTES)


def reopened(store: LmdbStore) -> LmdbStore:
    """Returns the store as a new process finds it after a kill."""
    if not isinstance(store, JournalStore):
        store.close()
        return LmdbStore(store.directory, store.map_bytes)
    if store._journal is not None:
        store._journal.close()
    LmdbStore.close(store)  # without the last checkpoint
    return disk_store(store.directory, store.map_bytes)
