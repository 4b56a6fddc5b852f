"""A store that follows a log on a server, and appends its turns to it while its member is active.

    standby  record 18 of the log ─▶ changes in the open transaction
    active   turn 19 ─▶ record 19 on its way ─▶ turns 20, 21 ─▶ record 19 in the log ─▶ outcome of
             turn 19; record 20, of turns 20 and 21, on its way ─▶ ...

The log has each record since its base, so LMDB only saves time: a checkpoint commits turns that the
log already has, and never any others. It waits until no record is on its way and no turn waits. So
while a checkpoint is due, no turn begins (:meth:`LoggedStore.may_begin`). The thread of the turns
waits for the server only at the start and the end of an active member, for a copy (:meth:`pin`),
and after a failed turn.

If a record is refused because another member is active, all turns after the last record in the log
are discarded. Nothing of them has left.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store.checkpoint import Checkpoint, apply, content_of, read_checkpoint, write_checkpoint
from qmgrd.store.lmdb_store import CopyFailed, LmdbStore, LmdbTransaction, Pin
from qmgrd.store.log import Log, LogForeign, Position, Record, epoch_of, log_and_epoch
from qmgrd.store.recorded import RecordedTransaction
from qmgrd.store.recorded_store import FLIGHT_MAX_S, GATHER_SHARE, RecordedStore

WAITING_MAX_BYTES = 8 << 20  # turns that wait for a record, before the next turn waits for it, too
# A turn needs a record that was sent less than this time ago and that the log has accepted. A
# standby waits longer after the end of the active member's session (GRACE_S in member/standby.py).
# Otherwise, a member that was paused or cut off could deliver what another one has delivered.
FRESH_S = 0.5
PROOFS_MAX = 3  # late records in a row whose outcomes wait for the next one
LIMIT_MAX_BYTES = 16 << 20  # records between two checkpoints, at most; the memory keeps them


class LoggedStore(RecordedStore):
    """An LMDB store with its log on a server.

    Invariant: at most one record is on its way (``_is_flying``), the one with ``_number``.
    ``_since`` has the contents of the records since the last checkpoint of an active member.
    Without ``_log``, the member is a standby: nothing is on its way, and nothing waits.
    """

    def __init__(self, directory: Path, map_bytes: int, log_id: bytes) -> None:
        """Opens or creates the store in *directory*, which only this process may use.

        Args:
            directory: The data directory.
            map_bytes: The maximum size of the store.
            log_id: The id of the log, of LOG_ID_BYTES.

        Raises:
            LogForeign: The store has turns that are not those of this log.
            StoreLocked, StoreMissing, StoreIsSnapshot, StoreUnreadable, OSError: See
                :class:`LmdbStore`.
        """
        super().__init__(directory, map_bytes)
        self._log_id = log_id
        self._log: Log | None = None
        self._epoch = self._own_epoch = 0  # of the last record, and of this member's records
        self._since: list[bytes] = []
        self._is_flying = self._gathers = self._is_settling = False
        self._sent_s = self._landed_s = 0.0
        self._proofs = 0  # late records in a row
        self._proven_s = float("-inf")  # when the last record that the log accepted was sent
        self._silence_max_s = 0.0
        self._on_durable: Callable[[StoreFailed | None], None] = lambda error: None
        self._call_later: Callable[[float, Callable[[], None]], object] | None = None
        try:
            self._check_log()
        except BaseException:
            super().close()
            raise

    @property
    def position(self) -> Position:
        """The last record whose changes the store has."""
        return Position(self._number, self._epoch)

    @property
    def is_active(self) -> bool:
        """Whether the turns of this store become records of the log."""
        return self._log is not None

    @property
    def used_bytes(self) -> int:
        """The number of used bytes of the last checkpoint."""
        stat = self._env.stat()
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return int(pages * stat["psize"])

    def follow(self, record: Record) -> None:
        """Makes the changes of the next record of the log.

        Raises:
            StoreFailed: LMDB failed, for example because its map is full.
        """
        assert self._log is None, "an active member does not follow the log"
        assert record.number == self._number + 1, f"record {record.number} after {self._number}"
        try:
            tx = self._open = self._open or self._begun()
            changes = apply(record.content, tx.apply_put, tx.apply_delete)
        except Exception as error:
            self.abort()
            raise self.failure(error) or error from error
        self._number = self.durable = record.number
        self._epoch = record.epoch
        self._since_bytes += len(record.content)
        self._since_changes += changes
        if self._is_due():
            self.checkpoint()

    def lead(self, log: Log, epoch: int, away_us: int, silence_max_s: float) -> None:
        """Makes the member active. The store must have all records of the log.

        Args:
            log: The log, which accepts records of *epoch*.
            epoch: The epoch of this member's records.
            away_us: The time since the last record of the log, in microseconds, by the clock of
                the server.
            silence_max_s: The time without a record after which another member may become active.
        """
        self.checkpoint()
        self._log, self._own_epoch = log, epoch
        self.away_us, self._silence_max_s = away_us, silence_max_s
        self._landed_s, self._proven_s = time.monotonic(), float("-inf")

    def resign(self) -> None:
        """Makes the member a standby, and discards all turns that the log may not have.

        Raises:
            StoreFailed: LMDB failed.
        """
        if not (self._is_turn or self._is_failed or self._is_flying or self._waiting):
            self.checkpoint()
        self._log, self._call_later = None, None
        self._on_durable = lambda error: None
        self._is_turn = self._is_failed = self._is_flying = self._gathers = False
        self.abort()

    def abort(self) -> None:
        """Discards the turn, and those that have no record yet.

        A standby discards the records since the last checkpoint, too, and must follow them again.
        """
        super().abort()
        if self._log is None:
            self._since.clear()
            self._since_bytes = self._since_changes = 0
            self._find_position()

    def go_ahead(
        self,
        call: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        on_durable: Callable[[StoreFailed | None], None],
    ) -> None:
        """Lets turns go on while records are on their way.

        Args:
            call: Not used, because records land on the thread of the turns.
            call_later: Calls a function on that thread after a time in seconds.
            on_durable: Called after each record has landed. Its argument is the error if the
                record failed.
        """
        self._call_later, self._on_durable = call_later, on_durable
        call_later(self._silence_max_s / 4, partial(self._beat, self._own_epoch))

    def may_begin(self) -> bool:
        """Returns whether a turn may begin. If not, *on_durable* is called when one may.

        A turn waits for a due checkpoint, and for a log that does not answer.
        """
        if not (self._is_flying or self._waiting):
            return True
        if self._is_flying and time.monotonic() - self._sent_s > FLIGHT_MAX_S:
            return False
        return self._waiting_bytes < WAITING_MAX_BYTES and not self._is_due()

    def _prove(self) -> None:
        """Sends an empty record if nothing else shows that this member is still active."""
        is_idle = not (self._is_flying or self._waiting)
        if is_idle and time.monotonic() - self._proven_s > FRESH_S:
            self._send_off()

    def commit(self) -> None:
        """Returns after the turn, and all before it, are in the log.

        Raises:
            Fenced, StoreFailed: Whether the turn was stored is unknown. The store can only be
                closed, or become that of a standby.
        """
        self._end_turn(waits=self._is_flying or self._gathers)
        self.settle()

    def commit_soon(self) -> int:
        """Begins to make the turn durable, and returns the number of its record."""
        self._end_turn(waits=self._is_flying or self._gathers)
        if self._waiting and not self._is_flying and not self._gathers:
            self._send_off()
        self._prove()
        return self._number + bool(self._waiting)

    def settle(self) -> None:
        """Returns after all turns are in the log.

        Raises:
            Fenced, StoreFailed: See :meth:`commit`.
        """
        self._is_settling = True
        try:
            while self._is_flying or self._waiting:
                if not self._is_flying:
                    self._send_off()
                assert self._log is not None
                self._log.wait()
        finally:
            self._is_settling = False
        if self._is_due():
            self.checkpoint()

    def landed(self, error: StoreFailed | None) -> None:
        """Takes note that the record on its way is in the log, or that it was refused.

        Called by the log, on the thread of the turns.

        Raises:
            StoreFailed: The record was refused while :meth:`settle` waits for it.
        """
        self._is_flying = False
        if error is not None:
            self._is_failed = True
        elif self._is_too_late():
            self._send_off()
            return
        else:
            self.durable, self._epoch = self._number, self._own_epoch
        if self._is_settling:
            if error is not None:
                raise error
            return
        try:
            if error is None:
                self._go_on()
        except StoreFailed as failed:
            error = failed
        self._on_durable(error)

    def _is_too_late(self) -> bool:
        """Takes note that the log has a record. Returns whether its outcomes must not leave yet.

        The member may have been paused since the log accepted the record, and another one may have
        become active. The next record shows it. A server that always takes that long must not stop
        all outcomes, so they leave after PROOFS_MAX records.
        """
        self._landed_s, self._proven_s = time.monotonic(), self._sent_s
        self._flush.measured(self._landed_s - self._sent_s, 0)
        is_late = self._landed_s - self._sent_s > FRESH_S
        self._proofs = self._proofs + 1 if is_late else 0
        return is_late and self._proofs <= PROOFS_MAX

    def _go_on(self) -> None:
        """Sends off the turns that waited for a record, or makes a checkpoint that is due."""
        if self._is_due():
            if self._waiting:
                self._send_off()
            else:
                self.checkpoint()
        elif self._waiting and self._call_later is not None:
            self._gathers = True
            flush_s = min(self._flush.seconds, FLIGHT_MAX_S)
            self._call_later(flush_s / GATHER_SHARE, self._gathered)

    def _gathered(self) -> None:
        """Sends off the turns that waited for a record, and those that followed its answers."""
        self._gathers = False
        if self._waiting and not self._is_flying:
            self._send_off()

    def _beat(self, epoch: int) -> None:
        """Appends an empty record if nothing else was appended for a while, during *epoch*."""
        if self._call_later is None or self._is_failed or epoch != self._own_epoch:
            return
        beat_s = self._silence_max_s / 4
        is_idle = not (self._is_flying or self._waiting or self._is_turn)
        if is_idle and time.monotonic() - self._landed_s >= beat_s / 2:
            self._send_off()
        self._call_later(beat_s, partial(self._beat, epoch))

    def _send_off(self) -> None:
        """Sends a record of all waiting turns."""
        assert self._log is not None
        content = content_of(self._waiting)
        self._number += 1
        self._since.append(content)
        self._since_bytes += len(content)
        self._forget_waiting()
        self._is_flying = True
        self._sent_s = time.monotonic()
        self._log.send(self._number, content)

    def pin(self, give_up: Callable[[], None] = lambda: None) -> Pin:
        """Pins the last turn for a copy. See :meth:`LmdbStore.pin`.

        The copy says that it needs no journal. So it can replace a store that has none.

        Raises:
            CopyFailed: The server does not answer, another copy is being made, or LMDB has no room
                for another reader.
        """
        return self._pinned(give_up, is_last=True)

    def pin_base(self, give_up: Callable[[], None]) -> Pin:
        """Pins the last record for a base of the log, from which a member can follow the log.

        Raises:
            CopyFailed: See :meth:`pin`.
        """
        try:
            pin = self._pinned(give_up, is_last=False)
        except StoreFailed as error:
            self._on_durable(error)
            raise CopyFailed(str(error)) from error
        except CopyFailed:
            self._on_durable(None)
            raise
        self._on_durable(None)  # Outcomes that waited may leave.
        return pin

    def _pinned(self, give_up: Callable[[], None], *, is_last: bool) -> Pin:
        if self._is_failed:
            raise CopyFailed("the store failed before")
        if self._is_flying and time.monotonic() - self._sent_s > FLIGHT_MAX_S:
            raise CopyFailed("the server of the journal does not answer")
        if self._pin is not None and not self._pin.released:
            raise CopyFailed("another copy is being made: try again when it is complete")
        self.settle()
        self._checkpoint(is_last=is_last)
        pin = super().pin(give_up)
        try:
            if is_last:
                self._checkpoint(is_last=False)
        except BaseException:
            pin.release()
            raise
        return pin

    def checkpoint(self) -> None:
        """Commits all records that the store has applied or appended, if there are any.

        Raises:
            StoreFailed: LMDB failed.
        """
        if self._open is not None and self._number != self._stored:
            start_s = time.perf_counter()
            self._checkpoint(is_last=False)
            self._took(time.perf_counter() - start_s, LIMIT_MAX_BYTES)

    def end_log(self) -> None:
        """Commits all records of a standby, so that the store needs the log no more.

        Raises:
            StoreFailed: LMDB failed.
        """
        assert self._log is None, "the member is active"
        self._checkpoint(is_last=True)

    def close(self) -> None:
        """Closes the store, after the last checkpoint.

        Raises:
            StoreFailed: The last checkpoint failed. The log has all durable turns.
        """
        try:
            if not (self._is_turn or self._is_failed or self._is_flying or self._waiting):
                self.checkpoint()
        finally:
            super().close()

    def _checkpoint(self, *, is_last: bool) -> None:
        is_ahead = bool(self._waiting) or self.durable != self._number
        assert not is_ahead, "LMDB must not be ahead of the log"
        tx = self._open or self._begun()
        self._open = None
        epoch = epoch_of(self._log_id, self._epoch)
        write_checkpoint(tx, Checkpoint(epoch, self._number, is_last, is_on_server=True))
        is_failed, self._is_failed = self._is_failed, True
        LmdbStore.commit(self)
        self._is_failed = is_failed
        self._stored = self._number
        self._since.clear()
        self._since_bytes = self._since_changes = 0

    def _replay(self, tx: RecordedTransaction) -> None:
        for content in self._since:
            apply(content, tx.apply_put, tx.apply_delete)

    def _find_position(self) -> None:
        """Reads the last record that LMDB has."""
        with LmdbTransaction(self._env.begin()) as tx:  # A write would wait for a copy.
            checkpoint = read_checkpoint(tx)
            self._is_new = next(tx.scan(b"\0", b"\xff"), None) is None
        self._found_id, self._epoch = b"", 0
        self._number = self._stored = self.durable = 0
        if checkpoint is not None and checkpoint.is_on_server:
            self._found_id, self._epoch = log_and_epoch(checkpoint.epoch)
            self._number = self._stored = self.durable = checkpoint.number

    def _check_log(self) -> None:
        """Raises LogForeign if the turns of the store are not those of this log."""
        self._find_position()
        if not self._is_new and self._found_id != self._log_id:
            raise LogForeign(
                f"the turns of {self._data} are not those of the journal at journal.url: move them "
                "there with qmctl journal move, or give another queue_manager.data_dir"
            )
