"""Opens a store with a journal or without one."""

from pathlib import Path

import lmdb

from qmgr_config.model import DurabilityConfig
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.core.layout.row import RowDamaged
from qmgrd.store.checkpoint import finish_journal
from qmgrd.store.journal import FILE, JournalUnreadable
from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import LOCK_FILE, LmdbStore


def open_store(directory: Path, map_bytes: int, durability: DurabilityConfig) -> LmdbStore:
    """Opens or creates the store in *directory*, with a journal or without one.

    Without a journal, the turns of an earlier journal are stored, and its file is removed.

    Raises:
        StoreLocked, StoreMissing, StoreIsSnapshot, StoreUnreadable, OSError: See
            :class:`LmdbStore`.
        StoreFailed: The turns of an earlier journal cannot be stored.
    """
    if durability.journal:
        return JournalStore(directory, map_bytes, durability.journal_bytes)
    was_used = (directory / LOCK_FILE).exists()
    store = LmdbStore(directory, map_bytes)
    folder = directory / "store"
    try:
        store.replayed = finish_journal(store.begin(), folder, was_used=was_used)
        store.commit()
        (folder / FILE).unlink(missing_ok=True)
    except (JournalUnreadable, RowDamaged, OSError, lmdb.Error) as error:
        store.close()
        raise StoreFailed(str(error)) from error
    return store
