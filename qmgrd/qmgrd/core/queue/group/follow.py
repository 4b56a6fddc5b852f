"""Leases the next members of the groups that a consumer holds, one after the other.

A tight loop leases runs of plain members (queue/group/run.py). Other members are leased step by
step.
"""

from qmgr_protocol.messages import DELIVERY, LOGICAL, STATE_TAKEN_OVER
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.queue import lane
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.held_groups import OUT_MAX, HeldGroup, Member, Reader
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.core.queue.group.run import take_run
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.seek import LOOKED_AT_MAX, SeekResult, lease
from qmgrd.core.queue.take import is_available, tail_of


class Following:
    """The items of one delivery to a consumer, and the groups that the consumer holds."""

    def __init__(
        self, queue: Queue, tx: Transaction, now: Now, consumer: Consumer, count: int
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
        self._is_full = False  # whether the next message was found not to fit in the frame

    def settle(self) -> SeekResult:
        """Counts the leased messages, and returns the result of the delivery."""
        consumer, queue, reader = self._consumer, self._queue, self._reader
        consumer.credit_messages -= len(self._items)
        consumer.credit_bytes -= self._size
        reader.has_credit = consumer.credit_messages > 0 and consumer.credit_bytes > 0
        self._groups.held_groups.end_stalled(reader)
        queue.counters.count_delivered(len(self._items))
        for key, value in dict(self._damaged).items():
            # The same message may have been examined twice.
            lane.set_aside(queue, self._tx, key, value)
        return SeekResult(self._items, self._looked_at + 1, self._at_end)

    @property
    def _has_room(self) -> bool:
        has = len(self._items) < self._count and self._size < self._consumer.credit_bytes
        has = has and self._looked_at < LOOKED_AT_MAX
        self._at_end &= has
        return has

    def _follow(self, group_id: bytes, held_group: HeldGroup) -> None:
        """Leases the members of a held group, starting at its next number.

        In logical order, all available members are leased. In pinned order, only members with
        consecutive arrival numbers are leased. Then the group lines up with the other groups,
        because the next message may belong to another group.
        """
        row = self._groups.row(self._tx, group_id)
        self._reader.calling.pop(group_id, None)
        self._reader.line.remove(group_id)
        if row is None:  # The group has ended and is forgotten.
            held_group.has_ended = True
            if self._reader.current == group_id:
                self._reader.current = None
            self._end_if_idle(group_id, held_group)
            return
        if row.is_stopped:
            self._end_if_idle(group_id, held_group)
            return
        is_pinned, before = self._reader.order != LOGICAL, len(self._items)
        while self._take_run(group_id, held_group, row) and not is_pinned:
            pass
        if self._has_room and not (is_pinned and len(self._items) > before):
            self._take_next(group_id, held_group, row)
        if is_pinned:
            if len(self._items) > before or self._is_full:
                self._update_line(group_id, held_group)
            else:
                self._end_if_idle(group_id, held_group)
            return
        if not self._has_room:
            self._reader.calling[group_id] = None  # More members may be available.
        held_group.has_ended = 0 < row.last < row.after(held_group.next)
        if held_group.has_ended and self._reader.current == group_id:
            self._reader.current = None
        self._end_if_idle(group_id, held_group)

    def _update_line(self, group_id: bytes, held_group: HeldGroup) -> None:
        """Puts a held group in line at the place of its next member, if the member is available."""
        reader, row = self._reader, self._groups.row(self._tx, group_id)
        reader.calling.pop(group_id, None)
        if row is not None and (row.is_stopped or held_group.is_full):
            reader.line.remove(group_id)
            self._end_if_idle(group_id, held_group)
            return
        number = row and row.after(held_group.next)
        position = number and self._groups.position(self._tx, Member(group_id, number))
        if position and position[keys.LANE_AT] == keys.LANE_GROUPED:
            reader.line.add(group_id, position[keys.IN_LANE])
        else:
            reader.line.remove(group_id)
            self._end_if_idle(group_id, held_group)

    def _take_next(self, group_id: bytes, held_group: HeldGroup, row: GroupRow) -> None:
        """Leases the next members one by one, whether they are plain or not."""
        # In pinned order, ``adjacent`` is the position that the next member must have.
        number, adjacent = row.after(held_group.next), b""
        start = keys.group(self._queue.id, group_id, number)
        prefix = group_index.prefix_of(self._queue.id, group_id)
        for key, position in group_index.under(self._tx, prefix, start):
            found = int.from_bytes(key[keys.GROUP_NUMBER], "big")
            if found != number or position[keys.LANE_AT] != keys.LANE_GROUPED:
                return
            if not self._has_room or held_group.is_full:
                return
            if self._reader.order != LOGICAL and adjacent and position != adjacent:
                return
            if not self._take_member(Member(group_id, number), held_group, position):
                return
            number, adjacent = row.after(number + 1), keys.after(position)
            held_group.next = number

    def _take_run(self, group_id: bytes, held_group: HeldGroup, row: GroupRow) -> int:
        """Leases the next members while they are consecutive and plain. Returns their number.

        If a member left before its turn, nothing is leased.
        """
        if row.ahead or self._groups.held_groups.taken_back or not self._has_room:
            return 0
        held_group.is_delivered |= self._groups.held_groups.last_reader(group_id) is self._reader
        number, before, size = max(held_group.next, row.due), len(self._items), self._size
        count = min(self._count, before + OUT_MAX - len(held_group.out))
        held_group.next, self._size = take_run(
            self._queue,
            self._tx,
            self._now,
            self._consumer,
            group_id,
            held_group,
            number,
            count,
            self._items,
            self._size,
            self._frame_bytes,
        )
        more = len(self._items) - before
        held_group.is_delivered |= more > 0
        self._looked_at += more
        self._frame_bytes += self._size - size + DELIVERY.size * more
        return more

    def _end_if_idle(self, group_id: bytes, held_group: HeldGroup) -> None:
        """Frees a held group without leased or available members."""
        if held_group.is_settled and self._reader.current != group_id:
            self._groups.held_groups.end(group_id)

    def _take_member(self, member: Member, held_group: HeldGroup, position: bytes) -> bool:
        """Leases a member. Returns False if it is not available or does not fit in the delivery."""
        queue, arrival = self._queue, int.from_bytes(position[keys.ARRIVAL], "big")
        self._looked_at += 1
        if arrival in queue.leases:
            return False
        key = keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position
        value = self._tx.get(key)
        if value is None:
            return False
        if not self._fits(entries.separate_bytes(value)):
            return False
        sound = self._open(key, value)
        if sound is None or not self._lease(key, sound, self._taken_over(member, held_group)):
            return False
        self._groups.held_groups.record_lease(member.group_id, held_group, member.number, arrival)
        return True

    def _taken_over(self, member: Member, held_group: HeldGroup) -> int:
        """Returns STATE_TAKEN_OVER for the first delivery after a takeover of the group, else 0."""
        last_reader = self._groups.held_groups.last_reader(member.group_id)
        return 0 if held_group.is_delivered or last_reader is self._reader else STATE_TAKEN_OVER

    def _open(self, key: bytes, value: bytes) -> entries.Sound | None:
        sound = entries.open_sound(self._tx, value, self._consumer.whole_max_bytes)
        if sound is None:
            self._damaged.append((key, value))
            return None
        is_here = is_available(self._queue, sound.entry, keys.place(key)[1], self._now)
        return sound if is_here else None

    def _fits(self, size_bytes: int) -> bool:
        """Returns whether *size_bytes* fit in the delivery. If not, marks the delivery as full."""
        consumer = self._consumer
        if self._frame_bytes + size_bytes <= consumer.frame_bytes:
            return True
        if not (self._items or consumer.is_short):
            return True  # The first item of a delivery may be longer.
        self._at_end = False
        consumer.lacks_room = not self._items
        self._count = len(self._items)  # The message is the first of the next frame.
        self._is_full = True
        return False

    def _lease(self, key: bytes, sound: entries.Sound, state: int = 0) -> bool:
        """Leases a message. Returns False if it does not fit in the delivery."""
        queue, arrival, consumer = self._queue, keys.place(key)[1], self._consumer
        more, tail = tail_of(queue, self._tx, self._now, sound.entry, arrival, sound.topic)
        size = DELIVERY.size + len(sound.record) + len(tail)
        if not self._fits(size):
            return False
        item = lease(queue, self._now, consumer, key, sound, more | state)
        self._items.append(item + tail)
        self._frame_bytes += size
        self._size += len(sound.record)
        return True
