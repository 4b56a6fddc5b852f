"""The messages that a link has to send, and the ids up to which the peer has stored them.

The messages are on the transmission queue. The sequence id of a message is its arrival number on
that queue, which is assigned in the turn of the put without gaps. A message is deleted only when
the peer's commit id covers it.

The row of the outbox also lists the lives of this process in which messages were sent, each with
the next id at its end. If the peer reports an id from one of these lives, the id must be lower than
that next id (link/continuation.py).
"""

from collections.abc import Iterator
from typing import Any

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.messages import EXTRA_DELAY_MS, EXTRA_EXPIRY_MS, EXTRA_NOTE
from qmgr_protocol.window import Outbox
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.layout.value_checks import number, typed
from qmgrd.core.queue import lane, notes
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.take import is_available

Extra = dict[str, int | bytes]  # the fields that a link sends with a record
# Stands for the target, record and extra of an id whose message is damaged, expired or lost in a
# restart.
GONE: tuple[str, bytes, Extra] = ("", b"", {})
# Stands for an id that the peer holds or that is in flight.
HELD: tuple[str, bytes, Extra] = ("held", b"", {})
_PLAIN: Extra = {}
LIVES_MAX = 64  # maximum number of lives recorded while messages sent in them are not committed
_ANY_LIFE = b""  # the key that represents all older lives
_EXPIRY, _NO_EXPIRY = slice(8, 16), bytes(8)  # the position of the expiry in the head of a record


class LinkOutbox(Outbox):
    """The sending window of a link, as stored here.

    Invariant: ``queue`` has all ids above ``commit_id``, except those of damaged messages.
    """

    def __init__(self, queue: Queue, context: Context) -> None:
        self.queue = queue
        self._context = context
        self._commit_uid: bytes | None = None  # the encoded UID of the message at the commit id
        self.in_flight: set[int] = set()  # ids in flight over a path, which must not be sent again
        self._damaged: dict[bytes, bytes] = {}  # the damaged entries found in this turn, by key
        self._row_key = keys.of_queue(keys.SPACE_LINK_OUTBOX, queue.id)
        # The lives in which messages were sent, each with the next id at its end, which is 0 for
        # the current life.
        self._lives: dict[bytes, int] = {}
        commit_id, row = 0, rows.find(context.tx, self._row_key, queue.name)
        if row is not None:
            with rows.decoding(self._row_key):
                commit_id = self._read(unpack(row))
        super().__init__(
            context.config.link.window_messages, commit_id, queue.counters.next_arrival
        )
        if 0 in self._lives.values():
            self._lives = {life: end or self.next_id for life, end in self._lives.items()}
            self._write()

    def _read(self, row: list[Any]) -> int:
        """Applies a stored *row* and returns its commit id.

        Raises:
            ValueError: The row is invalid.
        """
        next_id = self.queue.counters.next_arrival
        commit_id, uid, *more = row
        number(commit_id, "the commit id", 0, next_id - 1)
        self._commit_uid = None if uid is None else typed(bytes, uid, "the UID of the commit id")
        # Rows written before lives were recorded do not have any.
        self._lives = dict(more[0] if more else [(_ANY_LIFE, next_id)])
        for life, end in self._lives.items():
            typed(bytes, life, "a life")
            number(end, "the end of a life")
        return int(commit_id)

    def _save(self) -> None:
        self._write()
        self._context.mark_changed(self.queue)

    def _write(self) -> None:
        row = pack([self.commit_id, self._commit_uid, [*self._lives.items()]])
        rows.put(self._context.tx, self._row_key, row)

    def sending(self) -> None:
        """Records, in this turn, that messages are sent in this life."""
        if self._context.life in self._lives:
            return
        if len(self._lives) >= LIVES_MAX:
            self._lives.pop(_ANY_LIFE, None)
            oldest = next(iter(self._lives))
            self._lives = {_ANY_LIFE: self._lives.pop(oldest)} | self._lives
        self._lives[self._context.life] = 0
        self._save()

    def end_of(self, life: bytes) -> int | None:
        """Returns the next id at the end of *life*, or None if no message was sent in that life."""
        end = self._lives.get(life, self._lives.get(_ANY_LIFE))
        return self.queue.counters.next_arrival if end == 0 else end

    def _key(self, seq_id: int) -> bytes:
        return keys.message(self.queue.id, keys.LANE_READY, keys.PRIORITY_TOP, seq_id)

    def forget_commit(self) -> None:
        """Forgets which ids the peer holds, because another peer replaces it."""
        self._commit_uid = None
        self._save()

    def uid_at(self, seq_id: int) -> bytes | None:
        """Returns the encoded UID of the message with id *seq_id*, or None if it is unknown.

        The UID of an expired message is unknown, even if the message is not removed yet, because
        the peer may have received its id without a message.
        """
        if seq_id == self.commit_id:
            return self._commit_uid
        value = self._context.tx.get(self._key(seq_id))
        if value is None:
            return None
        entry = entries.decode(value)
        known = entries.has_sound_uid(self._context.tx, entry) and is_available(
            self.queue, entry, seq_id, self._context.now
        )
        return entries.uid_trailer(entry) if known else None

    def describe(self, seq_id: int) -> dict[str, Any]:
        """Describes the message with id *seq_id*.

        All values are None if the message was deleted.
        """
        value = self._context.tx.get(self._key(seq_id))
        if value is None:
            return {"blocked_queue": None, "blocked_uid": None, "blocked_behind": None}
        entry = entries.decode(value)
        trailer = entries.uid_trailer(entry)
        uid = records.decode_uid(trailer)
        return {
            "blocked_queue": entry.target,
            "blocked_uid": str(uid) if trailer else None,
            "blocked_behind": self.queue.counters.next_arrival - 1 - seq_id,
        }

    def records(
        self,
        count: int,
        message_max_bytes: int,
        too_long: dict[int, int],
        whole_max_bytes: int = entries.WHOLE,
    ) -> Iterator[tuple[str, bytes, Extra]]:
        """Yields the target, record and extra of up to *count* of the next ids within the window.

        For an id without a message, for example because it is damaged, the record is empty. The
        peer marks that id as held, so that no message waits for it. An id that the peer holds, or
        that another path is sending, yields :data:`HELD`. So does a message that is longer than
        *message_max_bytes*. Its id and size are added to *too_long*. A record above
        *whole_max_bytes* is a :class:`LongRecord`, whose checksum is not compared. Call
        :meth:`set_aside` afterwards.
        """
        self.next_id = self.queue.counters.next_arrival
        tx, next_id = self._context.tx, self.sent_id + 1
        last = min(self.sent_id + count, self.commit_id + self.window, self.next_id - 1)
        plain_max = min(message_max_bytes, whole_max_bytes)
        target_bytes, target, held, in_flight = b"", "", self.held, self.in_flight
        for key, value in tx.scan(self._key(next_id), self._key(last + 1)):
            seq_id = int.from_bytes(key[keys.ENTRY_ARRIVAL], "big")
            if seq_id > next_id:
                yield from self._without(next_id, seq_id)
            next_id = seq_id + 1
            if seq_id in held or seq_id in in_flight:
                yield HELD
                continue
            parts = entries.plain_parts(value)
            if parts is not None and _is_plain(parts[1], plain_max):
                if parts[0] != target_bytes:
                    target_bytes, target = parts[0], parts[0].decode()
                yield target, parts[1], _PLAIN
                continue
            entry = entries.decode(value)
            if not is_available(self.queue, entry, seq_id, self._context.now):
                yield GONE
                continue
            # Records that are not sent are not read: a thousand of them may be 8 GB.
            own_bytes = entries.record_bytes(entry) - len(entries.uid_trailer(entry))
            if own_bytes > message_max_bytes:
                too_long[seq_id] = own_bytes
                yield HELD
                continue
            record = entries.outlined(tx, entry, whole_max_bytes)
            if isinstance(record, LongRecord) or entries.is_sound(record):
                yield entry.target, record, self._extra(entry, record, seq_id)
            else:
                self._damaged[key] = value
                yield GONE
        yield from self._without(next_id, last + 1)

    def _without(self, first_id: int, stop_id: int) -> Iterator[tuple[str, bytes, Extra]]:
        """Yields the items for ids that have no message."""
        for seq_id in range(first_id, stop_id):
            yield HELD if seq_id in self.held or seq_id in self.in_flight else GONE

    def _extra(self, entry: entries.Entry, record: bytes, seq_id: int) -> Extra:
        """Returns a message's remaining lifetime, remaining delay and note."""
        has_delay = bool(record[records.FLAGS_AT] & records.FLAG_DELAYED)
        has_expiry = record[_EXPIRY] != _NO_EXPIRY
        if not (entry.expires_ms or has_expiry or entry.noted or has_delay):
            return _PLAIN
        extra: Extra = {}
        if entry.expires_ms:
            extra[EXTRA_EXPIRY_MS] = entry.expires_ms - self._context.now.ms
        elif has_expiry:
            extra[EXTRA_EXPIRY_MS] = 0  # A dead letter does not expire.
        if has_delay:
            left_ms = entry.due_ms - self._context.now.ms if entry.delayed else 0
            extra[EXTRA_DELAY_MS] = max(left_ms, 0)
        if entry.noted:
            extra[EXTRA_NOTE] = notes.raw(self._context.tx, self.queue.id, seq_id)
        return extra

    def set_aside_at(self, seq_id: int, record: LongRecord) -> None:
        """Sets the message with id *seq_id* aside if it exists and has the body of *record*."""
        key = self._key(seq_id)
        value = self._context.tx.get(key)
        entry = entries.decode(value or b"")
        if value is not None and entry.in_rows and entries.body_id(entry) == record.body.id:
            self._damaged[key] = value
            self.set_aside()

    def set_aside(self) -> None:
        """Sets aside the messages that :meth:`records` found to be damaged, for later analysis."""
        if not self._damaged:
            return
        for key, value in self._damaged.items():
            lane.set_aside(self.queue, self._context.tx, key, value)
        self._context.note(
            "error", "damaged messages set aside", queue=self.queue.name, count=len(self._damaged)
        )
        self._context.dirty_queues[self.queue.id] = self.queue
        self._damaged.clear()

    def commit(self, commit_id: int) -> range:
        """Deletes, in this turn, the messages that the peer now holds. Returns their ids.

        Raises:
            CommitOutOfRange: *commit_id* was never assigned.
        """
        self.next_id = self.queue.counters.next_arrival
        before, uid = self.commit_id, self.uid_at(commit_id)
        done = super().commit(commit_id)
        if done:
            self._commit_uid = uid
            # All messages sent in the removed lives are committed.
            lives = self._lives.items()
            self._lives = {life: end for life, end in lives if not 0 < end <= commit_id + 1}
            self._delete(before + 1, commit_id)
            self._save()
        return done

    def _delete(self, first_id: int, last_id: int) -> None:
        tx, queue = self._context.tx, self.queue
        found = list(tx.scan(self._key(first_id), self._key(last_id + 1)))
        others = found if queue.account is not None else lane.remove_sent(queue, tx, found)
        for key, value in others:
            entry = lane.remove(queue, tx, key, value)
            # A message that a restart lost was counted then, even if the peer has it.
            is_lost = queue.is_lost(entry, keys.place(key)[1])
            if not is_lost:
                queue.counters.count_acked()
            kind = history.LOST if is_lost else history.TRANSFERRED
            if 0 < entry.expires_ms <= self._context.now.ms:
                # The message may have expired before it was sent, so no copy exists.
                kind = history.EXPIRED
            queue.record_history(kind, key, entry, peer=queue.name[1:], target=entry.target)
        self._context.count_read(len(found), 0)


def _is_plain(record: bytes, bytes_max: int) -> bool:
    """Returns whether *record* is intact, has no expiry and no delay, and is not too long."""
    return (
        len(record) <= bytes_max
        and record[_EXPIRY] == _NO_EXPIRY
        and not record[records.FLAGS_AT] & records.FLAG_DELAYED
        and entries.is_sound(record)
    )
