"""The groups of one queue: what is stored of them, and whose turn each is.

    put, wake ──enter──▶ index: number ──▶ place      row: counts, what left, last
    ack, move ──leave──▶   │
                           ▼
    refresh: is the due member there? ──▶ chain: place ──▶ group, for who begins one

A group has its turn at the place of the member that is due. So a getter in logical order goes
through two lists that are in the order of places, the messages of no group and the chain, and steps
over nothing but what others hold. Whether all of a group is there is told by its row. Nothing here
walks a group, and nothing in memory grows with the groups at rest: ``_rows`` is a bounded cache.

What changed in a turn is looked at before messages are handed out, and written once, at its end.
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
from qmgrd.core.queue.group.admission import Pending, check_number, check_row, taken
from qmgrd.core.queue.group.hold import Holds, Member
from qmgrd.core.queue.group.restore import read
from qmgrd.core.queue.group.row import NO_PLACE, GroupRow

ROWS_CACHED_MAX = 10_000
ROWS_OF_A_GROUP = 3  # its own, its turn, and it is complete or in the schedule
ROWS_OF_A_MEMBER = 1 + ROWS_OF_A_GROUP  # what a put writes at most, beside entry and UID
_PRIORITIES = range(keys.PRIORITY_TOP + 1)
NEVER = 1 << 63  # above all arrivals
_NOW_MS = -1  # in this turn, whose time is known when the groups are refreshed


class Groups:
    """All groups of one queue.

    Invariant, once refreshed: a group is in the chain, at the place in its row, if its due member
    can be got and it is not stopped. Groups in the chain that nobody holds lie behind ``heads``;
    those that are whole, too, behind ``whole_heads``, and of which all that has not left is there,
    behind ``rest_heads``.
    """

    def __init__(self, queue_id: int, name: str, schedule: Schedule) -> None:
        self.holds = Holds()
        self.heads = [0] * len(_PRIORITIES)
        self.whole_heads, self.rest_heads = [0] * len(_PRIORITIES), [0] * len(_PRIORITIES)
        self.ripe: dict[bytes, None] = {}  # parked, and all of it is there: to be backed out
        self.sweeps = 0  # jobs that remove what is gone with a restart, and is counted still
        self.wrote = False  # in this turn
        self.restored: dict[bytes, None] = {}  # of which the row made no sense, to be logged
        self.is_held_anew = False  # to other bounds: those at rest are to be looked at
        self._is_freed = False  # a reader, by the end of its group, or groups, by that of a sweep
        self._id = queue_id
        self._name = name
        self._schedule = schedule
        self._rows: dict[bytes, GroupRow] = {}
        self._stored: dict[bytes, bytes] = {}  # of these, what the store has
        self._touched: dict[bytes, None] = {}  # their turn may have come, or their row changed
        self.pending = Pending()

    def row(self, tx: Transaction, group_id: bytes) -> GroupRow | None:
        """Return what is known of a group, or None."""
        found = self._rows.get(group_id)
        if found is None:
            found, stored = read(tx, self._id, self._name, group_id, self.restored)
            if found is not None:
                self._rows[group_id], self._stored[group_id] = found, stored
        return found

    def peek(self, tx: Transaction, group_id: bytes) -> GroupRow | None:
        """Return the same, to be read and not to be changed: what is asked for keeps no memory."""
        found = self._rows.get(group_id)
        if found is None:
            found, _ = read(tx, self._id, self._name, group_id, self.restored)
        return found

    def is_all_there(self, tx: Transaction, group_id: bytes, *, or_rest: bool = False) -> bool:
        """Return whether all of a group, to the last, can be had, and is leased to nobody.

        With *or_rest* that is all that has not left. No group is while a job removes what is gone
        with a restart.
        """
        row = self.peek(tx, group_id)
        if row is None or self.sweeps or self.holds.leased_of(group_id):
            return False
        return row.is_rest_ready if or_rest else row.is_whole

    def position(self, tx: Transaction, member: Member) -> bytes | None:
        """Return lane, 9 - priority and arrival of a member that is there, or None."""
        prefix = group_index.prefix_of(self._id, member.group_id)
        return group_index.find(tx, prefix, member.number)

    @property
    def is_fresh(self) -> bool:
        """Whether :meth:`refresh` has nothing to do."""
        waiting = self._touched or self.ripe or self._is_freed or self.is_held_anew
        return not (waiting or self.holds.freed or self.holds.idle)

    @property
    def rows_to_refresh(self) -> int:
        """How many rows :meth:`refresh` is going to read and write, about."""
        return ROWS_OF_A_GROUP * len(self._touched)

    def check(self, tx: Transaction, member: Member, *, is_last: bool) -> None:
        """Raise RequestError where a member may not be put: see queue/group/admission.py."""
        check_number(member)
        row = self.row(tx, member.group_id)
        if row is not None:
            check_row(self._name, row, member, is_last=is_last)
        if self.position(tx, member) is not None:
            raise taken(self._name, member, "is there already")
        error = self.pending.error(self._name, member, is_last=is_last)
        if error is not None:
            raise error

    def admits(self, tx: Transaction, member: Member, *, is_last: bool = False) -> bool:
        """Return whether a message that was not put, but moved here, is a member here.

        It is not where it contradicts what came before it: as a put it would be refused.
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
        """Take in a member that is at *position* from here on."""
        row, arrival = self.row(tx, member.group_id), int.from_bytes(position[2:], "big")
        if row is None:
            row = self._rows[member.group_id] = GroupRow()
        if not row.born:
            row.born, row.lowest, row.first_us = arrival, arrival, put_us
        row.lowest = min(row.lowest, arrival)
        run = group_index.Run(member.number, member.number, position)
        tx.put(*group_index.row(group_index.prefix_of(self._id, member.group_id), run))
        if position[0] == keys.LANE_GROUPED:
            row.count += 1
        else:
            row.waiting += 1
        row.highest = max(row.highest, member.number)
        if is_last:
            row.last = member.number
        row.changed_ms = _NOW_MS
        self._touched[member.group_id] = None

    def next_to_put(self, tx: Transaction, group_id: bytes) -> int:
        """Return the number behind all that ever came of a group; 0 where none may come so."""
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
        """Take in the next *count* members, whose rows are written; the first is at *arrival*."""
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
        """Have members that were leased leave for good, but for their entries."""
        group_index.take_out(tx, group_index.prefix_of(self._id, group_id), numbers)
        row = self.row(tx, group_id)
        if row is not None:
            row.count -= len(numbers)
            row.leave_all(numbers)
            row.changed_ms = _NOW_MS
        self._touched[group_id] = None
        self.holds.end_if_over(group_id)

    def leave(self, tx: Transaction, member: Member, position: bytes, *, for_good: bool) -> bool:
        """Have a member that was at *position* be there no more; return whether it was one."""
        prefix = group_index.prefix_of(self._id, member.group_id)
        if group_index.find(tx, prefix, member.number) != position:
            return False
        group_index.take_out(tx, prefix, [member.number])
        row = self.row(tx, member.group_id)
        if row is None:
            return True  # It rotted away.
        if position[0] == keys.LANE_GROUPED:
            row.count -= 1
        else:
            row.waiting -= 1
        if for_good:
            row.leave(member.number)
        row.changed_ms = _NOW_MS
        self._touched[member.group_id] = None
        return True

    def inherit(self, tx: Transaction, group_id: bytes, there: GroupRow) -> None:
        """Have a group that came from another queue go on where it was *there*."""
        if there.gone and self.row(tx, group_id) is None:
            # What units of work here are going to put is still to come, whatever left there.
            row = there.what_left(below=self.pending.first(group_id, 0, there.highest + 1))
            if row.gone:  # It is stored even if its message is no member here.
                row.changed_ms = _NOW_MS
                self._rows[group_id], self._touched[group_id] = row, None

    # Whose turn it is

    def touch(self, group_id: bytes) -> None:
        """Have the turn of a group looked at, and its row written if it is another one."""
        self._touched[group_id] = None

    def pass_over(self) -> None:
        """Forget what :meth:`refresh` would do, although the chain is not where the rows are."""
        self.holds.end_idle()
        self._touched, self.ripe = {}, {}
        self._is_freed = self.is_held_anew = False

    def refresh(self, tx: Transaction, now: Now, bounds: Bounds) -> tuple[list[bytes], int]:
        """Bring the chain to where the rows are.

        Returns:
            Places of due members whose turn may have come; the lowest arrival of a group that may
            be all there now, else NEVER.
        """
        touched, self._touched = self._touched, {}
        touched |= self.holds.end_idle()
        whole_from = NEVER
        called: list[bytes] = []
        for group_id in touched:
            row = self.row(tx, group_id)
            if row is not None:
                if row.changed_ms == _NOW_MS:
                    row.changed_ms = now.ms
                called += self._turn(tx, group_id, row)
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

    def _turn(self, tx: Transaction, group_id: bytes, row: GroupRow) -> list[bytes]:
        """Have a group be in the chain, or not; return its due place if there may be more of it."""
        place, position = NO_PLACE, None
        if row.count and not row.is_stopped:
            position = self.position(tx, Member(group_id, row.due))
        if position is not None and position[0] == keys.LANE_GROUPED:
            place = position[1:]
        self.wrote |= group_chain.move(tx, self._id, group_id, row, place)
        return [place] if self._call(group_id, row) else []

    def _call(self, group_id: bytes, row: GroupRow) -> bool:
        """Tell who may have more of a group."""
        hold = self.holds.by_group.get(group_id)
        if hold is not None:
            if hold.reader is not None and not row.is_stopped:
                hold.reader.calling[group_id] = None
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
        """Have no group count as whole until :meth:`end_sweep`."""
        self.sweeps += 1
        self.whole_heads, self.rest_heads = [NEVER] * len(_PRIORITIES), [NEVER] * len(_PRIORITIES)

    def end_sweep(self) -> None:
        """Have groups that are whole be found again."""
        self.sweeps -= 1
        if not self.sweeps:
            self.whole_heads, self.rest_heads = [0] * len(_PRIORITIES), [0] * len(_PRIORITIES)
            self._is_freed = True

    # At rest

    def _store(
        self, tx: Transaction, now: Now, bounds: Bounds, group_id: bytes, row: GroupRow
    ) -> None:
        if row.is_ripe:
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
        """Return whether nothing more is to be known of a group.

        Its producer said so. Where an operator did, who puts more of it has to be told for a while.
        """
        if not row.is_empty or row.is_paused or (row.is_closed and row.last):
            return False
        return not row.gone or 0 < row.last <= row.done

    def _watch(
        self, tx: Transaction, now: Now, bounds: Bounds, group_id: bytes, row: GroupRow
    ) -> None:
        """Have a group be looked at in time, where that may come to something."""
        wait_ms = bounds.group_retention_ms if row.is_empty else bounds.group_incomplete_ms
        if not wait_ms or (row.is_rest_here and not row.is_empty):
            return
        if 0 < row.due_ms <= now.ms + wait_ms:
            return
        if row.due_ms:  # As it was to be looked at when it would be forgotten.
            tx.delete(keys.due(row.due_ms, self._id, keys.LANE_GROUP, 0, row.born))
        row.due_ms = now.ms + wait_ms
        self._schedule.add(tx, row.due_ms, self._id, keys.LANE_GROUP, 0, row.born, group_id)

    def is_due(self, tx: Transaction, now: Now, bounds: Bounds, group_id: bytes) -> bool:
        """Return whether a group, whose row in the schedule is gone, is to expire now.

        One of which nothing is there for too long is forgotten; others are looked at again in time.
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
        """Forget a group of which nothing is there; a reader that is in it goes on to others."""
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
        """Have a group be over all of which left its queue at once: see group_end.py."""
        if not row.is_closed:
            self.forget(tx, group_id)
            return
        row.parked_number, row.parked_code = 0, 0  # It is known for a while that it was closed.
        self.ripe.pop(group_id, None)
        self.touch(group_id)

    def _free(self, group_id: bytes) -> None:
        """Have a reader that is in a group of which nothing more comes go on to others."""
        if group_id in self.holds.by_group:
            self.holds.end(group_id)
            self._is_freed = True
