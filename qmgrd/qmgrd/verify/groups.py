"""The groups of a queue: what is stored of each agrees with its messages, and so does its turn.

    group, number ──▶ message                  each leads to one of that group and number
         │
         └── counted ──▶ row of the group      counts, numbers, what its last is
                            │   ▲
                  its place │   │ its id
                            ▼   │
                          chain row            if its due message can be got, and it is not stopped;
                                               another one if all that has not left can be got

Messages of a group and groups are in the same order, so they are gone through side by side; nothing
grows with them. That each message has its row is checked with the message: verify_index.py.
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
class Seen:
    """What was seen of the messages of a group."""

    count: int = 0
    waiting: int = 0
    lowest: int = 0
    highest: int = 0
    last: int = 0  # the number of one that says that it is the last

    def add(self, number: int, position: bytes, *, is_last: bool) -> None:
        """Counts a message, behind those of lower numbers."""
        self.count += position[0] == keys.LANE_GROUPED
        self.waiting += position[0] == keys.LANE_DELAYED
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
                self._check(*known, Seen())
                known = next(rows_, None)
            if known is not None and known[0] == group_id:
                self._check(*known, seen)
                known = next(rows_, None)
            elif group_id not in self._messages.told and (seen.count or seen.waiting):
                self._tell("group-row", group_id, "has messages, and no row")
        while known is not None:
            self._check(*known, Seen())
            known = next(rows_, None)
        self._check_chain()

    def _tell(self, fault: str, group_id: bytes, what: str, key: bytes = b"") -> None:
        key = key or keys.group_row(self._id, group_id)
        group = f"group {group_ids.shown(group_id)} on queue {self._name}"
        self._found.add(fault, key, f"{group} {what}")
        self._messages.told.add(group_id)

    def _rows(self) -> Iterator[tuple[bytes, GroupRow | None]]:
        """Yields the groups that are known, in order; None for what of them cannot be read."""
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
            self._tell("content", key[_GROUP_AT:], "has a row that makes no sense")
            return None
        return row

    # Messages

    def _members(self) -> Iterator[tuple[bytes, Seen]]:
        """Yields what is there of each group, in order."""
        for group_id, members in groupby(self._leading(), lambda member: member[0]):
            seen = Seen()
            for _, number, position in members:
                self._count(seen, group_id, number, position)
            yield group_id, seen

    def _leading(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Yields the rows that lead to messages of groups: group, number, position."""
        prefix = keys.of_queue(keys.SPACE_GROUP, self._id)
        for key, position in self._tx.scan(prefix, keys.after(prefix)):
            self._found.looked_at(1)
            if group_index.is_sound(key, position):
                run = group_index.decode(key, position)
                for number in range(run.first, run.last + 1):
                    yield key[_GROUP_AT:_NUMBER_AT], number, run.at(number)
            else:
                self._found.add("key", key, f"a row of a group on queue {self._name} is no row")

    def _count(self, seen: Seen, group_id: bytes, number: int, position: bytes) -> None:
        """Counts the message that a row leads to, where it is one."""
        if position in self._messages.unsound:
            seen.add(number, position, is_last=False)  # What it is nobody knows.
            return
        value = self._tx.get(keys.of_queue(keys.SPACE_MESSAGE, self._id) + position)
        if value is not None and position[0] in _LANES:
            front = entries.front(self._tx, entries.decode(value))
            if index.selected_by(front)[1] == (group_id, number):
                seen.add(number, position, is_last=index.is_last(front))
                return
        if group_id in self._messages.told:
            return
        key = keys.group(self._id, group_id, number)
        what = f"has number {number} at {position.hex()}, where no such message is"
        self._tell("select-orphan", group_id, what, key)

    # Rows

    def _check(self, group_id: bytes, row: GroupRow | None, seen: Seen) -> None:
        """Holds what is stored of a group against what was seen of it."""
        if row is None or group_id in self._messages.told:
            return  # Told already.
        if what := _contradiction(row, seen):
            self._tell("group-row", group_id, what)
            return
        if row.due_ms:
            due = keys.due(row.due_ms, self._id, keys.LANE_GROUP, 0, row.born)
            if self._tx.get(due) != group_id:
                self._tell("due-missing", group_id, f"is not in the schedule at {row.due_ms}", due)
        self._check_turn(group_id, row)

    def _check_turn(self, group_id: bytes, row: GroupRow) -> None:
        prefix = group_index.prefix_of(self._id, group_id)
        due = group_index.find(self._tx, prefix, row.due)
        has_turn = due is not None and due[0] == keys.LANE_GROUPED and not row.is_stopped
        if has_turn != bool(row.place):
            said = "has" if row.place else "has not"
            is_there = "can be got" if has_turn else "cannot be got"
            what = f"{said} its turn by its row, and number {row.due} {is_there}"
            self._tell("group-row", group_id, what)
        elif row.place and self._tx.get(chain := keys.chain(self._id, row.place)) != group_id:
            self._tell("chain-missing", group_id, "is not found where it has its turn", chain)
        else:
            self._check_listed(group_id, row)

    def _check_listed(self, group_id: bytes, row: GroupRow) -> None:
        """Checks that a group is among the complete ones exactly if it is complete."""
        is_complete = bool(row.place) and row.is_rest_ready
        if row.is_listed != is_complete:
            if row.is_listed or not self._is_being_listed():
                said = "is" if row.is_listed else "is not"
                self._tell("group-row", group_id, f"{said} listed as complete by its row")
        elif is_complete and self._tx.get(key := keys.complete(self._id, row.place)) != group_id:
            self._tell("complete-missing", group_id, "is not found among the complete ones", key)

    def _is_being_listed(self) -> bool:
        """Returns whether a job still lists the groups that an older version wrote."""
        if self._tx.get(keys.LISTED) is None:
            return True
        for _, row in unsealed(Findings(), self._tx, keys.SPACE_JOB):
            with suppress(*NONSENSE):
                facts = unpack(row)
                if (facts["kind"], facts["queue_id"]) == ("watch", self._id):
                    return not facts.get("ended_us")
        return False

    def _check_chain(self) -> None:
        """Finds the groups that have a turn beside their own, or are listed and not complete."""
        for space in (keys.SPACE_CHAIN, keys.SPACE_COMPLETE):
            prefix = keys.of_queue(space, self._id)
            for key, group_id in self._tx.scan(prefix, keys.after(prefix)):
                self._found.looked_at(1)
                place = self._place(group_id, is_listed=space == keys.SPACE_COMPLETE)
                if place not in (None, key[keys.POSITION_AT :]):
                    self._tell("chain-orphan", group_id, "has no turn there", key)

    def _place(self, group_id: bytes, *, is_listed: bool) -> bytes | None:
        """Returns where a group has its turn by its row; None where more was told of it."""
        if group_id in self._messages.told:
            return None
        try:
            data = rows.find(self._tx, keys.group_row(self._id, group_id), self._name)
            row = GroupRow() if data is None else GroupRow.decode(data)
        except NONSENSE:
            return None
        return b"" if is_listed and not row.is_listed else row.place


def _is_typed(row: GroupRow) -> bool:
    """Returns whether all in *row* is of the kind that it is to be."""
    usual = GroupRow()
    return all(type(getattr(row, name)) is type(getattr(usual, name)) for name in row.__slots__)


def _contradiction(row: GroupRow, seen: Seen) -> str:
    """Returns in what the row of a group is not what was *seen* of it; nothing where it is."""
    if (row.count, row.waiting) != (seen.count, seen.waiting):
        return (
            f"counts {row.count} messages and {row.waiting} delayed, "
            f"{seen.count} and {seen.waiting} are there"
        )
    if seen.highest > row.highest:
        return f"has number {row.highest} as its highest, and {seen.highest} is there"
    if row.last and seen.highest > row.last:
        return f"ends with number {row.last}, and {seen.highest} is there"
    if seen.last and seen.last != row.last:
        return f"ends with number {row.last}, and {seen.last} is its last"
    if 0 < seen.lowest <= row.done:
        return f"goes on behind number {row.done}, and {seen.lowest} is there"
    return ""
