"""Leases messages in logical or pinned order. Members follow their numbers, groups their places.

    logical   in a group     ──▶  the next members, until the group ends
              in no group    ──▶  the first of: an ungrouped message, or a free group, which the
                                  reader then enters
    pinned    the first of: an ungrouped message, the next member of a held group, or a free group,
              which the reader then holds

Each step is one lookup in an index, so its cost does not depend on the depth. Groups that other
readers hold are skipped only once, because the positions in the chain move past them.
"""

from qmgr_protocol.messages import LOGICAL
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.queue.group import chain as group_chain
from qmgrd.core.queue.group.follow import Following
from qmgrd.core.queue.group.held_groups import Member, Reader
from qmgrd.core.queue.group.row import NO_PLACE, GroupRow
from qmgrd.core.queue.group.select import check_selection
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.seek import SeekResult, candidates, fits, move_past
from qmgrd.core.queue.selection import weight
from qmgrd.core.queue.take import scan_ready


def take_in_order(
    queue: Queue, tx: Transaction, now: Now, consumer: Consumer, count: int
) -> SeekResult:
    """Leases up to *count* of the next messages to *consumer*, which has a reader.

    Raises:
        MatchInconsistent: The consumer does not select the next member. Nothing is leased.
    """
    count = min(count, consumer.credit_messages, queue.bounds.leases_max - len(queue.leases))
    round_ = _Round(queue, tx, now, consumer, count)
    round_.run()
    return round_.settle()


class _Round(Following):
    """One delivery to a consumer."""

    def run(self) -> None:
        """Leases as many messages as fit in the delivery."""
        reader = self._reader
        if reader.order == LOGICAL:
            self._go_on()
        for group_id in list(reader.calling) if reader.order != LOGICAL else ():
            if not self._has_room:
                return
            self._update_line(group_id, self._groups.held_groups.by_group[group_id])
        if self._is_in_a_group():
            return
        if self._consumer.selector is None and not self._consumer.prefix:
            self._take_first()
        else:
            while self._has_room and (own := reader.line.first()) is not None:
                self._follow(own[1], self._groups.held_groups.by_group[own[1]])
            self._take_selected()

    def _go_on(self) -> None:
        """Leases the next members of the current group of a reader in logical order."""
        reader = self._reader
        if reader.current is None:
            reader.current = self._groups.held_groups.first_unfinished(reader)
            if reader.current is not None:
                reader.calling[reader.current] = None
        if reader.current is not None and self._consumer.is_get:
            check_selection(self._queue, self._tx, self._consumer, reader.current)
        if reader.current in reader.calling and self._has_room:
            self._follow(reader.current, self._groups.held_groups.by_group[reader.current])

    def _is_in_a_group(self) -> bool:
        """Returns whether a reader in logical order is in a group and waits for a member."""
        reader, held_groups = self._reader, self._groups.held_groups
        if reader.order != LOGICAL:
            return False
        while (
            reader.current is None and (begun := held_groups.first_unfinished(reader)) is not None
        ):
            reader.current = begun
            self._follow(begun, held_groups.by_group[begun])
        return reader.current is not None

    # In the order of places

    def _take_first(self) -> None:
        """Leases ungrouped messages and members of groups in the order of their places."""
        while self._has_room:
            own = self._reader.line.first()
            found = self._first_group(NO_PLACE if own is None else own[0])
            if found is None and not self._has_room:
                return  # A later group may be free.
            if is_own := own is not None and (found is None or own < found):
                found = own
            self._take_free(found)
            if found is None or not self._has_room:
                return
            place, group_id = found
            if is_own:
                self._follow(group_id, self._groups.held_groups.by_group[group_id])
                if self._is_full:
                    return
                continue
            has_begun = self._begin(group_id)
            if self._is_full and not has_begun:
                return  # The first member belongs to the next frame.
            self._step_over(place)
            if self._is_in_a_group():
                return

    def _first_group(self, before: bytes) -> tuple[bytes, bytes] | None:
        """Returns the place and id of the first group in the chain that this reader may begin.

        Args:
            before: The place before which groups count; b"" for all groups.
        """
        mine = self._assigned()
        is_complete = self._consumer.all_available
        turns = group_chain.behind(self._tx, self._queue.id, self._heads, is_complete=is_complete)
        for place, group_id in turns:
            if before and before < place:
                break
            if mine is not None and mine[0] < place:
                return mine
            if not self._groups.held_groups.is_assigned(group_id) and self._may_begin(group_id):
                return place, group_id
            self._step_over(place)
            self._looked_at += 1
            if not self._has_room:
                return None
        return mine

    def _assigned(self) -> tuple[bytes, bytes] | None:
        """Returns the place and id of the first group that is assigned to this reader, or None."""
        found = []
        for group_id in self._groups.held_groups.assigned_to(self._reader):
            row = self._groups.row(self._tx, group_id)
            if row is not None and row.place and self._may_begin(group_id):
                found.append((row.place, group_id))
        return min(found, default=None)

    @property
    def _heads(self) -> list[int]:
        groups = self._groups
        if not self._consumer.all_available:
            return groups.heads
        return groups.whole_heads if self._reader.order == LOGICAL else groups.rest_heads

    def _step_over(self, place: bytes) -> None:
        """Moves the reader's positions past the group at *place*."""
        rank, arrival = keys.PLACE.unpack(place)
        heads, priority = self._heads, keys.PRIORITY_TOP - rank
        heads[priority] = max(heads[priority], arrival + 1)

    def _may_begin(self, group_id: bytes) -> bool:
        """Returns whether this reader may begin a group of the chain."""
        held_groups = self._groups.held_groups
        held_group = held_groups.by_group.get(group_id)
        if held_group is not None:
            return held_group.reader is self._reader and self._reader.order == LOGICAL
        if not held_groups.may_begin(group_id, self._reader):
            return False
        if not self._consumer.all_available:
            return True
        or_rest = self._reader.order != LOGICAL  # An earlier reader may have begun the group.
        return self._groups.is_complete(self._tx, group_id, or_rest=or_rest)

    def _begin(self, group_id: bytes) -> bool:
        """Begins or continues a group. Returns whether a member was leased."""
        held_groups, row = self._groups.held_groups, self._groups.row(self._tx, group_id)
        if row is None:
            return False
        held_group = held_groups.by_group.get(group_id)
        if held_group is None:
            held_group = held_groups.begin(group_id, self._reader, row.due)
        before = len(self._items)
        if self._reader.order == LOGICAL:
            self._reader.current = group_id
        self._follow(group_id, held_group)
        if len(self._items) == before and self._reader.current == group_id:
            self._reader.current = None  # The next member is not available to this reader.
            self._end_if_idle(group_id, held_group)
        return len(self._items) > before

    def _take_free(self, found: tuple[bytes, bytes] | None) -> None:
        """Leases the ungrouped messages before the place of a group."""
        queue, before = self._queue, len(self._items)
        if queue.counters.depth == queue.counters.grouped and not self._groups.sweeps:
            return  # The queue has no ungrouped messages.
        stop = queue.positions.ready_end
        if found is not None:
            stop = keys.lane(queue.id, keys.LANE_READY) + found[0]
        self._size, is_full = scan_ready(
            queue,
            self._tx,
            self._now,
            self._consumer,
            self._count,
            self._items,
            self._size,
            self._damaged,
            stop,
        )
        self._frame_bytes += sum(map(len, self._items[before:]))
        if is_full:
            self._count = len(self._items)

    # By selection

    def _take_selected(self) -> None:
        """Leases selected ungrouped messages. Begins groups whose next member is selected."""
        prefix = self._consumer.prefix
        if prefix.startswith(keys.SPACE_GROUP):
            self._take_group(prefix)
            return
        for key, value, behind in candidates(self._queue, self._tx, self._consumer):
            if not self._has_room or self._is_in_a_group():
                self._at_end = False
                return
            if keys.place(key)[1] not in self._queue.leases:
                self._take_one_selected(key, value)
            self._looked_at += weight(self._consumer.selector, self._tx, value)
            if self._is_full or self._reader.current is not None:
                return  # The message starts the next frame or has started a group.
            move_past(self._queue, self._consumer, key, behind)

    def _take_group(self, prefix: bytes) -> None:
        """Begins the selected group. A selected number must be the number of the due member."""
        group_id, number = prefix[keys.GROUP_ID], prefix[keys.GROUP_NUMBER]
        row = self._groups.row(self._tx, group_id)
        is_one = len(prefix) > keys.GROUP_ID.stop
        if row is None or not row.place or (is_one and number != row.due.to_bytes(4, "big")):
            return
        if self._may_begin(group_id):
            self._begin(group_id)

    def _take_one_selected(self, key: bytes, value: bytes) -> None:
        """Leases a selected message, or begins its group if the message is the due member."""
        if not self._fits(entries.separate_bytes(value)):
            return
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


def continue_group(
    queue: Queue, reader: Reader, member: Member, arrival: int, row: GroupRow
) -> bool:
    """Makes *reader* continue the group of a member that it received in physical order.

    Returns:
        False if the member was the last, or if another reader holds the group.
    """
    held_groups, next_ = queue.groups.held_groups, row.after(member.number + 1)
    held_group = held_groups.by_group.get(member.group_id)
    if 0 < row.last < next_ or (held_group is not None and held_group.reader is not reader):
        return False
    if held_group is None:
        held_group = held_groups.begin(member.group_id, reader, next_)
    held_group.next, held_group.is_delivered, held_group.has_ended = next_, True, False
    reader.current = member.group_id
    reader.calling[member.group_id] = None
    held_groups.adopt(member, arrival)
    return True
