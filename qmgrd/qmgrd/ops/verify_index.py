"""The rows that lead to messages: each message has its own, and none leads elsewhere.

    UID ────────────────┐
    correlation id ─────┼──▶ entry ──▶ its row in the schedule (verify_schedule.py has these)
    group, number ──────┘       └────▶ its note

Each message that is sound has its rows counted. So if a space has no more rows than that, all of
them are well; only where there are more is it asked, row by row, which they are.
"""

from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import FrameMalformed
from qmgrd.core import entry as entries
from qmgrd.core import index, keys
from qmgrd.core.dedup import OriginTable
from qmgrd.core.kv import Transaction
from qmgrd.ops.finding import Findings
from qmgrd.ops.verify_definitions import unsealed
from qmgrd.ops.verify_schedule import Remembered

_SELECTING = (keys.SPACE_CORRELATION, keys.SPACE_GROUP)


def described(key: bytes, queue: str) -> str:
    """Return what message of *queue* lies under *key*, for people."""
    priority, arrival = keys.place(key)
    lanes = {keys.LANE_DAMAGED: ", set aside,", keys.LANE_DELAYED: ", delayed,"}
    return f"message {arrival} of priority {priority}{lanes.get(key[5], '')} on queue {queue}"


class IndexCheck:
    """The check of the rows that lead to the messages of one queue.

    Tell it of each message, sound or not; then have it look for what is left over.
    """

    def __init__(
        self, found: Findings, tx: Transaction, queue_id: int, name: str, remembered: Remembered
    ) -> None:
        self._found, self._tx, self._id, self._name = found, tx, queue_id, name
        self._is_transmission = name.startswith("@")
        self._prefix = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
        self._origins = OriginTable(queue_id)
        self._remembered = remembered
        self._uids = 0  # messages to which their row of the UID index leads
        self._selecting = dict.fromkeys(_SELECTING, 0)  # rows of messages, by space
        self._astray: set[bytes] = set()  # rows of the UID index that lead elsewhere
        self._unsound: set[bytes] = set()  # positions of damaged messages
        self._noted: set[int] = set()  # arrivals of messages that have a note, or may have

    def skip(self, key: bytes) -> None:
        """Take note of a message that is damaged: its rows may be what rotted."""
        self._unsound.add(key[5:])
        self._noted.add(keys.place(key)[1])

    def check(self, key: bytes, entry: entries.Entry, *, is_lost: bool) -> None:
        """Check the rows of a sound message.

        Args:
            is_lost: it is gone with a restart: its UID may be another's since.
        """
        self._check_uid(key, entry, is_lost=is_lost)
        self._check_selection(key, entry)
        priority, arrival = keys.place(key)
        if entry.noted:
            self._noted.add(arrival)
            if self._tx.get(note := keys.note(self._id, arrival)) is None:
                self._miss("note-missing", note, key, "has no note, though it says so")
        if entry.due_ms:
            due = keys.due(entry.due_ms, self._id, key[5], priority, arrival)
            if self._tx.get(due) is None:
                self._miss("due-missing", due, key, f"is not in the schedule at {entry.due_ms}")

    def finish(self) -> None:
        """Find the rows that no message has."""
        self._check_index()
        for space in _SELECTING:
            self._check_selecting(space)
        self._check_notes()

    def _miss(self, fault: str, row: bytes, key: bytes, what: str) -> None:
        self._found.add(fault, row, f"{described(key, self._name)} {what}")

    def _check_uid(self, key: bytes, entry: entries.Entry, *, is_lost: bool) -> None:
        index_key = self._index_key(entry)
        position = self._tx.get(index_key)
        if position == key[5:]:
            self._uids += 1
        elif is_lost:
            return
        elif position is None:
            self._miss("index-missing", index_key, key, "is not in the UID index")
        else:
            what = f"the UID index has {described(key, self._name)} elsewhere, at {position.hex()}"
            self._found.add("index-wrong", index_key, what)
            self._astray.add(index_key)

    def _index_key(self, entry: entries.Entry) -> bytes:
        return self._origins.index_key(entries.uid_trailer(entry), entry.target.encode())

    def _selection_keys(self, key: bytes, entry: entries.Entry) -> list[bytes]:
        """Return the keys by which a message is found beside its UID, if it can be got."""
        if self._is_transmission or key[5] != keys.LANE_READY:
            return []
        front = entries.front(self._tx, entry)
        return index.selection_keys(self._id, front, *keys.place(key))

    def _check_selection(self, key: bytes, entry: entries.Entry) -> None:
        for row in self._selection_keys(key, entry):
            if self._tx.get(row) is None:
                by = "correlation id" if row[:1] == keys.SPACE_CORRELATION else "group"
                self._miss("select-missing", row, key, f"cannot be found by its {by}")
            else:
                self._selecting[row[:1]] += 1

    def _check_index(self) -> None:
        """Find the rows of the UID index that name no message, or another, or none to remember."""
        prefix = keys.of_queue(keys.SPACE_UID, self._id)
        count = kept = 0
        for _, position in self._tx.scan(prefix, keys.after(prefix)):
            count += 1
            kept += position[:1] == bytes([keys.LANE_REMEMBERED])
        self._found.looked_at(count)
        if kept != self._remembered.counts[self._id]:
            self._check_remembered(prefix)
        if count - kept == self._uids:
            return
        for key, position in self._tx.scan(prefix, keys.after(prefix)):
            if position in self._unsound or key in self._astray:
                continue  # The UID may be what rotted; or told of the message already.
            if position[:1] == bytes([keys.LANE_REMEMBERED]):
                continue
            value = self._tx.get(self._prefix + position)
            if value is None:
                what = f"names {position.hex()}, where no message is"
            elif self._index_key(entries.decode(value)) != key:
                message = described(self._prefix + position, self._name)
                what = f"names {message}, which has another UID"
            else:
                continue
            self._found.add("index-orphan", key, f"a row of the UID index of {self._name} {what}")

    def _check_remembered(self, prefix: bytes) -> None:
        """Find the UIDs that are remembered for ever, as the schedule does not forget them."""
        forgotten = self._remembered.positions(self._tx, self._id)
        for key, position in self._tx.scan(prefix, keys.after(prefix)):
            if position[:1] == bytes([keys.LANE_REMEMBERED]) and position not in forgotten:
                trailer = key[len(prefix) :]
                uid = f"{trailer[:-8].decode(errors='replace')}.{int.from_bytes(trailer[-8:])}"
                what = f"queue {self._name} remembers {uid}, and no row of the schedule ends that"
                self._found.add("remembered", key, what)

    def _check_selecting(self, space: bytes) -> None:
        prefix = keys.of_queue(space, self._id)
        count = sum(1 for _ in self._tx.scan(prefix, keys.after(prefix)))
        self._found.looked_at(count)
        if count == self._selecting[space]:
            return
        for row, _ in self._tx.scan(prefix, keys.after(prefix)):
            position = bytes([keys.LANE_READY]) + row[-keys.PLACE.size :]
            key = self._prefix + position
            if position in self._unsound:
                continue
            value = self._tx.get(key)
            if value is None or row not in self._selection_keys(key, entries.decode(value)):
                where = f"leads to {position.hex()}, where no such message is"
                self._found.add("select-orphan", row, f"a row of queue {self._name} {where}")

    def _check_notes(self) -> None:
        prefix = keys.of_queue(keys.SPACE_NOTE, self._id)
        for key, row in unsealed(self._found, self._tx, prefix):
            arrival = int.from_bytes(key[len(prefix) :], "big")
            what = f"the note of message {arrival} on queue {self._name}"
            if arrival not in self._noted:
                self._found.add("note-orphan", key, f"{what}: no message of that arrival has one")
                continue
            try:
                is_map = type(unpack(row)) is dict
            except FrameMalformed:
                is_map = False
            if not is_map:
                self._found.add("content", key, f"{what}: it is no map")
