"""Who is handed members of which group: in memory, and gone with a restart.

    nobody's ──begun by a reader──▶ held ──▶ all that is out is settled ──▶ nobody's
                                     │ ▲
                                     ▼ │ a member comes back: the position goes back to it
                                  handed out, in the order of numbers

1. What is held, nobody else is handed in logical or pinned order.
2. In logical order a reader is in one group at a time, and holds it until it was handed its last
   member, even while it waits for the next. In pinned order it has as many as it is handed, each
   until nothing of it is out, and nothing more of it stands in line: but nothing is left to one
   that has nothing in its hands and asks for nothing.
3. One that ends lets go of its groups; what is out is settled before another has them.
"""

from collections import OrderedDict
from typing import NamedTuple

from qmgr_protocol.messages import LOGICAL, PHYSICAL
from qmgrd.core.queue.group.line import Line

LAST_MAX = 10_000  # groups of which it is known who had them last
# Members of one group in one reader's hands. However they are settled, what its row has to know of
# those that left before others in front of them stays short.
OUT_MAX = 500
ASSIGNED_MAX = 100  # groups that are somebody's to begin
TAKEN_BACK_MAX = 100_000


class Member(NamedTuple):
    """A message in a group."""

    group_id: bytes
    number: int


class Assigned(NamedTuple):
    """Who may begin a group."""

    connection: int  # 0: any but the reader that left it
    left: "Reader | None"


class Reader:
    """A consumer in logical or pinned order, or the gets of one connection under one number.

    Invariant: ``current`` is None but in logical order. What ``holds`` has a :class:`Hold` that
    names this reader.
    """

    __slots__ = (
        "calling",
        "client",
        "connection",
        "current",
        "has_credit",
        "holds",
        "line",
        "order",
        "queue_id",
    )

    def __init__(self, connection: int, client: str, queue_id: int, order: int) -> None:
        self.connection = connection
        self.client = client
        self.queue_id = queue_id
        self.order = order
        self.current: bytes | None = None  # the group that it is in
        self.holds: dict[bytes, None] = {}
        self.calling: dict[bytes, None] = {}  # of these, what may have a member for it
        self.line = Line()  # in pinned order, what has
        self.has_credit = True  # after its last look, or what it gave since

    @property
    def is_ordered(self) -> bool:
        """Whether it has groups one member after the other."""
        return self.order != PHYSICAL


class Hold:
    """A group in somebody's hands.

    Invariant: what is ``out`` or ``going`` back is leased; each number is in one of them at most.
    What is ``out`` is in the order of numbers.
    """

    __slots__ = ("going", "has_ended", "is_told", "next", "out", "reader", "serial")

    def __init__(self, reader: Reader, next_: int, serial: int) -> None:
        self.reader: Reader | None = reader  # None: it is gone, or the group is to leave it
        self.next = next_  # the number that is handed out next
        self.has_ended = False  # its last member was handed out
        self.is_told = False  # the reader knows that it came to it
        self.serial = serial  # in the order in which groups were begun
        self.out: dict[int, int] = {}  # number to arrival
        self.going: dict[int, int] = {}  # the same of those that are being taken back

    @property
    def is_full(self) -> bool:
        """Whether so many of it are in hand that one of them is to be settled first."""
        return len(self.out) >= OUT_MAX

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it is leased."""
        return not (self.out or self.going)


class Holds:
    """The holds of one queue.

    Invariant: ``leased`` has the arrivals of what is out or going back, and of the strays.
    """

    def __init__(self) -> None:
        self.by_group: dict[bytes, Hold] = {}
        self.leased: dict[int, tuple[bytes, int]] = {}  # arrival to group and number
        self.strays: dict[bytes, int] = {}  # how many of a group are leased outside of any order
        # Arrivals of what was behind one that came back: to be had again, and not acknowledged now.
        self.taken_back: dict[int, None] = {}
        self.freed: dict[bytes, None] = {}  # of late, whose turn is to be looked at
        self.idle: dict[Reader, None] = {}  # readers that may be stalled by the end of the turn
        self._readers: dict[Reader, None] = {}
        self._begun = 0
        self._last: OrderedDict[bytes, Reader] = OrderedDict()  # who held it, of some
        self._assigned: dict[bytes, Assigned] = {}

    def open(self, reader: Reader) -> None:
        """Take in a reader."""
        self._readers[reader] = None

    def begin(self, group_id: bytes, reader: Reader, number: int) -> Hold:
        """Have *reader* hold a group that nobody holds, from *number* on."""
        assert group_id not in self.by_group, "the group is held"
        self._begun += 1
        self._assigned.pop(group_id, None)
        hold = self.by_group[group_id] = Hold(reader, number, self._begun)
        reader.holds[group_id] = None
        return hold

    def hand_out(self, group_id: bytes, hold: Hold, number: int, arrival: int) -> None:
        """Note that a member was leased to the reader of *hold*."""
        hold.out[number], hold.is_told = arrival, True
        self.leased[arrival] = group_id, number
        self.taken_back.pop(arrival, None)

    def stray(self, member: Member, arrival: int) -> None:
        """Note that a member was leased in physical order, whoever holds its group."""
        self.leased[arrival] = member
        self.taken_back.pop(arrival, None)
        self.strays[member.group_id] = self.strays.get(member.group_id, 0) + 1

    def adopt(self, member: Member, arrival: int) -> None:
        """Have what was leased in physical order be part of the hold on its group."""
        self.take_in(*member, arrival)
        hold = self.by_group[member.group_id]
        hold.out = dict(sorted({**hold.out, member.number: arrival}.items()))

    def take_in(self, group_id: bytes, number: int, arrival: int) -> Hold | None:
        """Note that a member is out no more; return the hold that it was part of.

        Who calls takes it off ``leased``.
        """
        hold = self.by_group.get(group_id)
        if hold is not None:
            for out in (hold.out, hold.going):
                if out.get(number) == arrival:
                    del out[number]
                    return hold
        left = self.strays[group_id] - 1
        if left:
            self.strays[group_id] = left
        else:
            del self.strays[group_id]
        return None

    def out_of(self, group_id: bytes) -> dict[int, int]:
        """Return the members (number, arrival) of a group that are out; none where nobody has it.

        Who takes one off them takes it off ``leased``, too, and sees to :meth:`end_if_over`.
        """
        hold = self.by_group.get(group_id)
        return {} if hold is None else hold.out

    def settled(self, arrival: int) -> bytes | None:
        """Note that what was leased is gone; return its group, if it was in one."""
        member = self.leased.pop(arrival, None)
        if member is None:
            return None
        self.taken_back.pop(arrival, None)
        if self.take_in(*member, arrival) is not None:
            self.end_if_over(member[0])
        return member[0]

    def came_back(self, arrival: int) -> tuple[list[bytes], list[int]]:
        """Note that what was leased can be had again.

        Returns:
            The groups of which something may be had now, and the arrivals of the members behind it
            that are to come back, too.
        """
        member = self.leased.pop(arrival, None)
        if member is None:
            return [], []
        group_id, first = member
        hold = self.take_in(group_id, first, arrival)
        if hold is None:
            return [group_id], []
        hold.next = min(hold.next, first)
        hold.has_ended = False
        behind: dict[int, int] = {}
        for number in reversed(hold.out):
            if number < first:
                break
            behind[number] = hold.out[number]
        behind = dict(reversed(behind.items()))
        for number, at in behind.items():
            hold.going[number] = hold.out.pop(number)
            self.taken_back[at] = None
        while len(self.taken_back) > TAKEN_BACK_MAX:
            del self.taken_back[next(iter(self.taken_back))]
        groups = [group_id]
        left = self._restore(group_id, hold)
        if left is not None:
            groups.append(left)
        for group_id in groups:
            self.end_if_over(group_id)
        return groups, list(behind.values())

    def begun(self, reader: Reader) -> bytes | None:
        """Return the group that *reader* began first and was not handed all of, or None."""
        found = [(self.by_group[x].serial, x) for x in reader.holds]
        open_ = [x for _, x in sorted(found) if not self.by_group[x].has_ended]
        return open_[0] if open_ else None

    def _restore(self, group_id: bytes, hold: Hold) -> bytes | None:
        """Put a reader in logical order back in the group of which it lost a member.

        Returns:
            The group that it was in, which it had begun later.
        """
        reader = hold.reader
        if reader is None:
            return None
        reader.calling[group_id] = None
        if reader.order != LOGICAL:
            return None
        later = reader.current
        if later is None or self.by_group[later].serial > hold.serial:
            reader.current = group_id
            return later
        return None

    def end_if_over(self, group_id: bytes) -> bool:
        """Have a group be nobody's that is settled, and that no reader is in; return if it is."""
        hold = self.by_group.get(group_id)
        if hold is None:
            return False
        reader = hold.reader
        is_current = reader is not None and reader.current == group_id
        if is_current or not hold.is_settled:
            return False
        if reader is not None:
            self.idle[reader] = None
            if group_id in reader.line:
                return False  # It has more of it soon, unless it is stalled.
        self.end(group_id)
        return True

    def end_idle(self) -> dict[bytes, None]:
        """Have what is left to readers that are stalled be nobody's; return all ``freed``."""
        idle, self.idle = self.idle, {}
        for reader in idle:
            self.end_stalled(reader)
        freed, self.freed = self.freed, {}
        return freed

    def _is_stalled(self, reader: Reader) -> bool:
        """Return whether a reader has nothing in its hands, and asks for nothing."""
        return not reader.has_credit and all(self.by_group[x].is_settled for x in reader.holds)

    def end_stalled(self, reader: Reader) -> None:
        """Have what stands in line for a reader that is stalled be nobody's, and ``freed``."""
        if reader.line and self._is_stalled(reader):
            for group_id in list(reader.line):
                self.end(group_id)
                self.freed[group_id] = None

    def end(self, group_id: bytes) -> None:
        """Have a group be nobody's."""
        hold = self.by_group.pop(group_id)
        assert hold.is_settled, "a member of it is leased"
        if hold.reader is not None:
            self._leave(group_id, hold.reader)
            if hold.is_told:  # Else nothing of it could be had.
                self._remember(group_id, hold.reader)

    def _remember(self, group_id: bytes, reader: Reader) -> None:
        self._last[group_id] = reader
        self._last.move_to_end(group_id)
        if len(self._last) > LAST_MAX:
            self._last.popitem(last=False)

    def last_reader(self, group_id: bytes) -> Reader | None:
        """Return who held a group last; None where that is not known any more."""
        return self._last.get(group_id)

    def assign(self, group_id: bytes, connection: int) -> list[bytes]:
        """Have a group be begun next by that connection, or, with 0, by anyone else than before.

        Returns:
            The groups that were somebody's to begin, and are all readers' now.
        """
        hold = self.by_group.get(group_id)
        left = hold.reader if hold is not None else self._last.get(group_id)
        self._assigned[group_id] = Assigned(connection, left)
        freed = list(self._assigned)[: max(len(self._assigned) - ASSIGNED_MAX, 0)]
        for one in freed:
            del self._assigned[one]
        return freed

    def assigned_to(self, reader: Reader) -> list[bytes]:
        """Return the groups that others leave to *reader*."""
        return [x for x in self._assigned if x not in self.by_group and self.is_for(x, reader)]

    @property
    def has_assigned(self) -> bool:
        """Whether any group is left to somebody."""
        return bool(self._assigned)

    def is_assigned(self, group_id: bytes) -> bool:
        """Return whether a group is left to somebody."""
        return group_id in self._assigned

    def can_assign(self, group_id: bytes, connection: int) -> bool:
        """Return whether there is somebody that a group may be assigned to."""
        hold = self.by_group.get(group_id)
        left = hold.reader if hold is not None else self._last.get(group_id)
        if connection:
            return any(reader.connection == connection for reader in self._readers)
        return any(reader is not left for reader in self._readers)

    def leased_of(self, group_id: bytes) -> int:
        """Return how many members of a group are leased."""
        hold = self.by_group.get(group_id)
        held = 0 if hold is None else len(hold.out) + len(hold.going)
        return held + self.strays.get(group_id, 0)

    def is_for(self, group_id: bytes, reader: Reader) -> bool:
        """Return whether *reader* may begin a group that nobody holds."""
        assigned = self._assigned.get(group_id)
        if assigned is None:
            return True
        if assigned.connection:
            return assigned.connection == reader.connection
        return assigned.left is not reader

    def _unassign(self, gone: Reader) -> list[bytes]:
        """Have all begin what only one was to that is gone; return these groups."""
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
        reader.holds.pop(group_id, None)
        reader.calling.pop(group_id, None)
        reader.line.leave(group_id)
        if reader.current == group_id:
            reader.current = None

    def let_go(self, group_id: bytes) -> bool:
        """Have the reader of a group be handed no more of it; return whether it is nobody's now.

        It is once what is out is settled.
        """
        hold = self.by_group.get(group_id)
        if hold is None:
            return False
        if hold.reader is not None:
            self._leave(group_id, hold.reader)
            if hold.is_told:
                self._remember(group_id, hold.reader)
            self.idle[hold.reader] = None
            hold.reader = None
        return self.end_if_over(group_id)

    def close(self, reader: Reader) -> list[bytes]:
        """Have a reader let go of all its groups; return those of which others may have more."""
        self._readers.pop(reader, None)
        freed = [group_id for group_id in list(reader.holds) if self.let_go(group_id)]
        return freed + self._unassign(reader)
