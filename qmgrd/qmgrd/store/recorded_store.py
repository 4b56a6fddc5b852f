"""An LMDB store whose transaction stays open over many turns. A record makes each one durable.

    turn 18 ─▶ changes in the open transaction ─▶ record 18 is durable ─▶ outcome of turn 18
    turn 19 ─▶ ...
    checkpoint: LMDB commits all turns since the last one, and the number of the last record

The subclasses write the records to a local file (journal_store.py), or to a server
(logged_store.py).

A checkpoint is due when the records since the last one reach a number of bytes. After each
checkpoint, this number is changed so that the next one takes as long as wanted: CHECKPOINT_S, or
the time of FLUSHES flushes where a record takes long. It is also due if the pages that the turns
may have changed need more than a share of the free space, because LMDB writes each changed page to
a free place. So in a nearly full store, each turn is a checkpoint.
"""

from abc import ABC, abstractmethod
from pathlib import Path

from qmgrd.core.layout.kv import Space, StoreFailed
from qmgrd.core.limits.room import PAGE_BYTES
from qmgrd.store.flush_time import FlushTime
from qmgrd.store.lmdb_store import LmdbStore
from qmgrd.store.recorded import RecordedTransaction, size_of

CHECKPOINT_S = 0.002
FLUSHES = 4
LIMIT_LEAST_BYTES = 256 << 10  # records between two checkpoints, at least
# Turns wait for a record that is on its way longer. Otherwise, outcomes would fill the memory while
# the disk hangs.
FLIGHT_MAX_S = 0.25
# After a record has landed, the next one waits for this part of a flush. Otherwise, the puts that
# follow the answers would miss it, and only every second record would have puts of a client.
GATHER_SHARE = 4
FREE_SHARE = 4  # bytes of free space per byte of pages that the open transaction may have changed
PAGES_PER_CHANGE = 2  # pages that the change of one row may change: the leaf, and one above it


class RecordedStore(LmdbStore, ABC):
    """The open transaction, and the changes of the turns that have no record yet.

    Invariant: ``_number`` is the last record that was begun. The transaction ``_open``, if it
    exists, has its turns, and those that wait for the next record (``_waiting``). LMDB has the
    turns up to record ``_stored``.
    """

    def __init__(self, directory: Path, map_bytes: int) -> None:
        super().__init__(directory, map_bytes)
        self._main = self._env.open_db(None)  # the only database; a transaction has its size
        self._open: RecordedTransaction | None = None
        self._is_turn = self._is_failed = False
        self._number = self._stored = 0
        # The records since the last checkpoint, their changes, and the limit of the records.
        self._since_bytes = self._since_changes = 0
        self._limit_bytes = LIMIT_LEAST_BYTES
        self._flush = FlushTime()
        self._free_bytes = map_bytes  # the free space when it was last asked for
        # The changes of the turns that wait for the next record, and their size.
        self._waiting: list[bytes | None] = []
        self._waiting_bytes = 0

    @abstractmethod
    def _replay(self, tx: RecordedTransaction) -> None:
        """Makes the changes of the records that LMDB does not have in *tx*.

        Raises:
            StoreFailed: The records cannot be read.
        """

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

    def abort(self) -> None:
        """Discards the turn, and those that have no record yet.

        The next turn replays the records since the last checkpoint.
        """
        self._is_turn, self._open = False, None
        self._forget_waiting()
        super().abort()

    def _begun(self) -> RecordedTransaction:
        """Returns a new transaction with the turns of all records."""
        super().begin()
        assert self._txn is not None
        tx = RecordedTransaction(self._txn)
        try:
            self._replay(tx)
        except BaseException:
            super().abort()
            raise
        return tx

    def _end_turn(self, *, waits: bool) -> None:
        """Moves the changes of the turn to those of the next record.

        Args:
            waits: Whether this record must wait, so that the size of the changes is needed.
        """
        tx, self._is_turn = self._open, False
        assert tx is not None, "commit without begin"
        self._since_changes += len(tx.changes) // 2
        self._waiting_bytes += size_of(tx.changes) if waits else 0
        self._waiting += tx.changes
        tx.changes.clear()

    def _forget_waiting(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0

    def _failed(self, error: Exception) -> StoreFailed:
        self._is_failed = True
        return StoreFailed(f"the outcome of a turn is unknown: {error}")

    def _is_due(self) -> bool:
        """Returns whether a checkpoint is due."""
        since_bytes = self._since_bytes + self._waiting_bytes
        if since_bytes >= self._limit_bytes:
            return True
        pages = self._since_changes * PAGES_PER_CHANGE + since_bytes // PAGE_BYTES
        return pages * PAGE_BYTES * FREE_SHARE > self._free_bytes

    def _took(self, checkpoint_s: float, most_bytes: int) -> None:
        """Sets the limit of the records from the time of a checkpoint, up to *most_bytes*."""
        wanted_s = max(CHECKPOINT_S, self._flush.seconds * FLUSHES)
        limit = int(self._limit_bytes * min(max(wanted_s / checkpoint_s, 0.25), 2.0))
        self._limit_bytes = min(max(limit, LIMIT_LEAST_BYTES), most_bytes)

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
