"""A store whose turns a redo journal in a local file makes durable.

    turn 18 ─▶ changes in the open transaction ─▶ record 18 on disk ─▶ outcome of turn 18
    turn 19 ─▶ ...
    turn 30 ─▶ changes in the open transaction ─▶ checkpoint: LMDB commits turns 18 to 30, and
               the number 30 ─▶ outcome of turn 30; the journal begins again

Where a flush is slow, turns go on during it. Their outcomes wait:

    record 19 on its way ─▶ turns 20, 21, 22 ─▶ record 19 on disk ─▶ outcome of turn 19
    a quarter of a flush ─▶ turn 23, after that outcome ─▶ record 20, of turns 20 to 23, on its way

The records are written on another thread, one at a time. So the journal never has record *n + 1*
without record *n* (journal.py), and outcomes leave in the order of their turns. If a record fails,
nothing of its turns or of later ones leaves, and the daemon ends.

A checkpoint (recorded_store.py) takes the place of the record of its turn. It waits for the record
on its way. So a turn is a checkpoint if its record does not fit into the journal, or would take
longer than the flush that it saves: LMDB flushes twice, but it writes each message only once.

An abort discards the open transaction with all turns since the checkpoint. The next turn replays
them from the journal, as a start does. Turns that were not on their way to the disk are lost, but
nothing of them has left.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store.checkpoint import Checkpoint, apply, content_of, read_checkpoint, write_checkpoint
from qmgrd.store.journal import (
    EPOCH_BYTES,
    FILE,
    JournalElsewhere,
    JournalFile,
    JournalMissing,
    JournalUnreadable,
    create_journal,
)
from qmgrd.store.lmdb_store import LOCK_FILE, Pin, StoreReplaced
from qmgrd.store.recorded import RecordedTransaction, size_of
from qmgrd.store.recorded_store import FLIGHT_MAX_S, GATHER_SHARE, RecordedStore


class JournalStore(RecordedStore):
    """An LMDB store with a redo journal.

    Invariant: record ``_number`` is durable, or it is on its way as ``_flight``. Turns wait only
    while a record is on its way, or shortly after it has landed (``_gathers``). The journal has all
    records since the last checkpoint.
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
        self._journal: JournalFile | None = None
        self._epoch = b""  # the epoch of this start, or b"" before the first checkpoint
        self._flight: Future[None] | None = None  # the record that is on its way
        self._flight_s = 0.0  # the time when it was sent
        self._gathers = False  # whether the waiting turns wait a little longer
        self._thread: ThreadPoolExecutor | None = None

    def go_ahead(
        self,
        call: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        on_durable: Callable[[StoreFailed | None], None],
    ) -> None:
        """Lets turns go on while the records of earlier turns are on their way to a slow disk.

        Args:
            call: Calls a function on the thread of the turns, as soon as that is idle.
            call_later: Calls a function on that thread after a time in seconds.
            on_durable: A function for that thread, called after each such record. Its argument is
                the error if the record failed.
        """
        self._call, self._call_later, self._on_durable = call, call_later, on_durable
        self._thread = ThreadPoolExecutor(1, "journal")

    def commit(self) -> None:
        """Returns after the turn, and all before it, are on disk.

        Raises:
            StoreFailed: Whether the turn was stored is unknown. The store can only be closed.
        """
        self._end_turn(waits=self._flight is not None)
        self.settle()

    def commit_soon(self) -> int:
        """Begins to make the turn durable. Waits for the disk only if that is fast, or if a
        checkpoint is due.

        Returns:
            The number of its record.

        Raises:
            StoreFailed: Whether the turn was stored is unknown. The store can only be closed.
        """
        self._end_turn(waits=self._flight is not None)
        if not self._may_go_on() or self._is_due():
            self.settle()
        elif self._waiting and self._flight is None and not self._gathers:
            self._send_off()
        return self._number + bool(self._waiting)

    def _may_go_on(self) -> bool:
        if self._thread is None or not self._flush.lets_turns_go_on():
            return False
        return self._flight is None or time.perf_counter() - self._flight_s < FLIGHT_MAX_S

    def settle(self) -> None:
        """Returns after all turns are durable."""
        self._land()
        changes = self._waiting
        if not changes:
            return
        assert self._journal is not None, "commit without begin"
        self._number += 1
        if self._is_due():
            self._checkpoint()
        elif not self._is_worth_a_record(changes) or not self._is_recorded(changes):
            self._commit()
        self._forget_waiting()
        self.durable = self._number

    def _send_off(self) -> None:
        """Writes a record of all waiting turns on the other thread."""
        assert self._journal is not None
        assert self._thread is not None
        content = content_of(self._waiting)
        if not self._journal.has_room(len(content)):
            self.settle()
            return
        self._number += 1
        self._since_bytes += len(content)
        self._forget_waiting()
        self._flush.unmeasured()
        self._flight_s = time.perf_counter()
        self._flight = self._thread.submit(self._journal.append, self._number, content)
        self._flight.add_done_callback(self._report)

    def _report(self, flight: "Future[None]") -> None:
        with suppress(RuntimeError):  # The event loop has ended, so nobody waits for the record.
            self._call(self._landed)

    def _landed(self) -> None:
        """Takes note that a record is on disk, and sends off the turns that waited for it."""
        error = None
        try:
            if self._flight is not None and self._flight.done():
                self._land()
                if self._waiting:
                    self._gathers = True
                    flush_s = min(self._flush.seconds, FLIGHT_MAX_S)
                    self._call_later(flush_s / GATHER_SHARE, self._gathered)
        except StoreFailed as failed:
            error = failed
        self._on_durable(error)

    def _gathered(self) -> None:
        """Sends off the turns that waited for a record, and those that followed its answers."""
        self._gathers = False
        try:
            if self._waiting and self._flight is None:
                self._send_off()
        except StoreFailed as failed:
            self._on_durable(failed)

    def _land(self) -> None:
        """Returns after no record is on its way."""
        flight, self._flight = self._flight, None
        if flight is None:
            return
        try:
            flight.result()
        except Exception as error:  # Nobody else would notice an error on the other thread.
            raise self._failed(error) from error
        self.durable = self._number

    def abort(self) -> None:
        """Discards the turn, and those that are not on their way to the disk.

        The next turn replays those since the last checkpoint.
        """
        with suppress(StoreFailed):  # The next turn reports it.
            self._land()
        super().abort()

    def pin(self, give_up: Callable[[], None] = lambda: None) -> Pin:
        """Pins the last turn for a copy. See :meth:`LmdbStore.pin`.

        The copy says that it needs no journal. So it can replace a store that has one.
        """
        self.settle()
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

        Raises:
            StoreFailed: The last checkpoint failed. The journal has all durable turns.
        """
        try:
            if self._epoch and not (self._is_turn or self._is_failed):
                self.settle()
                self._open = self._open or self._begun()
                self._commit(is_last=True)
        except StoreReplaced:  # Each turn, and the heartbeat, reports this.
            pass
        except StoreFailed as error:
            is_whole = self._journal is not None and not self._journal.is_removed()
            why = "; no acknowledged message is lost, because the next start reads the journal"
            raise StoreFailed(f"{error}{why if is_whole else ''}") from error
        finally:
            if self._thread is not None:
                self._thread.shutdown()
            if self._journal is not None:
                self._journal.close()
            super().close()

    def _check_file(self) -> None:
        super()._check_file()
        if self._journal is not None and self._journal.is_removed():
            # The close makes the last checkpoint, so nothing is lost.
            raise StoreFailed(f"{self._path} was removed while the daemon was running")

    def _is_worth_a_record(self, changes: list[bytes | None]) -> bool:
        return self._flush.is_saved_by(size_of(changes))

    def _is_recorded(self, changes: list[bytes | None]) -> bool:
        """Appends a record of *changes*, and returns whether the journal has room for it."""
        assert self._journal is not None
        content = content_of(changes)
        if not self._journal.has_room(len(content)):
            return False
        self._since_bytes += len(content)
        start_s = time.perf_counter()
        try:
            self._journal.append(self._number, content)
        except OSError as error:
            raise self._failed(error) from error
        self._flush.measured(time.perf_counter() - start_s, len(content))
        return True

    def _is_due(self) -> bool:
        return not self._epoch or super()._is_due()

    def _replay(self, tx: RecordedTransaction) -> None:
        if self._epoch and self._number == self._stored:
            return  # The journal is empty.
        try:
            self._apply_records(tx)
        except OSError as error:
            raise StoreFailed(f"{self._path}: {error.strerror}") from error
        except JournalUnreadable as error:
            raise StoreFailed(str(error)) from error

    def _apply_records(self, tx: RecordedTransaction) -> None:
        checkpoint = read_checkpoint(tx) or Checkpoint(b"", 0, is_last=True)
        if checkpoint.is_on_server and not checkpoint.is_last:
            raise JournalElsewhere(self._path.parent)
        self._number = self._stored = checkpoint.number
        journal = self._opened(checkpoint)
        if checkpoint.is_last:
            return
        for number, content in journal.replay(checkpoint.epoch, self._stored):
            self._number = number
            apply(content, tx.apply_put, tx.apply_delete)
        self.replayed = self._number - self._stored
        self.durable = self._number

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
            self._flush.seconds = self._journal.flush_s()
        except OSError as error:
            self._is_failed = True
            raise StoreFailed(f"the journal cannot be written: {error}") from error

    def _checkpoint(self) -> None:
        """Commits the open transaction, so that the journal can begin again."""
        assert self._journal is not None
        start_s = time.perf_counter()
        self._commit()
        self._took(time.perf_counter() - start_s, self._journal.size_bytes // 2)

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
