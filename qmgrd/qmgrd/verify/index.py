"""The index rows of messages. Each message has its rows, and no row refers to anything else.

    UID (*) ────────────┐
    correlation id ─────┼──▶ entry ──▶ its row in the schedule (schedule.py)
    group, number ──────┘       └────▶ its note
    (groups.py checks group rows without a message)
    (*) or the arrival numbers of these messages are in the order of their UIDs (ordered.py)

The rows of each valid message are counted. If a space has no more rows than these, all of its rows
are correct. Single rows are checked only if the space has more rows.
"""

from collections.abc import Iterator
from heapq import merge

from qmgr_protocol import group_id
from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import FrameMalformed
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.dedup import OriginTable
from qmgrd.core.queue.group import index as group_index
from qmgrd.verify.definitions import unsealed
from qmgrd.verify.finding import Findings
from qmgrd.verify.schedule import Remembered

_GOT = (keys.LANE_READY, keys.LANE_GROUPED)  # lanes of deliverable messages


def described(key: bytes, queue: str) -> str:
    """Returns a description of the message with *key* on *queue*, for people."""
    priority, arrival = keys.place(key)
    lanes = {
        keys.LANE_DAMAGED: ", set aside,",
        keys.LANE_DELAYED: ", delayed,",
        keys.LANE_GROUPED: ", in a group,",
        keys.LANE_PARKED: ", parked,",
    }
    lane = lanes.get(key[keys.POSITION_AT], "")
    return f"message {arrival} of priority {priority}{lane} on queue {queue}"


class IndexCheck:
    """The check of the index rows of one queue's messages.

    The caller calls :meth:`begin`, passes each message, valid or not, and then calls :meth:`finish`
    to find the rows without a message.
    """

    def __init__(
        self, found: Findings, tx: Transaction, queue_id: int, name: str, remembered: Remembered
    ) -> None:
        self._found, self._tx, self._id, self._name = found, tx, queue_id, name
        self._is_transmission = name.startswith("@") or queue_id == keys.PUBLICATIONS_ID
        self._prefix = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
        self._origins = OriginTable(queue_id)
        self._remembered = remembered
        self._counters: Counters | None = None
        self.unindexed = 0  # number of messages that need no row in the UID index
        self._uids = 0  # number of messages that have the correct row in the UID index
        self._correlated = 0  # number of correlation rows of messages
        self._astray: set[bytes] = set()  # rows of the UID index that do not refer to their message
        self.unsound: set[bytes] = set()  # the positions of damaged messages
        self.reported: set[bytes] = set()  # the ids of groups with a message that was reported
        # The arrival numbers of messages that have, or may have, a note.
        self._noted: set[int] = set()

    def begin(self, counters: Counters | None) -> None:
        """Begins with the *counters* of the queue, or with None if they are damaged."""
        self._counters = counters

    def _needs_row(self, position: bytes) -> bool:
        """Returns whether the message at *position* needs a row in the UID index."""
        arrival = keys.arrival_of(position)
        return self._counters is not None and not self._counters.is_unindexed(arrival)

    def skip(self, key: bytes) -> None:
        """Records a damaged message. Its index rows may be correct."""
        self.unsound.add(key[keys.POSITION_AT :])
        self._noted.add(keys.place(key)[1])

    def check(self, key: bytes, entry: entries.Entry, *, is_lost: bool) -> None:
        """Checks the index rows of a valid message.

        Args:
            is_lost: Whether a restart lost the message. A new message may then use its UID.
        """
        if not entry.shared:  # The UID of a shared entry is found through its publication.
            self._check_uid(key, entry, is_lost=is_lost)
        self._check_selection(key, entry)
        priority, arrival = keys.place(key)
        if entry.noted:
            self._noted.add(arrival)
            if self._tx.get(note := keys.note(self._id, arrival)) is None:
                self._miss("note-missing", note, key, "has a flag for a note, but no note")
        if entry.due_ms and self._id != keys.PUBLICATIONS_ID:
            due = keys.due(entry.due_ms, self._id, key[keys.POSITION_AT], priority, arrival)
            if self._tx.get(due) is None:
                self._miss("due-missing", due, key, f"is not in the schedule at {entry.due_ms}")

    def finish(self) -> None:
        """Finds the rows without a message."""
        self._check_order()
        self._check_index()
        self._check_correlated()
        self._check_notes()

    def _miss(self, fault: str, row: bytes, key: bytes, what: str) -> None:
        self._found.add(fault, row, f"{described(key, self._name)} {what}")

    def _check_uid(self, key: bytes, entry: entries.Entry, *, is_lost: bool) -> None:
        index_key = self._index_key(entry)
        position, own = self._tx.get(index_key), key[keys.POSITION_AT :]
        if position == own:
            self._uids += self._needs_row(own)
        elif is_lost:
            return
        elif position is None:
            if self._needs_row(own):
                self._miss("index-missing", index_key, key, "is not in the UID index")
        else:
            what = f"the UID index has {described(key, self._name)} elsewhere, at {position.hex()}"
            self._found.add("index-wrong", index_key, what)
            self._astray.add(index_key)

    def _index_key(self, entry: entries.Entry) -> bytes:
        return self._origins.index_key(entries.uid_trailer(entry), entry.target.encode())

    def _check_selection(self, key: bytes, entry: entries.Entry) -> None:
        """Checks the rows by which a message is selected."""
        if self._is_transmission or key[keys.POSITION_AT] == keys.LANE_DAMAGED:
            return
        correlation_id, group = index.selected_by(entries.front(self._tx, entry))
        if correlation_id and key[keys.POSITION_AT] in _GOT:
            row = self._correlation_key(key, correlation_id)
            if self._tx.get(row) is None:
                self._miss("select-missing", row, key, "cannot be found by its correlation id")
            else:
                self._correlated += 1
        if key[keys.POSITION_AT] == keys.LANE_GROUPED:
            self._check_member(key, group)

    def _correlation_key(self, key: bytes, correlation_id: bytes) -> bytes:
        return keys.correlation(self._id, correlation_id) + key[-keys.PLACE.size :]

    def _check_member(self, key: bytes, group: tuple[bytes, int] | None) -> None:
        """Checks the group row of a message in the lane of groups.

        A delayed message may have no row, because another message had its number when it arrived.
        """
        if group is None:
            self._miss("select-missing", key, key, "has no group, so no consumer receives it there")
            return
        row = keys.group(self._id, *group)
        position = group_index.find(self._tx, row[keys.BEFORE_NUMBER], group[1])
        if position != key[keys.POSITION_AT :]:
            named = f"number {group[1]} of group {group_id.shown(group[0])}"
            where = "" if position is None else f": {position.hex()} is"
            self._miss("select-missing", row, key, f"is not found as {named}{where}")
            self.reported.add(group[0])

    def _check_order(self) -> None:
        """Checks that the messages without a row in the UID index are in the order of their UIDs.

        If the counters are damaged, these messages are unknown.
        """
        if self._counters is None:
            return
        first, until = self._counters.unindexed_from, self._counters.unindexed_until
        origin = (self._tx.get(keys.STORE) or b"")[keys.STORE_ROW.size : -rows.SEAL_BYTES]
        last = b""
        for key, value in merge(
            *self._scans(first, until), key=lambda row: row[0][keys.ENTRY_ARRIVAL]
        ):
            self.unindexed += 1
            if key[keys.POSITION_AT :] in self.unsound:
                continue
            trailer = entries.uid_trailer(entries.decode(value))
            if trailer[records.UID_ORIGIN] == origin and trailer > last:
                last = trailer
                continue
            uid = records.decode_uid(trailer)
            what = (
                f"has UID {uid}, which is not in the order of arrival, and no row in the UID index"
            )
            self._miss("index-order", key, key, what)
        self._found.looked_at(self.unindexed)

    def _scans(self, first: int, until: int) -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """Yields the scan of each lane and priority from the arrival number *first* to *until*."""
        for lane in keys.LANES_OF_UIDS:
            for priority in range(keys.PRIORITY_TOP + 1):
                start = keys.message(self._id, lane, priority, first)
                yield self._tx.scan(start, keys.message(self._id, lane, priority, until))

    def _check_index(self) -> None:
        """Finds rows of the UID index that refer to no message or to another one, or that never
        expire.
        """
        prefix = keys.of_queue(keys.SPACE_UID, self._id)
        count = kept = 0
        for _, position in self._tx.scan(prefix, keys.after(prefix)):
            count += 1
            kept += position[keys.LANE] == bytes([keys.LANE_REMEMBERED])
        self._found.looked_at(count)
        if kept != self._remembered.counts[self._id]:
            self._check_remembered(prefix)
        if count - kept == self._uids:
            return
        for key, position in self._tx.scan(prefix, keys.after(prefix)):
            if position in self.unsound or key in self._astray:
                continue  # The UID may be damaged, or the message was already reported.
            if position[keys.LANE] == bytes([keys.LANE_REMEMBERED]):
                continue
            value = self._tx.get(self._prefix + position)
            if value is None:
                what = f"refers to {position.hex()}, but no message exists there"
            elif self._index_key(entries.decode(value)) != key:
                message = described(self._prefix + position, self._name)
                what = f"refers to {message}, which has another UID"
            elif self._counters is not None and not self._needs_row(position):
                message = described(self._prefix + position, self._name)
                what = f"refers to {message}, which needs no row"
            else:
                continue
            self._found.add("index-orphan", key, f"a row of the UID index of {self._name} {what}")

    def _check_remembered(self, prefix: bytes) -> None:
        """Finds UIDs that are remembered forever because the schedule has no row for them."""
        forgotten = self._remembered.positions(self._tx, self._id)
        for key, position in self._tx.scan(prefix, keys.after(prefix)):
            if position[keys.LANE] == bytes([keys.LANE_REMEMBERED]) and position not in forgotten:
                trailer = key[len(prefix) :]
                uid = records.decode_uid(trailer)
                what = f"queue {self._name} remembers UID {uid}, but the schedule never removes it"
                self._found.add("remembered", key, what)

    def _check_correlated(self) -> None:
        prefix = keys.of_queue(keys.SPACE_CORRELATION, self._id)
        count = sum(1 for _ in self._tx.scan(prefix, keys.after(prefix)))
        self._found.looked_at(count)
        if count == self._correlated:
            return
        for row, _ in self._tx.scan(prefix, keys.after(prefix)):
            place = row[-keys.PLACE.size :]
            if not any(self._is_correlated(row, bytes([lane]) + place) for lane in _GOT):
                where = f"refers to {place.hex()}, but no such message exists there"
                self._found.add("select-orphan", row, f"a row of queue {self._name} {where}")

    def _is_correlated(self, row: bytes, position: bytes) -> bool:
        """Returns whether *row* refers to the message at *position*, or that message is damaged."""
        if position in self.unsound:
            return True
        value = None if self._is_transmission else self._tx.get(self._prefix + position)
        if value is None:
            return False
        front = entries.front(self._tx, entries.decode(value))
        return row == self._correlation_key(position, index.selected_by(front)[0])

    def _check_notes(self) -> None:
        prefix = keys.of_queue(keys.SPACE_NOTE, self._id)
        for key, row in unsealed(self._found, self._tx, prefix):
            arrival = int.from_bytes(key[len(prefix) :], "big")
            what = f"the note of message {arrival} on queue {self._name}"
            if arrival not in self._noted:
                self._found.add(
                    "note-orphan", key, f"{what}: no message with that arrival number refers to it"
                )
                continue
            try:
                is_map = type(unpack(row)) is dict
            except FrameMalformed:
                is_map = False
            if not is_map:
                self._found.add("content", key, f"{what} is not a map")
