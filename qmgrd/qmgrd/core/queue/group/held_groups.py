"""Records the readers that hold groups, in memory only. A restart therefore frees all groups.

    free ──begun by a reader──▶ held ──▶ all leased members are settled ──▶ free
                                 │ ▲
                                 ▼ │ a member returns: the next number moves back
                              members are delivered in order of numbers

1. No other reader in logical or pinned order receives members of a held group.
2. In logical order, a reader is in one group at a time. The reader holds the group until it has
   received the last member, even while waiting for the next one.
3. In pinned order, a reader may hold many groups. The reader holds a group while a member is leased
   or the group is lined up for its next member. A reader without leases that requests no messages
   loses the groups that are only lined up.
4. A reader that ends gives up its groups. Another reader can begin such a group after all leased
   members are settled.
"""

from collections import OrderedDict
from typing import NamedTuple

from qmgr_protocol.messages import LOGICAL, PHYSICAL
from qmgrd.core.queue.group.group_heap import GroupHeap

LAST_MAX = 10_000  # maximum number of groups whose last reader is remembered
# Maximum number of leased members of one group. The limit keeps the list ``ahead`` in the row of
# the group short, regardless of the order of settles.
OUT_MAX = 500
ASSIGNED_MAX = 100  # maximum number of groups that are assigned to a reader
TAKEN_BACK_MAX = 100_000  # maximum number of taken-back members to remember


class Member(NamedTuple):
    """A message in a group."""

    group_id: bytes
    number: int


class Assigned(NamedTuple):
    """The permission to begin an assigned group."""

    connection: int  # the connection that may begin the group; 0 means any reader except ``left``
    left: "Reader | None"  # the reader that gave up the group


class Reader:
    """A consumer in logical or pinned order, or the gets of one connection with one reader number.

    Invariant: ``current`` is None except in logical order. Each group in ``held_groups`` has a
    :class:`HeldGroup` with this reader.
    """

    __slots__ = (
        "calling",
        "client",
        "connection",
        "current",
        "has_credit",
        "held_groups",
        "line",
        "order",
        "queue_id",
    )

    def __init__(self, connection: int, client: str, queue_id: int, order: int) -> None:
        self.connection = connection
        self.client = client
        self.queue_id = queue_id
        self.order = order
        self.current: bytes | None = None  # the current group of a reader in logical order
        self.held_groups: dict[bytes, None] = {}
        self.calling: dict[bytes, None] = {}  # held groups that may have an available member
        self.line = GroupHeap()  # held groups with an available member, in pinned order
        # Whether the reader had credit at or after the end of its last delivery.
        self.has_credit = True

    @property
    def is_ordered(self) -> bool:
        """Whether the reader receives the members of a group in sequence."""
        return self.order != PHYSICAL


class HeldGroup:
    """A group that a reader holds.

    Invariant: all members in ``out`` and ``going`` are leased, and no member is in both. ``out`` is
    in the order of the numbers.
    """

    __slots__ = ("going", "has_ended", "is_delivered", "next", "out", "reader", "serial")

    def __init__(self, reader: Reader, next_: int, serial: int) -> None:
        # None if the reader has ended or must give up the group.
        self.reader: Reader | None = reader
        self.next = next_  # the next number to deliver
        self.has_ended = False  # whether the last member was delivered
        self.is_delivered = False  # whether the reader received a member since it began the group
        self.serial = serial  # a serial number that shows the order in which groups were begun
        self.out: dict[int, int] = {}  # arrival numbers of leased members, by number in the group
        # Arrival numbers of members that are being taken back, by number in the group.
        self.going: dict[int, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether a member must be settled before further members are delivered."""
        return len(self.out) >= OUT_MAX

    @property
    def is_settled(self) -> bool:
        """Whether no member is leased."""
        return not (self.out or self.going)


class HeldGroups:
    """The groups of one queue that readers hold.

    Invariant: ``leased`` contains the arrival numbers in ``out`` and ``going`` of all groups, and
    those of members that are leased singly.
    """

    def __init__(self) -> None:
        self.by_group: dict[bytes, HeldGroup] = {}
        self.leased: dict[int, tuple[bytes, int]] = {}  # group and number by arrival number
        # The number of members leased in physical order, by group.
        self.leased_singly: dict[bytes, int] = {}
        # Arrival numbers of members after a returned member. Acks of them fail, because they are
        # delivered again.
        self.taken_back: dict[int, None] = {}
        self.freed: dict[bytes, None] = {}  # groups that became free and must be refreshed
        self.idle: dict[Reader, None] = {}  # readers that may be stalled at the end of the turn
        self._readers: dict[Reader, None] = {}
        self._begun = 0
        self._last: OrderedDict[bytes, Reader] = OrderedDict()  # the last reader of recent groups
        self._assigned: dict[bytes, Assigned] = {}

    def open(self, reader: Reader) -> None:
        """Adds a reader."""
        self._readers[reader] = None

    def begin(self, group_id: bytes, reader: Reader, number: int) -> HeldGroup:
        """Makes *reader* hold a free group, starting at *number*."""
        assert group_id not in self.by_group, "the group is held"
        self._begun += 1
        self._assigned.pop(group_id, None)
        held_group = self.by_group[group_id] = HeldGroup(reader, number, self._begun)
        reader.held_groups[group_id] = None
        return held_group

    def record_lease(
        self, group_id: bytes, held_group: HeldGroup, number: int, arrival: int
    ) -> None:
        """Records the lease of a member to the reader of *held_group*."""
        held_group.out[number], held_group.is_delivered = arrival, True
        self.leased[arrival] = group_id, number
        self.taken_back.pop(arrival, None)

    def lease_singly(self, member: Member, arrival: int) -> None:
        """Records that a member was leased in physical order, by any consumer."""
        self.leased[arrival] = member
        self.taken_back.pop(arrival, None)
        self.leased_singly[member.group_id] = self.leased_singly.get(member.group_id, 0) + 1

    def adopt(self, member: Member, arrival: int) -> None:
        """Adds a member that was leased in physical order to its held group."""
        self.remove_member(*member, arrival)
        held_group = self.by_group[member.group_id]
        held_group.out = dict(sorted({**held_group.out, member.number: arrival}.items()))

    def remove_member(self, group_id: bytes, number: int, arrival: int) -> HeldGroup | None:
        """Removes a leased member. Returns its held group, or None if it was leased singly.

        The caller removes the member from ``leased``.
        """
        held_group = self.by_group.get(group_id)
        if held_group is not None:
            for out in (held_group.out, held_group.going):
                if out.get(number) == arrival:
                    del out[number]
                    return held_group
        left = self.leased_singly[group_id] - 1
        if left:
            self.leased_singly[group_id] = left
        else:
            del self.leased_singly[group_id]
        return None

    def leased_members(self, group_id: bytes) -> dict[int, int]:
        """Returns the arrival numbers of leased members by number.

        The map is empty for a free group.

        A caller that removes a member from the map must also remove it from ``leased``, and call
        :meth:`end_if_over`.
        """
        held_group = self.by_group.get(group_id)
        return {} if held_group is None else held_group.out

    def settled(self, arrival: int) -> bytes | None:
        """Records the end of a lease. Returns the group of the message, if it has one."""
        member = self.leased.pop(arrival, None)
        if member is None:
            return None
        self.taken_back.pop(arrival, None)
        if self.remove_member(*member, arrival) is not None:
            self.end_if_over(member[0])
        return member[0]

    def returned(self, arrival: int) -> tuple[list[bytes], list[int]]:
        """Records that a leased message returns to the queue.

        Returns:
            The groups that may have available members now, and the arrival numbers of later
            members, which must also return.
        """
        member = self.leased.pop(arrival, None)
        if member is None:
            return [], []
        group_id, first = member
        held_group = self.remove_member(group_id, first, arrival)
        if held_group is None:
            return [group_id], []
        held_group.next = min(held_group.next, first)
        held_group.has_ended = False
        behind: dict[int, int] = {}
        for number in reversed(held_group.out):
            if number < first:
                break
            behind[number] = held_group.out[number]
        behind = dict(reversed(behind.items()))
        for number, at in behind.items():
            held_group.going[number] = held_group.out.pop(number)
            self.taken_back[at] = None
        while len(self.taken_back) > TAKEN_BACK_MAX:
            del self.taken_back[next(iter(self.taken_back))]
        groups = [group_id]
        left = self._restore(group_id, held_group)
        if left is not None:
            groups.append(left)
        for group_id in groups:
            self.end_if_over(group_id)
        return groups, list(behind.values())

    def first_unfinished(self, reader: Reader) -> bytes | None:
        """Returns the first group of *reader* whose last member is not yet delivered, or None."""
        found = [(self.by_group[x].serial, x) for x in reader.held_groups]
        open_ = [x for _, x in sorted(found) if not self.by_group[x].has_ended]
        return open_[0] if open_ else None

    def _restore(self, group_id: bytes, held_group: HeldGroup) -> bytes | None:
        """Moves a reader in logical order back to the group of a returned member.

        Returns:
            The previous current group of the reader, or None if the reader was not moved back.
        """
        reader = held_group.reader
        if reader is None:
            return None
        reader.calling[group_id] = None
        if reader.order != LOGICAL:
            return None
        later = reader.current
        if later is None or self.by_group[later].serial > held_group.serial:
            reader.current = group_id
            return later
        return None

    def end_if_over(self, group_id: bytes) -> bool:
        """Frees a group if all members are settled and no reader is in it.

        Returns:
            Whether the group is free now.
        """
        held_group = self.by_group.get(group_id)
        if held_group is None:
            return False
        reader = held_group.reader
        is_current = reader is not None and reader.current == group_id
        if is_current or not held_group.is_settled:
            return False
        if reader is not None:
            self.idle[reader] = None
            if group_id in reader.line:
                return False  # The reader receives more members soon, unless it is stalled.
        self.end(group_id)
        return True

    def end_idle(self) -> dict[bytes, None]:
        """Frees the groups of stalled readers. Returns all ``freed`` groups."""
        idle, self.idle = self.idle, {}
        for reader in idle:
            self.end_stalled(reader)
        freed, self.freed = self.freed, {}
        return freed

    def _is_stalled(self, reader: Reader) -> bool:
        """Returns whether a reader has no leases and no credit."""
        return not reader.has_credit and all(
            self.by_group[x].is_settled for x in reader.held_groups
        )

    def end_stalled(self, reader: Reader) -> None:
        """Frees the groups that are lined up for a stalled reader."""
        if reader.line and self._is_stalled(reader):
            for group_id in list(reader.line):
                self.end(group_id)
                self.freed[group_id] = None

    def end(self, group_id: bytes) -> None:
        """Frees a group."""
        held_group = self.by_group.pop(group_id)
        assert held_group.is_settled, "a member of the group is leased"
        if held_group.reader is not None:
            self._leave(group_id, held_group.reader)
            if held_group.is_delivered:  # Otherwise, the reader has not received a member.
                self._remember(group_id, held_group.reader)

    def _remember(self, group_id: bytes, reader: Reader) -> None:
        self._last[group_id] = reader
        self._last.move_to_end(group_id)
        if len(self._last) > LAST_MAX:
            self._last.popitem(last=False)

    def last_reader(self, group_id: bytes) -> Reader | None:
        """Returns the last reader of a group, or None if it is forgotten."""
        return self._last.get(group_id)

    def assign(self, group_id: bytes, connection: int) -> list[bytes]:
        """Assigns a group to *connection*, or, if that is 0, to any reader except the last.

        Only the assigned reader may begin the group next. If more than ASSIGNED_MAX groups are
        assigned, the oldest assignments end.

        Returns:
            The groups whose assignments have ended. Any reader may begin these groups.
        """
        held_group = self.by_group.get(group_id)
        left = held_group.reader if held_group is not None else self._last.get(group_id)
        self._assigned[group_id] = Assigned(connection, left)
        freed = list(self._assigned)[: max(len(self._assigned) - ASSIGNED_MAX, 0)]
        for one in freed:
            del self._assigned[one]
        return freed

    def assigned_to(self, reader: Reader) -> list[bytes]:
        """Returns the groups that only *reader* may begin."""
        return [x for x in self._assigned if x not in self.by_group and self.may_begin(x, reader)]

    @property
    def has_assigned(self) -> bool:
        """Whether any group is assigned."""
        return bool(self._assigned)

    def is_assigned(self, group_id: bytes) -> bool:
        """Returns whether a group is assigned."""
        return group_id in self._assigned

    def can_assign(self, group_id: bytes, connection: int) -> bool:
        """Returns whether a reader exists to which the group can be assigned."""
        held_group = self.by_group.get(group_id)
        left = held_group.reader if held_group is not None else self._last.get(group_id)
        if connection:
            return any(reader.connection == connection for reader in self._readers)
        return any(reader is not left for reader in self._readers)

    def leased_of(self, group_id: bytes) -> int:
        """Returns the number of leased members of a group."""
        held_group = self.by_group.get(group_id)
        held = 0 if held_group is None else len(held_group.out) + len(held_group.going)
        return held + self.leased_singly.get(group_id, 0)

    def may_begin(self, group_id: bytes, reader: Reader) -> bool:
        """Returns whether *reader* may begin a free group."""
        assigned = self._assigned.get(group_id)
        if assigned is None:
            return True
        if assigned.connection:
            return assigned.connection == reader.connection
        return assigned.left is not reader

    def _unassign(self, gone: Reader) -> list[bytes]:
        """Ends the assignments to a reader that has ended. Returns the groups."""
        is_lone = len(self._readers) < 2
        is_there = any(reader.connection == gone.connection for reader in self._readers)
        found = [
            group_id
            for group_id, one in self._assigned.items()
            if (one.connection == gone.connection and not is_there)
            or (not one.connection and is_lone)
        ]
        for group_id in found:
            del self._assigned[group_id]
        return found

    def _leave(self, group_id: bytes, reader: Reader) -> None:
        reader.held_groups.pop(group_id, None)
        reader.calling.pop(group_id, None)
        reader.line.remove(group_id)
        if reader.current == group_id:
            reader.current = None

    def release(self, group_id: bytes) -> bool:
        """Makes the reader of a group give it up. Returns whether the group is free now.

        If the group is not free yet, it becomes free when its leased members are settled.
        """
        held_group = self.by_group.get(group_id)
        if held_group is None:
            return False
        if held_group.reader is not None:
            self._leave(group_id, held_group.reader)
            if held_group.is_delivered:
                self._remember(group_id, held_group.reader)
            self.idle[held_group.reader] = None
            held_group.reader = None
        return self.end_if_over(group_id)

    def close(self, reader: Reader) -> list[bytes]:
        """Ends a reader, which gives up its groups. Returns the groups that others may begin."""
        self._readers.pop(reader, None)
        freed = [group_id for group_id in list(reader.held_groups) if self.release(group_id)]
        return freed + self._unassign(reader)
