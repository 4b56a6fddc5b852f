"""Stores on disk for tests of the core: opened, killed, and opened again."""

from pathlib import Path

from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import LmdbStore

JOURNAL_BYTES = 1 << 20


class RecordingStore(JournalStore):
    """A store that makes records where a fast disk would make checkpoints instead."""

    def _is_worth_a_record(self, changes: list[bytes | None]) -> bool:
        return True


def disk_store(
    directory: Path, map_bytes: int, journal_bytes: int = JOURNAL_BYTES
) -> RecordingStore:
    """Returns a store with a journal that is small, so that tests write it quickly."""
    return RecordingStore(directory, map_bytes, journal_bytes)


def reopened(store: LmdbStore) -> LmdbStore:
    """Returns the store as a new process finds it after a kill."""
    if not isinstance(store, JournalStore):
        store.close()
        return LmdbStore(store.directory, store.map_bytes)
    if store._journal is not None:
        store._journal.close()
    LmdbStore.close(store)  # without the last checkpoint
    return disk_store(store.directory, store.map_bytes)
