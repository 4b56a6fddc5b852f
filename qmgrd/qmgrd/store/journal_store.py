"""A store whose turns a redo journal makes durable; LMDB's transaction stays open over many turns.

    turn 18 ─▶ changes in the open transaction ─▶ record 18 on disk ─▶ outcome of turn 18
    turn 19 ─▶ ...
    turn 30 ─▶ changes in the open transaction ─▶ checkpoint: LMDB commits turns 18 to 30, and
               the number 30 ─▶ outcome of turn 30; the journal begins again

A checkpoint takes the place of the record of its turn. It is due when the records since the last
one reach a number of bytes. After each checkpoint, this number is changed so that the next one
takes as long as wanted: CHECKPOINT_S, or the time of FLUSHES flushes where the disk is slow. It is
also due if the pages that the turns may have changed need more than a share of the free space,
because LMDB writes each changed page to a free place. So in a nearly full store, each turn is a
checkpoint. So is a turn whose record does not fit into the journal, or would take longer than the
flush that it saves: LMDB flushes twice, but it writes each message only once.

An abort discards the open transaction with all turns since the checkpoint. The next turn replays
them from the journal, as a start does.
"""

import os
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, cast

import lmdb

from qmgr_config.model import DurabilityConfig
from qmgrd.core.layout.kv import Space, StoreFailed
from qmgrd.core.layout.row import RowDamaged
from qmgrd.core.limits.room import PAGE_BYTES
from qmgrd.store.checkpoint import (
    Checkpoint,
    apply,
    content_of,
    finish_journal,
    read_checkpoint,
    write_checkpoint,
)
from qmgrd.store.journal import (
    EPOCH_BYTES,
    FILE,
    JournalFile,
    JournalMissing,
    JournalUnreadable,
    create_journal,
)
from qmgrd.store.lmdb_store import LOCK_FILE, LmdbStore, LmdbTransaction, Pin

CHECKPOINT_S = 0.006
FLUSHES = 4
RECORD_S_PER_BYTE = 1e-9  # the time of a record without its flush: to pack, check and copy it
SAMPLE = 512  # keys and values whose sizes are added to estimate the size of a record
LIMIT_LEAST_BYTES = 256 << 10  # records between two checkpoints, at least
FREE_SHARE = 4  # bytes of free space per byte of pages that the open transaction may have changed
PAGES_PER_CHANGE = 2  # pages that the change of one row may change: the leaf, and one above it


class RecordedTransaction(LmdbTransaction):
    """The open transaction, which keeps the changes of the turn for its record."""

    __slots__ = ("apply_delete", "apply_put", "changes")

    def __init__(self, txn: lmdb.Transaction) -> None:
        super().__init__(txn)
        # Keys and values in turns. The value of a deleted key is None.
        self.changes: list[bytes | None] = []
        keep, put, delete = self.changes.append, txn.put, txn.delete

        def put_and_keep(key: bytes, value: bytes) -> None:
            put(key, value)
            keep(key)
            keep(value)

        def delete_and_keep(key: bytes) -> None:
            if delete(key):
                keep(key)
                keep(None)

        self.put, self.delete = put_and_keep, delete_and_keep
        self.apply_put, self.apply_delete = put, delete

    def stat(self, db: Any) -> dict[str, int]:
        """Returns LMDB's statistics of *db* in this transaction, under LMDB's names."""
        return cast("dict[str, int]", self._txn.stat(db))

    def put_all(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Stores many pairs in one call."""
        super().put_all(pairs)
        self.changes.extend(chain.from_iterable(pairs))


class JournalStore(LmdbStore):
    """An LMDB store with a redo journal.

    Invariant: ``_number`` is the last turn that is durable, in the store or in the journal. If the
    transaction ``_open`` exists, it has all turns up to this one. The journal has all turns since
    the last checkpoint, ``_stored``.
    """

    def __init__(self, directory: Path, map_bytes: int, journal_bytes: int) -> None:
        """Opens or creates the store in *directory*, which only this process may use.

        Args:
            directory: The data directory.
            map_bytes: The maximum size of the store.
            journal_bytes: The size of the journal's file, if the first turn must create it.

        Raises:
            StoreLocked, StoreMissing, StoreIsSnapshot, StoreUnreadable, OSError: See
                :class:`LmdbStore`.
        """
        self._was_used = (directory / LOCK_FILE).exists()
        super().__init__(directory, map_bytes)
        self._path, self._journal_bytes = directory / "store" / FILE, journal_bytes
        self._main = self._env.open_db(None)  # the only database; a transaction has its size
        self._journal: JournalFile | None = None
        self._open: RecordedTransaction | None = None
        self._is_turn = self._is_failed = False
        self._epoch = b""  # the epoch of this start, or b"" before the first checkpoint
        self._number = self._stored = 0
        # The records since the last checkpoint, their changes, and the limit of the records.
        self._since_bytes = self._since_changes = 0
        self._limit_bytes = LIMIT_LEAST_BYTES
        self._flush_s = 0.0  # the time of a flush, as a moving average of short records
        self._free_bytes = map_bytes  # the free space when it was last asked for

    def begin(self) -> RecordedTransaction:
        """Opens the transaction of a turn.

        Raises:
            StoreReplaced: The file of the store was removed. Committed data would be lost.
            StoreFailed: The store or its journal failed.
        """
        assert not self._is_turn, "a transaction is open"
        if self._is_failed:
            raise StoreFailed("the store failed before: start the daemon again")
        self._check_file()
        if self._open is None:
            self._open = self._begun()
        self._open.rows_used = 0
        self._is_turn = True
        return self._open

    def commit(self) -> None:
        """Returns after the turn is on disk.

        Raises:
            StoreFailed: Whether the turn was stored is unknown. The store can only be closed.
        """
        tx, self._is_turn = self._open, False
        assert tx is not None, "commit without begin"
        if not tx.changes:
            return
        assert self._journal is not None, "commit without begin"
        self._number += 1
        self._since_changes += len(tx.changes) // 2
        if self._is_due():
            self._checkpoint()
        elif not self._is_worth_a_record(tx.changes) or not self._is_recorded(tx.changes):
            self._commit()
        tx.changes.clear()

    def abort(self) -> None:
        """Discards the turn. The next turn replays those since the last checkpoint."""
        self._is_turn, self._open = False, None
        super().abort()

    def pin(self, give_up: Callable[[], None] = lambda: None) -> Pin:
        """Pins the last turn for a copy. See :meth:`LmdbStore.pin`.

        The copy says that it needs no journal. So it can replace a store that has one.
        """
        self._open = self._open or self._begun()
        self._commit(is_last=True)
        pin = super().pin(give_up)
        try:
            self._open = self._begun()
            self._commit()
        except BaseException:
            pin.release()
            raise
        return pin

    def close(self) -> None:
        """Closes the store, after the last checkpoint.

        If a turn failed, or none was committed, the store and its journal stay as they are.
        """
        try:
            if self._epoch and not (self._is_turn or self._is_failed):
                self._open = self._open or self._begun()
                self._commit(is_last=True)
        except StoreFailed:  # The journal has all turns.
            pass
        finally:
            if self._journal is not None:
                self._journal.close()
            super().close()

    def _space(self) -> Space:
        space = super()._space()
        self._free_bytes = min(
            space.map_bytes - space.used_bytes, space.disk_free_bytes + space.file_free_bytes
        )
        return space

    def _stat(self) -> dict[str, int]:
        if self._open is None:
            return super()._stat()
        return self._open.stat(self._main)

    def _check_file(self) -> None:
        super()._check_file()
        if self._journal is not None and self._journal.is_removed():
            # The close makes the last checkpoint, so nothing is lost.
            raise StoreFailed(f"{self._path} was removed while the daemon was running")

    def _is_worth_a_record(self, changes: list[bytes | None]) -> bool:
        """Returns whether a record probably takes less time than the flush that it saves."""
        step = len(changes) // SAMPLE + 1 | 1  # odd, so that keys and values are sampled
        size = step * sum(map(len, filter(None, changes[::step])))
        return size * RECORD_S_PER_BYTE < self._flush_s

    def _is_recorded(self, changes: list[bytes | None]) -> bool:
        """Appends the record of the turn, and returns whether the journal has room for it."""
        assert self._journal is not None
        content = content_of(changes)
        self._since_bytes += len(content)
        start_s = time.perf_counter()
        try:
            is_written = self._journal.append(self._number, content)
        except OSError as error:
            self._is_failed = True
            raise StoreFailed(f"the outcome of a turn is unknown: {error}") from error
        took_s = time.perf_counter() - start_s - len(content) * RECORD_S_PER_BYTE
        self._flush_s += (took_s - self._flush_s) / 8
        return is_written

    def _is_due(self) -> bool:
        if not self._epoch or self._since_bytes >= self._limit_bytes:
            return True
        pages = self._since_changes * PAGES_PER_CHANGE + self._since_bytes // PAGE_BYTES
        return pages * PAGE_BYTES * FREE_SHARE > self._free_bytes

    def _begun(self) -> RecordedTransaction:
        """Returns a new transaction with all turns that are durable."""
        super().begin()
        assert self._txn is not None
        tx = RecordedTransaction(self._txn)
        try:
            self._replay(tx)
        except (OSError, JournalUnreadable) as error:
            super().abort()
            why = f"{self._path}: {error.strerror}" if isinstance(error, OSError) else str(error)
            raise StoreFailed(why) from error
        except BaseException:
            super().abort()
            raise
        return tx

    def _replay(self, tx: RecordedTransaction) -> None:
        if self._epoch and self._number == self._stored:
            return  # The journal is empty.
        checkpoint = read_checkpoint(tx) or Checkpoint(b"", 0, is_last=True)
        self._number = self._stored = checkpoint.number
        journal = self._opened(checkpoint)
        if checkpoint.is_last:
            return
        for number, content in journal.replay(checkpoint.epoch, self._stored):
            self._number = number
            apply(content, tx.apply_put, tx.apply_delete)
        self.replayed = self._number - self._stored

    def _opened(self, checkpoint: Checkpoint) -> JournalFile:
        if self._journal is None:
            if not self._path.exists():
                if self._was_used and not checkpoint.is_last:
                    raise JournalMissing(self._path, checkpoint.number)
                create_journal(self._path, self._journal_bytes)
            self._journal = JournalFile(self._path)
        return self._journal

    def _measure(self) -> None:
        assert self._journal is not None
        try:
            self._flush_s = self._journal.flush_s()
        except OSError as error:
            self._is_failed = True
            raise StoreFailed(f"the journal cannot be written: {error}") from error

    def _checkpoint(self) -> None:
        """Commits the open transaction, so that the journal can begin again."""
        assert self._journal is not None
        start_s = time.perf_counter()
        self._commit()
        took_s = time.perf_counter() - start_s
        wanted_s = max(CHECKPOINT_S, self._flush_s * FLUSHES)
        limit = int(self._limit_bytes * min(max(wanted_s / took_s, 0.25), 2.0))
        most = self._journal.size_bytes // 2
        self._limit_bytes = min(max(limit, LIMIT_LEAST_BYTES), most)

    def _commit(self, *, is_last: bool = False) -> None:
        tx, self._open = self._open, None
        assert tx is not None
        assert self._journal is not None
        epoch = self._epoch or os.urandom(EPOCH_BYTES)
        write_checkpoint(tx, Checkpoint(epoch, self._number, is_last))
        self._is_failed = True
        super().commit()
        self._is_failed = False
        self._journal.trim(epoch)
        if not self._epoch:
            self._measure()
        self._epoch, self._stored = epoch, self._number
        self._since_bytes = self._since_changes = 0


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
