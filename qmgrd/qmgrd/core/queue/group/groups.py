"""The groups of one queue: their rows, and the order in which consumers begin them.

    put, wake ──enter──▶ index: number ──▶ place      row: counts, departed members, last number
    ack, move ──leave──▶   │
                           ▼
    refresh: is the due member available? ──▶ chain: place ──▶ group, for consumers to begin

The place of a group is the place of its due member. Therefore, a consumer in logical order merges
two ordered lists, the ungrouped messages and the chain. The consumer skips only groups that other
consumers hold. The row of a group states whether the group is complete, so this module never reads
all members of a group. Memory does not grow with the number of groups, because ``_rows`` is a
bounded cache.

Groups that changed in a turn are refreshed before messages are delivered. Their rows are written
once, at the end of the turn.
"""

from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import GROUP_NUMBER_MAX
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.queue.group import chain as group_chain
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.admission import (
    UncommittedMembers,
    check_number,
    check_row,
    number_taken_error,
)
from qmgrd.core.queue.group.held_groups import HeldGroups, Member
from qmgrd.core.queue.group.restore import read
from qmgrd.core.queue.group.row import NO_PLACE, GroupRow

ROWS_CACHED_MAX = 10_000
# The number of rows: the group's row, its row in the chain, and one of the complete groups or the
# schedule.
ROWS_OF_A_GROUP = 3
# The maximum number of rows of a put, in addition to entry and UID.
ROWS_OF_A_MEMBER = 1 + ROWS_OF_A_GROUP
_PRIORITIES = range(keys.PRIORITY_TOP + 1)
NEVER = 1 << 63  # a value above all arrival numbers
_NOW_MS = -1  # a value that means the time of this turn, which refresh fills in


class Groups:
    """All groups of one queue.

    Invariant after :meth:`refresh`: a group is in the chain, at the place in its row, if its due
    member is available and the group is not stopped. Groups in the chain that no reader holds are
    at or after ``heads``. Those that are whole are at or after ``whole_heads``. Those whose
    remaining members are all available are at or after ``rest_heads``.
    """

    def __init__(self, queue_id: int, name: str, schedule: Schedule) -> None:
        self.held_groups = HeldGroups()
        self.heads = [0] * len(_PRIORITIES)
        self.whole_heads, self.rest_heads = [0] * len(_PRIORITIES), [0] * len(_PRIORITIES)
        # Parked groups that can be backed out, because all members have arrived.
        self.ripe: dict[bytes, None] = {}
        self.sweeps = 0  # the number of jobs that remove lost members, which the rows still count
        self.wrote = False  # whether this turn wrote rows of groups
        # Groups whose rows were rebuilt, which must be logged.
        self.restored: dict[bytes, None] = {}
        self.has_new_bounds = (
            False  # whether the limits have changed, so that all groups must be checked
        )
        self._is_freed = False  # whether a reader may begin another group, or a sweep has ended
        self._id = queue_id
        self._name = name
        self._schedule = schedule
        self._rows: dict[bytes, GroupRow] = {}
        self._stored: dict[bytes, bytes] = {}  # the stored form of the cached rows
        self._touched: dict[bytes, None] = {}  # groups whose place or row may have changed
        self.pending = UncommittedMembers()

    def row(self, tx: Transaction, group_id: bytes) -> GroupRow | None:
        """Returns the row of a group, or None."""
        found = self._rows.get(group_id)
        if found is None:
            found, stored = read(tx, self._id, self._name, group_id, self.restored)
            if found is not None:
                self._rows[group_id], self._stored[group_id] = found, stored
        return found

    def peek(self, tx: Transaction, group_id: bytes) -> GroupRow | None:
        """Returns the row of a group for reading only. The row is not cached."""
        found = self._rows.get(group_id)
        if found is None:
            found, _ = read(tx, self._id, self._name, group_id, self.restored)
        return found

    def is_complete(self, tx: Transaction, group_id: bytes, *, or_rest: bool = False) -> bool:
        """Returns whether all members of a group are available, and none is leased.

        With *or_rest*, only members that have not left are required. No group counts as available
        while a job removes messages that a restart lost.
        """
        row = self.peek(tx, group_id)
        if row is None or self.sweeps or self.held_groups.leased_of(group_id):
            return False
        return row.is_rest_ready if or_rest else row.is_whole

    def position(self, tx: Transaction, member: Member) -> bytes | None:
        """Returns the position of a member, or None."""
        prefix = group_index.prefix_of(self._id, member.group_id)
        return group_index.find(tx, prefix, member.number)

    @property
    def is_fresh(self) -> bool:
        """Whether :meth:`refresh` would change nothing."""
        waiting = self._touched or self.ripe or self._is_freed or self.has_new_bounds
        return not (waiting or self.held_groups.freed or self.held_groups.idle)

    @property
    def rows_to_refresh(self) -> int:
        """The approximate number of rows that :meth:`refresh` will read and write."""
        return ROWS_OF_A_GROUP * len(self._touched)

    def check(self, tx: Transaction, member: Member, *, is_last: bool) -> None:
        """Raises RequestError if a member must not be put. See queue/group/admission.py."""
        check_number(member)
        row = self.row(tx, member.group_id)
        if row is not None:
            check_row(self._name, row, member, is_last=is_last)
        if self.position(tx, member) is not None:
            raise number_taken_error(self._name, member, "already exists")
        error = self.pending.error(self._name, member, is_last=is_last)
        if error is not None:
            raise error

    def admits(self, tx: Transaction, member: Member, *, is_last: bool = False) -> bool:
        """Returns whether a message that is moved to this queue can be a member of its group.

        A moved message that conflicts with an earlier member becomes ungrouped. A put of such a
        message would be refused.
        """
        row, number = self.row(tx, member.group_id), member.number
        if row is not None and (
            row.has_left(number) or 0 < row.last < number or (is_last and number < row.highest)
        ):
            return False
        if self.pending.error(self._name, member, is_last=is_last) is not None:
            return False
        return 1 <= number <= GROUP_NUMBER_MAX and self.position(tx, member) is None

    def enter(
        self, tx: Transaction, member: Member, position: bytes, *, is_last: bool, put_us: int
    ) -> None:
        """Adds a member that is stored at *position*."""
        row, arrival = self.row(tx, member.group_id), int.from_bytes(position[keys.ARRIVAL], "big")
        if row is None:
            row = self._rows[member.group_id] = GroupRow()
        if not row.born:
            row.born, row.lowest, row.first_us = arrival, arrival, put_us
        row.lowest = min(row.lowest, arrival)
        run = group_index.MemberRun(member.number, member.number, position)
        tx.put(*group_index.row(group_index.prefix_of(self._id, member.group_id), run))
        if position[keys.LANE_AT] == keys.LANE_GROUPED:
            row.count += 1
        else:
            row.waiting += 1
        row.highest = max(row.highest, member.number)
        if is_last:
            row.last = member.number
        row.changed_ms = _NOW_MS
        self._touched[member.group_id] = None

    def next_to_put(self, tx: Transaction, group_id: bytes) -> int:
        """Returns the number after the highest number of a group, or 0 if no run may begin
        there.
        """
        row = self.row(tx, group_id)
        if self.pending or (row is not None and row.last):
            return 0
        return 1 if row is None else row.highest + 1

    def enter_run(
        self,
        tx: Transaction,
        group_id: bytes,
        arrival: int,
        count: int,
        put_us: int,
        *,
        is_last: bool,
    ) -> None:
        """Adds the next *count* members, whose entries are stored. The first has *arrival*."""
        row = self.row(tx, group_id)
        if row is None:
            row = self._rows[group_id] = GroupRow()
        if not row.born:
            row.born, row.lowest, row.first_us = arrival, arrival, put_us
        row.count += count
        row.highest += count
        if is_last:
            row.last = row.highest
        row.changed_ms = _NOW_MS
        self._touched[group_id] = None

    def acknowledge(self, tx: Transaction, group_id: bytes, numbers: list[int]) -> None:
        """Removes acknowledged members from their group. The caller deletes their entries."""
        group_index.take_out(tx, group_index.prefix_of(self._id, group_id), numbers)
        row = self.row(tx, group_id)
        if row is not None:
            row.count -= len(numbers)
            row.leave_all(numbers)
            row.changed_ms = _NOW_MS
        self._touched[group_id] = None
        self.held_groups.end_if_over(group_id)

    def leave(self, tx: Transaction, member: Member, position: bytes, *, for_good: bool) -> bool:
        """Removes a member at *position*. Returns False if the message is not a member."""
        prefix = group_index.prefix_of(self._id, member.group_id)
        if group_index.find(tx, prefix, member.number) != position:
            return False
        group_index.take_out(tx, prefix, [member.number])
        row = self.row(tx, member.group_id)
        if row is None:
            return True  # The index row is damaged and refers to an unknown group.
        if position[keys.LANE_AT] == keys.LANE_GROUPED:
            row.count -= 1
        else:
            row.waiting -= 1
        if for_good:
            row.leave(member.number)
        row.changed_ms = _NOW_MS
        self._touched[member.group_id] = None
        return True

    def inherit(self, tx: Transaction, group_id: bytes, there: GroupRow) -> None:
        """Continues a group that moves from another queue, where its row is *there*."""
        if there.left_count and self.row(tx, group_id) is None:
            # Numbers that open units of work will put here must not count as left.
            row = there.only_left(below=self.pending.first(group_id, 0, there.highest + 1))
            if row.left_count:
                # The row is stored even if the moved message does not become a member here.
                row.changed_ms = _NOW_MS
                self._rows[group_id], self._touched[group_id] = row, None

    # Places in the chain

    def mark_changed(self, group_id: bytes) -> None:
        """Marks a group for :meth:`refresh`, which writes its row if the row changed."""
        self._touched[group_id] = None

    def skip_refresh(self) -> None:
        """Forgets the groups to refresh. The chain may no longer match the rows afterwards."""
        self.held_groups.end_idle()
        self._touched, self.ripe = {}, {}
        self._is_freed = self.has_new_bounds = False

    def refresh(self, tx: Transaction, now: Now, bounds: Bounds) -> tuple[list[bytes], int]:
        """Updates the chain to match the rows.

        Returns:
            The places of due members that may be available now, and the lowest arrival number of a
            group that may be complete now, or NEVER.
        """
        touched, self._touched = self._touched, {}
        touched |= self.held_groups.end_idle()
        whole_from = NEVER
        called: list[bytes] = []
        for group_id in touched:
            row = self.row(tx, group_id)
            if row is not None:
                if row.changed_ms == _NOW_MS:
                    row.changed_ms = now.ms
                called += self._update_chain(tx, group_id, row)
                if row.is_whole:
                    whole_from = min(whole_from, row.lowest)
                self._store(tx, now, bounds, group_id, row)
        if self._is_freed:
            self._is_freed = False
            called.append(NO_PLACE)
            whole_from = 0
        if len(self._rows) > ROWS_CACHED_MAX:
            self._rows.clear()
            self._stored.clear()
        return called, whole_from

    def _update_chain(self, tx: Transaction, group_id: bytes, row: GroupRow) -> list[bytes]:
        """Updates a group in the chain. Returns its place if further members may be available."""
        place, position = NO_PLACE, None
        if row.count and not row.is_stopped:
            position = self.position(tx, Member(group_id, row.due))
        if position is not None and position[keys.LANE_AT] == keys.LANE_GROUPED:
            place = position[keys.IN_LANE]
        self.wrote |= group_chain.move(tx, self._id, group_id, row, place)
        return [place] if self._notify_reader(group_id, row) else []

    def _notify_reader(self, group_id: bytes, row: GroupRow) -> bool:
        """Offers a changed group to its reader, or to all readers if the group is free.

        Returns:
            Whether the group may have available members.
        """
        held_group = self.held_groups.by_group.get(group_id)
        if held_group is not None:
            if held_group.reader is not None and not row.is_stopped:
                held_group.reader.calling[group_id] = None
                return True
            return False
        if not row.place:
            return False
        rank, arrival = keys.PLACE.unpack(row.place)
        priority = keys.PRIORITY_TOP - rank
        self.heads[priority] = min(self.heads[priority], arrival)
        if row.is_rest_ready and not self.sweeps:
            self.rest_heads[priority] = min(self.rest_heads[priority], arrival)
        if row.is_whole and not self.sweeps:
            self.whole_heads[priority] = min(self.whole_heads[priority], arrival)
        return True

    def begin_sweep(self) -> None:
        """Treats all groups as incomplete until :meth:`end_sweep`."""
        self.sweeps += 1
        self.whole_heads, self.rest_heads = [NEVER] * len(_PRIORITIES), [NEVER] * len(_PRIORITIES)

    def end_sweep(self) -> None:
        """Makes complete groups available again."""
        self.sweeps -= 1
        if not self.sweeps:
            self.whole_heads, self.rest_heads = [0] * len(_PRIORITIES), [0] * len(_PRIORITIES)
            self._is_freed = True

    # The stored rows

    def _store(
        self, tx: Transaction, now: Now, bounds: Bounds, group_id: bytes, row: GroupRow
    ) -> None:
        if row.must_end:
            self.ripe[group_id] = None
        if self._is_over(row):
            self.forget(tx, group_id)
            return
        if row.is_closed and row.is_empty:
            self._free(group_id)
        self._watch(tx, now, bounds, group_id, row)
        data = row.encode()
        if self._stored.get(group_id) != data:
            rows.put(tx, keys.group_row(self._id, group_id), data)
            self._stored[group_id] = data
            self.wrote = True

    def _is_over(self, row: GroupRow) -> bool:
        """Returns whether a group can be forgotten.

        A group that its producer ended can be forgotten once it is empty. A group that an operator
        closed is remembered for some time so that further puts are refused.
        """
        if not row.is_empty or row.is_paused or (row.is_closed and row.last):
            return False
        return not row.left_count or 0 < row.last <= row.done

    def _watch(
        self, tx: Transaction, now: Now, bounds: Bounds, group_id: bytes, row: GroupRow
    ) -> None:
        """Schedules the next check of a group that may expire or be forgotten."""
        wait_ms = bounds.group_retention_ms if row.is_empty else bounds.group_incomplete_ms
        if not wait_ms or (row.is_rest_here and not row.is_empty):
            return
        if 0 < row.due_ms <= now.ms + wait_ms:
            return
        if row.due_ms:  # The schedule has a row from the time when the group was empty.
            tx.delete(keys.due(row.due_ms, self._id, keys.LANE_GROUP, 0, row.born))
        row.due_ms = now.ms + wait_ms
        self._schedule.add(tx, row.due_ms, self._id, keys.LANE_GROUP, 0, row.born, group_id)

    def is_due(self, tx: Transaction, now: Now, bounds: Bounds, group_id: bytes) -> bool:
        """Returns whether a group expires now. The caller has removed its row from the schedule.

        A group that was empty for too long is forgotten. For any other group, the next check is
        scheduled.
        """
        row = self.row(tx, group_id)
        if row is None:
            return False
        row.due_ms = 0
        self._touched[group_id] = None
        if row.is_paused or row.parked_number:
            return False
        wait_ms = bounds.group_retention_ms if row.is_empty else bounds.group_incomplete_ms
        over_ms = (now.ms if row.changed_ms == _NOW_MS else row.changed_ms) + wait_ms
        if not wait_ms or (row.is_rest_here and not row.is_empty):
            return False
        if over_ms > now.ms:
            row.due_ms = over_ms
            self._schedule.add(tx, over_ms, self._id, keys.LANE_GROUP, 0, row.born, group_id)
            return False
        if row.is_empty:
            self.forget(tx, group_id)
            return False
        row.parked_number, row.parked_code = row.due, int(ErrorCode.GROUP_EXPIRED)
        self.ripe[group_id] = None
        return True

    def forget(self, tx: Transaction, group_id: bytes) -> None:
        """Forgets an empty group. Its reader may begin other groups."""
        self._free(group_id)
        row = self._rows.pop(group_id)
        self.wrote = True
        self._stored.pop(group_id, None)
        self.ripe.pop(group_id, None)
        tx.delete(keys.group_row(self._id, group_id))
        group_chain.take_out(tx, self._id, group_id, row)
        if row.due_ms:
            tx.delete(keys.due(row.due_ms, self._id, keys.LANE_GROUP, 0, row.born))

    def end(self, tx: Transaction, group_id: bytes, row: GroupRow) -> None:
        """Ends a group whose members all left the queue together. See group_end.py."""
        if not row.is_closed:
            self.forget(tx, group_id)
            return
        # The row remains, to show that the group was closed.
        row.parked_number, row.parked_code = 0, 0
        self.ripe.pop(group_id, None)
        self.mark_changed(group_id)

    def _free(self, group_id: bytes) -> None:
        """Allows the reader of a group that has ended to begin other groups."""
        if group_id in self.held_groups.by_group:
            self.held_groups.end(group_id)
            self._is_freed = True
