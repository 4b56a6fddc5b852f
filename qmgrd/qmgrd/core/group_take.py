"""Taking messages in logical or pinned order: members by their numbers, groups by their turns.

    in a group, or several  ──▶  their next members
    room for more           ──▶  what is first: a message of no group, or a group of nobody's
                                    logical: in that group from then on, until it ends
                                    pinned:  in that one, too

A step is a look into an index, whatever lies on the queue. What others hold is stepped over once:
positions as those of the queue tell where to go on.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qmgr_protocol.messages import DELIVERY, LOGICAL, STATE_TAKEN_OVER
from qmgrd.core import entry as entries
from qmgrd.core import index, keys, lane
from qmgrd.core.group_row import GroupRow
from qmgrd.core.group_run import take_run
from qmgrd.core.group_select import check_selection
from qmgrd.core.hold import OUT_MAX, Hold, Member, Reader
from qmgrd.core.kv import Now, Transaction
from qmgrd.core.lease import Consumer
from qmgrd.core.seek import LOOKED_AT_MAX, Found, candidates, fits, lease, passed
from qmgrd.core.selection import weight
from qmgrd.core.take import DELIVER_MAX_BYTES, is_there, scan_ready, tail_of

if TYPE_CHECKING:
    from qmgrd.core.queue import Queue


def take_in_order(
    queue: "Queue", tx: Transaction, now: Now, consumer: Consumer, count: int
) -> Found:
    """Lease up to *count* of what is next for *consumer*, which has a reader, to it.

    Raises:
        MatchInconsistent: nothing is leased.
    """
    count = min(count, consumer.credit_messages, queue.bounds.leases_max - len(queue.leases))
    round_ = _Round(queue, tx, now, consumer, count)
    round_.run()
    return round_.settle()


class _Round:
    """What a consumer is handed in one go."""

    def __init__(
        self, queue: "Queue", tx: Transaction, now: Now, consumer: Consumer, count: int
    ) -> None:
        assert consumer.reader is not None, "only a reader has an order"
        self._queue, self._tx, self._now, self._consumer = queue, tx, now, consumer
        self._reader: Reader = consumer.reader
        self._groups = queue.groups
        self._count = count
        self._items: list[bytes] = []
        self._damaged: list[tuple[bytes, bytes]] = []
        self._size = self._looked_at = 0
        self._frame_bytes = 0
        self._at_end = True
        self._is_full = False  # what is next does not fit in the frame

    def run(self) -> None:
        """Take what there is room for."""
        reader = self._reader
        if reader.current is None and reader.order == LOGICAL:
            reader.current = self._groups.holds.begun(reader)
            if reader.current is not None:
                reader.calling[reader.current] = None
        if reader.current is not None and self._consumer.is_get:
            check_selection(self._queue, self._tx, self._consumer, reader.current)
        for group_id in list(reader.calling):
            if not self._has_room:
                return
            if reader.order != LOGICAL or reader.current == group_id:
                self._follow(group_id, self._groups.holds.by_group[group_id])
        if self._is_in_a_group():
            return
        if self._consumer.selector is None and not self._consumer.prefix:
            self._take_first()
        else:
            self._take_selected()

    def settle(self) -> Found:
        """Count what was taken."""
        consumer, queue = self._consumer, self._queue
        consumer.credit_messages -= len(self._items)
        consumer.credit_bytes -= self._size
        queue.counters.delivered += len(self._items)
        for key, value in dict(self._damaged).items():  # Who looks again may find one twice.
            lane.set_aside(queue, self._tx, key, value)
        return Found(self._items, self._looked_at + 1, self._at_end)

    @property
    def _has_room(self) -> bool:
        has = len(self._items) < self._count and self._size < self._consumer.credit_bytes
        has = has and self._looked_at < LOOKED_AT_MAX
        self._at_end &= has
        return has

    def _is_in_a_group(self) -> bool:
        """Return whether a reader in logical order waits for a member, once it went on so far."""
        reader, holds = self._reader, self._groups.holds
        if reader.order != LOGICAL:
            return False
        while reader.current is None and (begun := holds.begun(reader)) is not None:
            reader.current = begun
            self._follow(begun, holds.by_group[begun])
        return reader.current is not None

    # The next of a group

    def _follow(self, group_id: bytes, hold: Hold) -> None:
        """Lease the members of a group that is held, from its position on."""
        row = self._groups.row(self._tx, group_id)
        self._reader.calling.pop(group_id, None)
        if row is None:  # Nothing more is known of it: it is over.
            hold.has_ended = True
            if self._reader.current == group_id:
                self._reader.current = None
            self._end_if_idle(group_id, hold)
            return
        if row.is_stopped:
            return
        self._take_run(group_id, hold, row)
        if self._has_room:
            self._take_next(group_id, hold, row)
        if not self._has_room:
            self._reader.calling[group_id] = None  # There may be more of it.
        hold.has_ended = 0 < row.last < row.after(hold.next)
        if hold.has_ended and self._reader.current == group_id:
            self._reader.current = None
        self._end_if_idle(group_id, hold)

    def _take_next(self, group_id: bytes, hold: Hold, row: GroupRow) -> None:
        """Lease the next members one by one, whatever they are."""
        number = row.after(hold.next)
        start = keys.group(self._queue.id, group_id, number)
        stop = keys.after(keys.group(self._queue.id, group_id, 0)[:-4])
        for key, position in self._tx.scan(start, stop):
            found = int.from_bytes(key[-4:], "big")
            if found != number or position[0] != keys.LANE_GROUPED:
                return
            if not self._has_room or hold.is_full:
                return
            if not self._take_member(Member(group_id, number), hold, position):
                return
            number = row.after(number + 1)
            hold.next = number

    def _take_run(self, group_id: bytes, hold: Hold, row: GroupRow) -> None:
        """Lease the next members while they are plain, and none left before its turn."""
        if row.ahead or self._groups.holds.taken_back or not self._has_room:
            return
        hold.is_told |= self._groups.holds.last_reader(group_id) is self._reader
        number, before, size = max(hold.next, row.due), len(self._items), self._size
        count = min(self._count, before + OUT_MAX - len(hold.out))
        hold.next, self._size = take_run(
            self._queue, self._tx, self._now, self._consumer, group_id, hold, number, count,
            self._items, self._size, self._frame_bytes,
        )  # fmt: skip
        more = len(self._items) - before
        hold.is_told |= more > 0
        self._looked_at += more
        self._frame_bytes += self._size - size + DELIVERY.size * more

    def _end_if_idle(self, group_id: bytes, hold: Hold) -> None:
        """Let go of a group that was begun, or was to go on, and of which nothing can be had."""
        if hold.is_settled and self._reader.current != group_id:
            self._groups.holds.end(group_id)

    def _take_member(self, member: Member, hold: Hold, position: bytes) -> bool:
        """Lease a member; return whether it can be had, and fits in what is being sent."""
        queue, arrival = self._queue, int.from_bytes(position[2:], "big")
        self._looked_at += 1
        if arrival in queue.leases:
            return False
        key = keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position
        value = self._tx.get(key)
        if value is None:
            return False
        sound = self._open(key, value)
        if sound is None or not self._lease(key, sound, self._taken_over(member, hold)):
            return False
        self._groups.holds.hand_out(member.group_id, hold, member.number, arrival)
        return True

    def _taken_over(self, member: Member, hold: Hold) -> int:
        """Return what the state says of a group that comes to this reader."""
        last_reader = self._groups.holds.last_reader(member.group_id)
        return 0 if hold.is_told or last_reader is self._reader else STATE_TAKEN_OVER

    def _open(self, key: bytes, value: bytes) -> entries.Sound | None:
        sound = entries.open_sound(self._tx, value)
        if sound is None:
            self._damaged.append((key, value))
            return None
        is_here = is_there(self._queue, sound.entry, keys.place(key)[1], self._now)
        return sound if is_here else None

    def _lease(self, key: bytes, sound: entries.Sound, state: int = 0) -> bool:
        """Lease a message; return whether it fits in what is being sent."""
        queue, arrival = self._queue, keys.place(key)[1]
        more, tail = tail_of(queue, self._tx, self._now, sound.entry, arrival)
        size = DELIVERY.size + len(sound.record) + len(tail)
        if self._items and self._frame_bytes + size > DELIVER_MAX_BYTES:
            self._at_end = False
            self._count = len(self._items)  # It is the first of the next frame.
            self._is_full = True
            return False
        item = lease(queue, self._now, self._consumer, key, sound, more | state)
        self._items.append(item + tail)
        self._frame_bytes += size
        self._size += len(sound.record)
        return True

    # What is first

    def _take_first(self) -> None:
        """Lease messages of no group and begin groups, in the order of their places."""
        while self._has_room:
            found = self._first_group()
            if found is None and not self._has_room:
                return  # There may be one behind those that were looked at.
            self._take_free(found)
            if found is None or not self._has_room:
                return
            place, group_id = found
            has_begun = self._begin(group_id)
            if self._is_full and not has_begun:
                return  # It is the first of the next frame.
            self._step_over(place)
            if self._is_in_a_group():
                return

    def _first_group(self) -> tuple[bytes, bytes] | None:
        """Return place and id of the first group in the chain that may be begun here."""
        mine = self._assigned()
        for place, group_id in self._turns():
            if mine is not None and mine[0] < place:
                return mine
            if not self._groups.holds.is_assigned(group_id) and self._may_begin(group_id):
                return place, group_id
            self._step_over(place)
            self._looked_at += 1
            if not self._has_room:
                return None
        return mine

    def _turns(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield place and id of the groups in the chain, from where to look on by priority."""
        queue_id, heads = self._queue.id, self._heads
        stop = keys.after(keys.chain(queue_id, b""))
        rank = 0
        while rank >= 0:
            start = keys.chain(queue_id, keys.PLACE.pack(rank, heads[keys.PRIORITY_TOP - rank]))
            at, rank = rank, -1
            for key, group_id in self._tx.scan(start, stop):
                place = key[-keys.PLACE.size :]
                if place[0] != at:
                    at = place[0]
                    if place < keys.PLACE.pack(at, heads[keys.PRIORITY_TOP - at]):
                        rank = at
                        break  # Behind are some that were stepped over.
                yield place, group_id

    def _assigned(self) -> tuple[bytes, bytes] | None:
        """Return place and id of the first group in the chain that is left to this reader."""
        found = []
        for group_id in self._groups.holds.assigned_to(self._reader):
            row = self._groups.row(self._tx, group_id)
            if row is not None and row.place and self._may_begin(group_id):
                found.append((row.place, group_id))
        return min(found, default=None)

    @property
    def _heads(self) -> list[int]:
        return self._groups.whole_heads if self._consumer.all_available else self._groups.heads

    def _step_over(self, place: bytes) -> None:
        """Have all look behind a group next."""
        rank, arrival = keys.PLACE.unpack(place)
        heads, priority = self._heads, keys.PRIORITY_TOP - rank
        heads[priority] = max(heads[priority], arrival + 1)

    def _may_begin(self, group_id: bytes) -> bool:
        """Return whether a group whose turn it is may be begun by this reader."""
        holds = self._groups.holds
        hold = holds.by_group.get(group_id)
        if hold is not None:
            return hold.reader is self._reader and self._reader.order == LOGICAL
        if not holds.is_for(group_id, self._reader):
            return False
        if not self._consumer.all_available:
            return True
        return self._groups.is_all_there(self._tx, group_id)

    def _begin(self, group_id: bytes) -> bool:
        """Begin a group, or go on with it; return whether there was something of it."""
        holds, row = self._groups.holds, self._groups.row(self._tx, group_id)
        if row is None:
            return False
        hold = holds.by_group.get(group_id)
        if hold is None:
            hold = holds.begin(group_id, self._reader, row.due)
        before = len(self._items)
        if self._reader.order == LOGICAL:
            self._reader.current = group_id
        self._follow(group_id, hold)
        if len(self._items) == before and self._reader.current == group_id:
            self._reader.current = None  # Its first is leased in physical order, or over.
            self._end_if_idle(group_id, hold)
        return len(self._items) > before

    def _take_free(self, found: tuple[bytes, bytes] | None) -> None:
        """Lease the messages of no group that have their turn before that of a group."""
        queue, before = self._queue, len(self._items)
        stop = queue.lane_end
        if found is not None:
            stop = keys.lane(queue.id, keys.LANE_READY) + found[0]
        self._size, is_full = scan_ready(
            queue, self._tx, self._now, self._consumer, self._count, self._items, self._size,
            self._damaged, stop,
        )  # fmt: skip
        self._frame_bytes += sum(map(len, self._items[before:]))
        if is_full:
            self._count = len(self._items)

    # What is selected

    def _take_selected(self) -> None:
        """Lease what is selected of the messages of no group, and begin groups by what is."""
        prefix = self._consumer.prefix
        if prefix.startswith(keys.SPACE_GROUP):
            self._take_group(prefix)
            return
        for key, value, behind in candidates(self._queue, self._tx, self._consumer):
            if not self._has_room or self._is_in_a_group():
                self._at_end = False
                return
            self._looked_at += weight(self._consumer.selector, self._tx, value)
            if keys.place(key)[1] not in self._queue.leases:
                self._take_one_selected(key, value)
            if self._is_full or self._reader.current is not None:
                return  # It is the first of the next frame; or a group was begun with it.
            passed(self._queue, self._consumer, key, behind)

    def _take_group(self, prefix: bytes) -> None:
        """Begin the one group that is selected, or by the number that is."""
        group_id, number = prefix[keys.GROUP_ID_AT : keys.GROUP_ID_AT + 24], prefix[-4:]
        row = self._groups.row(self._tx, group_id)
        is_one = len(prefix) > keys.GROUP_ID_AT + 24
        if row is None or not row.place or (is_one and number != row.due.to_bytes(4, "big")):
            return
        if self._may_begin(group_id):
            self._begin(group_id)

    def _take_one_selected(self, key: bytes, value: bytes) -> None:
        """Lease a message if it is wanted, or begin a group with it."""
        sound = self._open(key, value)
        if sound is None or not fits(self._queue, self._tx, self._consumer, key, sound):
            return
        group = index.selected_by(sound.record)[1]
        if key[keys.POSITION_AT] == keys.LANE_READY or group is None:
            self._lease(key, sound)
            return
        row = self._groups.row(self._tx, group[0])
        is_due = row is not None and group[1] == row.due and not row.is_stopped
        if is_due and self._may_begin(group[0]):
            self._begin(group[0])


def stand_in(queue: "Queue", reader: Reader, member: Member, arrival: int, row: GroupRow) -> bool:
    """Have *reader* be in the group of what it got in physical order, behind that.

    Returns:
        Whether it is: not behind its last, nor where another holds it.
    """
    holds, next_ = queue.groups.holds, row.after(member.number + 1)
    hold = holds.by_group.get(member.group_id)
    if 0 < row.last < next_ or (hold is not None and hold.reader is not reader):
        return False
    if hold is None:
        hold = holds.begin(member.group_id, reader, next_)
    hold.next, hold.is_told, hold.has_ended = next_, True, False
    reader.current = member.group_id
    reader.calling[member.group_id] = None
    holds.adopt(member, arrival)
    return True
