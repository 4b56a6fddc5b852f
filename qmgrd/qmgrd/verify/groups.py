"""The groups of a queue.

The row of each group agrees with its messages and its position in the line.

    group, number ──▶ message                  each row refers to a message of that group and number
         │
         └── counted ──▶ row of the group      counts, numbers, the last one
                            │   ▲
                  its place │   │ its id
                            ▼   │
                          chain row            if its due message can be delivered, and it is not
                                               stopped; another one if the whole rest can be
                                               delivered

The messages of groups and the group rows are in the same order. Therefore, both are read in
parallel, in constant memory. The check of each message includes its index row (index.py).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

from qmgr_protocol import group_id as group_ids
from qmgr_protocol.codec import unpack
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.verify.definitions import NONSENSE, unsealed
from qmgrd.verify.finding import Findings
from qmgrd.verify.index import IndexCheck

_GROUP_AT, _NUMBER_AT = keys.GROUP_ID_AT, keys.GROUP_ID_AT + 24
_LANES = (keys.LANE_GROUPED, keys.LANE_DELAYED)


@dataclass
class GroupTally:
    """The messages of a group that were found."""

    count: int = 0
    waiting: int = 0
    lowest: int = 0
    highest: int = 0
    last: int = 0  # number of the message that is marked as the last

    def add(self, number: int, position: bytes, *, is_last: bool) -> None:
        """Counts a message. Messages must be added in ascending order of their numbers."""
        self.count += position[keys.LANE_AT] == keys.LANE_GROUPED
        self.waiting += position[keys.LANE_AT] == keys.LANE_DELAYED
        self.lowest = self.lowest or number
        self.highest = number
        if is_last:
            self.last = number


def check_groups(
    found: Findings, tx: Transaction, queue_id: int, name: str, messages: IndexCheck
) -> None:
    """Checks the groups of a queue, whose *messages* were checked before."""
    _GroupsCheck(found, tx, queue_id, name, messages).run()


class _GroupsCheck:
    def __init__(
        self, found: Findings, tx: Transaction, queue_id: int, name: str, messages: IndexCheck
    ) -> None:
        self._found, self._tx, self._id, self._name = found, tx, queue_id, name
        self._messages = messages

    def run(self) -> None:
        rows_ = self._rows()
        known = next(rows_, None)
        for group_id, seen in self._members():
            while known is not None and known[0] < group_id:
                self._check(*known, GroupTally())
                known = next(rows_, None)
            if known is not None and known[0] == group_id:
                self._check(*known, seen)
                known = next(rows_, None)
            elif group_id not in self._messages.reported and (seen.count or seen.waiting):
                self._report("group-row", group_id, "has messages, but no row")
        while known is not None:
            self._check(*known, GroupTally())
            known = next(rows_, None)
        self._check_chain()

    def _report(self, fault: str, group_id: bytes, what: str, key: bytes = b"") -> None:
        key = key or keys.group_row(self._id, group_id)
        group = f"group {group_ids.shown(group_id)} on queue {self._name}"
        self._found.add(fault, key, f"{group} {what}")
        self._messages.reported.add(group_id)

    def _rows(self) -> Iterator[tuple[bytes, GroupRow | None]]:
        """Yields the known groups in order, with None for an unreadable row."""
        prefix = keys.of_queue(keys.SPACE_GROUP_ROW, self._id)
        sound = unsealed(self._found, self._tx, prefix)
        following = next(sound, None)
        for key, _ in self._tx.scan(prefix, keys.after(prefix)):
            row = None
            if following is not None and following[0] == key:
                row = self._decoded(*following)
                following = next(sound, None)
            yield key[_GROUP_AT:], row

    def _decoded(self, key: bytes, data: bytes) -> GroupRow | None:
        try:
            row = GroupRow.decode(data)
        except NONSENSE:
            row = None
        if row is None or not _is_typed(row):
            self._report("content", key[_GROUP_AT:], "has a row with invalid content")
            return None
        return row

    # Messages

    def _members(self) -> Iterator[tuple[bytes, GroupTally]]:
        """Yields each group and the messages found for it, in order."""
        for group_id, members in groupby(self._leading(), lambda member: member[0]):
            seen = GroupTally()
            for _, number, position in members:
                self._count(seen, group_id, number, position)
            yield group_id, seen

    def _leading(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Yields the rows that refer to messages of groups: group, number, position."""
        prefix = keys.of_queue(keys.SPACE_GROUP, self._id)
        for key, position in self._tx.scan(prefix, keys.after(prefix)):
            self._found.looked_at(1)
            if group_index.is_sound(key, position):
                run = group_index.decode(key, position)
                for number in range(run.first, run.last + 1):
                    yield key[_GROUP_AT:_NUMBER_AT], number, run.at(number)
            else:
                self._found.add("key", key, f"a row of a group on queue {self._name} is invalid")

    def _count(self, seen: GroupTally, group_id: bytes, number: int, position: bytes) -> None:
        """Counts the message to which a row refers, if it exists."""
        if position in self._messages.unsound:
            # The message is damaged, so its flags are unknown.
            seen.add(number, position, is_last=False)
            return
        value = self._tx.get(keys.of_queue(keys.SPACE_MESSAGE, self._id) + position)
        if value is not None and position[keys.LANE_AT] in _LANES:
            front = entries.front(self._tx, entries.decode(value))
            if index.selected_by(front)[1] == (group_id, number):
                seen.add(number, position, is_last=index.is_last(front))
                return
        if group_id in self._messages.reported:
            return
        key = keys.group(self._id, group_id, number)
        what = f"has number {number} at {position.hex()}, but no such message exists there"
        self._report("select-orphan", group_id, what, key)

    # Rows

    def _check(self, group_id: bytes, row: GroupRow | None, seen: GroupTally) -> None:
        """Compares the row of a group with its messages."""
        if row is None or group_id in self._messages.reported:
            return  # The fault was already reported.
        if what := _contradiction(row, seen):
            self._report("group-row", group_id, what)
            return
        if row.due_ms:
            due = keys.due(row.due_ms, self._id, keys.LANE_GROUP, 0, row.born)
            if self._tx.get(due) != group_id:
                self._report(
                    "due-missing", group_id, f"is not in the schedule at {row.due_ms}", due
                )
        self._check_turn(group_id, row)

    def _check_turn(self, group_id: bytes, row: GroupRow) -> None:
        prefix = group_index.prefix_of(self._id, group_id)
        due = group_index.find(self._tx, prefix, row.due)
        has_turn = due is not None and due[0] == keys.LANE_GROUPED and not row.is_stopped
        if has_turn != bool(row.place):
            turn = "is in line" if row.place else "is not in line"
            can = "can" if has_turn else "cannot"
            what = f"{turn} according to its row, but number {row.due} {can} be delivered"
            self._report("group-row", group_id, what)
        elif row.place and self._tx.get(chain := keys.chain(self._id, row.place)) != group_id:
            self._report("chain-missing", group_id, "is not found at its position", chain)
        else:
            self._check_listed(group_id, row)

    def _check_listed(self, group_id: bytes, row: GroupRow) -> None:
        """Checks that a group is listed as complete exactly if it is complete."""
        is_complete = bool(row.place) and row.is_rest_ready
        if row.is_listed != is_complete:
            if row.is_listed or not self._is_being_listed():
                verb = "is" if row.is_listed else "is not"
                self._report("group-row", group_id, f"{verb} listed as complete in its row")
        elif is_complete and self._tx.get(key := keys.complete(self._id, row.place)) != group_id:
            self._report("complete-missing", group_id, "is missing from the complete groups", key)

    def _is_being_listed(self) -> bool:
        """Returns whether a job is still listing the groups that an older version wrote."""
        if self._tx.get(keys.LISTED) is None:
            return True
        for _, row in unsealed(Findings(), self._tx, keys.SPACE_JOB):
            with suppress(*NONSENSE):
                facts = unpack(row)
                if (facts["kind"], facts["queue_id"]) == ("watch", self._id):
                    return not facts.get("ended_us")
        return False

    def _check_chain(self) -> None:
        """Finds groups that are twice in the line, and incomplete groups listed as complete."""
        for space in (keys.SPACE_CHAIN, keys.SPACE_COMPLETE):
            prefix = keys.of_queue(space, self._id)
            for key, group_id in self._tx.scan(prefix, keys.after(prefix)):
                self._found.looked_at(1)
                place = self._place(group_id, is_listed=space == keys.SPACE_COMPLETE)
                if place not in (None, key[keys.POSITION_AT :]):
                    self._report("chain-orphan", group_id, "is not in line there", key)

    def _place(self, group_id: bytes, *, is_listed: bool) -> bytes | None:
        """Returns the position of a group by its row, or None if the group was already reported."""
        if group_id in self._messages.reported:
            return None
        try:
            data = rows.find(self._tx, keys.group_row(self._id, group_id), self._name)
            row = GroupRow() if data is None else GroupRow.decode(data)
        except NONSENSE:
            return None
        return b"" if is_listed and not row.is_listed else row.place


def _is_typed(row: GroupRow) -> bool:
    """Returns whether all fields of *row* have the right type."""
    usual = GroupRow()
    return all(type(getattr(row, name)) is type(getattr(usual, name)) for name in row.__slots__)


def _contradiction(row: GroupRow, seen: GroupTally) -> str:
    """Returns a description of the contradiction between a group's row and its messages, or ""."""
    if (row.count, row.waiting) != (seen.count, seen.waiting):
        return (
            f"counts {row.count} messages and {row.waiting} delayed, "
            f"but it has {seen.count} and {seen.waiting}"
        )
    if seen.highest > row.highest:
        return f"has number {row.highest} as its highest number, but has {seen.highest}"
    if row.last and seen.highest > row.last:
        return f"ends with number {row.last}, but has number {seen.highest}"
    if seen.last and seen.last != row.last:
        return f"ends with number {row.last}, but {seen.last} is its last"
    if 0 < seen.lowest <= row.done:
        return f"continues after number {row.done}, but has number {seen.lowest}"
    return ""
