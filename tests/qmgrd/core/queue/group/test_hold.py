"""The holders of groups: the rules at the top of hold.py, for all orders of events."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from qmgr_protocol.messages import LOGICAL, PHYSICAL, PINNED
from qmgrd.core.queue.group import hold
from qmgrd.core.queue.group.hold import Holds, Member, Reader

A, B, C = (letter * 24 for letter in (b"a", b"b", b"c"))
LAST = 6  # the number that ends each group
QUEUE = 1

groups = st.sampled_from([A, B, C])
picks = st.integers(0, 100)


class Held(RuleBasedStateMachine):
    """Three groups of six members, readers of both orders, and a plain account of all leases."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = Holds()
        self.readers: list[Reader] = []
        self.leased: dict[int, Member] = {}
        self.strays: set[int] = set()
        self.returning: set[int] = set()  # members behind one that returned
        self.gone: dict[bytes, set[int]] = {A: set(), B: set(), C: set()}
        self.arrival = 0

    def free(self, group_id: bytes, number: int) -> int | None:
        """Returns the first unconsumed number from *number* on, if it can be leased."""
        while number in self.gone[group_id]:
            number += 1
        is_leased = Member(group_id, number) in self.leased.values()
        return None if is_leased or number > LAST else number

    def lease(self, member: Member) -> int:
        self.arrival += 1
        self.leased[self.arrival] = member
        return self.arrival

    def hand_out(self, group_id: bytes) -> None:
        held = self.holds.by_group[group_id]
        assert held.reader is not None
        number = self.free(group_id, held.next)
        if number is not None:
            self.holds.hand_out(group_id, held, number, self.lease(Member(group_id, number)))
            held.next, held.has_ended = number + 1, number == LAST
        if held.has_ended and held.reader.current == group_id:
            held.reader.current = None
        if held.is_settled and held.reader.current != group_id:
            self.holds.end(group_id)

    @rule(order=st.sampled_from([LOGICAL, PINNED]))
    def open(self, order: int) -> None:
        if len(self.readers) < 4:
            reader = Reader(1 + len(self.readers) % 2, "app", QUEUE, order)
            self.readers.append(reader)
            self.holds.open(reader)

    @precondition(lambda self: self.readers)
    @rule(pick=picks, group_id=groups)
    def begin(self, pick: int, group_id: bytes) -> None:
        reader = self.readers[pick % len(self.readers)]
        due = self.free(group_id, 1)
        if group_id in self.holds.by_group or reader.current is not None or due is None:
            return
        if self.holds.is_for(group_id, reader):
            self.holds.begin(group_id, reader, due)
            reader.current = group_id if reader.order == LOGICAL else None
            self.hand_out(group_id)

    @precondition(lambda self: self.holds.by_group)
    @rule(pick=picks)
    def go_on(self, pick: int) -> None:
        held = sorted(self.holds.by_group)
        group_id = held[pick % len(held)]
        reader = self.holds.by_group[group_id].reader
        if reader is not None and (reader.order == PINNED or reader.current == group_id):
            self.hand_out(group_id)

    @rule(group_id=groups, number=st.integers(1, LAST))
    def get_in_physical_order(self, group_id: bytes, number: int) -> None:
        if number not in self.gone[group_id] and self.free(group_id, number) == number:
            arrival = self.lease(Member(group_id, number))
            self.strays.add(arrival)
            self.holds.stray(Member(group_id, number), arrival)

    @precondition(lambda self: self.leased)
    @rule(pick=picks)
    def settle(self, pick: int) -> None:
        arrival = sorted(self.leased)[pick % len(self.leased)]
        member = self.forget(arrival)
        self.gone[member.group_id].add(member.number)
        assert self.holds.settled(arrival) == member.group_id

    @precondition(lambda self: self.leased)
    @rule(pick=picks)
    def come_back(self, pick: int) -> None:
        arrival = sorted(self.leased)[pick % len(self.leased)]
        held = self.holds.by_group.get(self.leased[arrival].group_id)
        is_stray = arrival in self.strays
        out = {} if held is None or is_stray else dict(held.out)
        member = self.forget(arrival)
        touched, behind = self.holds.came_back(arrival)
        assert member.group_id in touched
        assert sorted(behind) == sorted(at for number, at in out.items() if number > member.number)
        assert set(behind) <= set(self.leased)
        self.returning |= set(behind)
        if held is not None and not is_stray:
            assert held.next <= member.number, "the position goes back to it"
            assert not held.has_ended

    def forget(self, arrival: int) -> Member:
        self.strays.discard(arrival)
        self.returning.discard(arrival)
        return self.leased.pop(arrival)

    @precondition(lambda self: self.readers)
    @rule(pick=picks)
    def close(self, pick: int) -> None:
        reader = self.readers.pop(pick % len(self.readers))
        held = set(reader.holds)
        freed = self.holds.close(reader)
        assert not reader.holds
        assert held - set(self.holds.by_group) <= set(freed), "others are to hear of it"

    @rule(group_id=groups)
    def let_go(self, group_id: bytes) -> None:
        was_held = group_id in self.holds.by_group
        is_free = self.holds.let_go(group_id)
        assert is_free == (was_held and group_id not in self.holds.by_group)
        assert not any(group_id in reader.holds for reader in self.readers)

    @rule(group_id=groups, connection=st.integers(0, 2))
    def assign(self, group_id: bytes, connection: int) -> None:
        if self.holds.can_assign(group_id, connection):
            self.holds.assign(group_id, connection)
            self.holds.let_go(group_id)
            assert any(self.holds.is_for(group_id, reader) for reader in self.readers)

    @invariant()
    def what_is_assigned_is_somebodys_to_begin(self) -> None:
        for group_id in (A, B, C):
            if self.readers:
                assert any(self.holds.is_for(group_id, reader) for reader in self.readers)

    @invariant()
    def what_is_leased_is_known(self) -> None:
        assert self.holds.leased == self.leased
        for group_id in (A, B, C):
            count = sum(member.group_id == group_id for member in self.leased.values())
            assert self.holds.leased_of(group_id) == count
        strays = [self.leased[arrival].group_id for arrival in self.strays]
        assert self.holds.strays == {one: strays.count(one) for one in set(strays)}

    @invariant()
    def what_is_out_is_before_the_position_and_in_one_place(self) -> None:
        for group_id, held in self.holds.by_group.items():
            assert not set(held.out) & set(held.going)
            assert all(number < held.next for number in held.out)
            assert set(held.going.values()) <= self.returning
            for number, arrival in (held.out | held.going).items():
                assert self.leased[arrival] == Member(group_id, number)

    @invariant()
    def group_is_held_as_long_as_somebody_is_in_it_or_has_of_it(self) -> None:
        for group_id, held in self.holds.by_group.items():
            is_current = held.reader is not None and held.reader.current == group_id
            assert is_current or not held.is_settled

    @invariant()
    def readers_and_holds_name_each_other(self) -> None:
        for group_id, held in self.holds.by_group.items():
            assert held.reader is None or group_id in held.reader.holds
            assert held.reader is None or held.reader in self.readers
        for reader in self.readers:
            assert set(reader.calling) <= set(reader.holds)
            assert reader.current is None or reader.current in reader.holds
            assert reader.order == LOGICAL or reader.current is None
            for group_id in reader.holds:
                assert self.holds.by_group[group_id].reader is reader


TestHeld = Held.TestCase


def a_reader(holds: Holds, order: int = LOGICAL, connection: int = 1) -> Reader:
    reader = Reader(connection, "app", QUEUE, order)
    holds.open(reader)
    return reader


def begun(holds: Holds, reader: Reader, group_id: bytes, *numbers: int) -> None:
    """Lets *reader* hold a group with these members leased; the arrival is the number."""
    held = holds.begin(group_id, reader, numbers[0])
    for number in numbers:
        holds.hand_out(group_id, held, number, at(group_id, number))
    held.next = numbers[-1] + 1
    if reader.order == LOGICAL:
        reader.current = group_id


def at(group_id: bytes, number: int) -> int:
    return group_id[0] * 100 + number


def test_reader_returns_to_the_group_whose_member_came_back() -> None:
    """The group that it began meanwhile is released, because none of its members is leased."""
    holds = Holds()
    reader = a_reader(holds)
    begun(holds, reader, A, 1, 2)
    reader.current = None  # A has ended.
    begun(holds, reader, B, 1)
    holds.settled(at(B, 1))
    touched, behind = holds.came_back(at(A, 1))
    assert touched == [A, B]
    assert behind == [at(A, 2)]
    assert reader.current == A
    assert B not in holds.by_group
    assert list(reader.calling) == [A]


def test_reader_stays_in_a_group_that_it_began_earlier() -> None:
    holds = Holds()
    reader = a_reader(holds)
    begun(holds, reader, A, 1)
    reader.current = None
    begun(holds, reader, B, 1)
    holds.came_back(at(A, 1))
    assert reader.current == A
    touched, _ = holds.came_back(at(B, 1))
    assert touched == [B]
    assert reader.current == A


def test_pinned_reader_is_called_back_and_holds_the_members_still_leased() -> None:
    holds = Holds()
    reader = a_reader(holds, PINNED)
    begun(holds, reader, A, 1, 2, 3)
    assert holds.came_back(at(A, 2)) == ([A], [at(A, 3)])
    assert list(reader.calling) == [A]
    assert holds.by_group[A].out == {1: at(A, 1)}
    assert holds.by_group[A].next == 2


def test_member_taken_back_is_remembered_until_it_is_leased_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of remembered members is limited."""
    holds = Holds()
    reader = a_reader(holds)
    begun(holds, reader, A, 1, 2, 3)
    holds.came_back(at(A, 1))
    assert list(holds.taken_back) == [at(A, 2), at(A, 3)]
    for number in (2, 3):
        holds.came_back(at(A, number))
    holds.hand_out(A, holds.by_group[A], 2, at(A, 2))
    holds.stray(Member(A, 3), at(A, 3))
    assert not holds.taken_back
    monkeypatch.setattr(hold, "TAKEN_BACK_MAX", 2)
    begun(holds, a_reader(holds), B, 1, 2, 3, 4)
    holds.came_back(at(B, 1))
    assert list(holds.taken_back) == [at(B, 3), at(B, 4)]


def test_member_got_in_physical_order_can_become_part_of_a_hold() -> None:
    holds = Holds()
    reader = a_reader(holds)
    holds.stray(Member(A, 3), at(A, 3))
    holds.begin(A, reader, 4)
    reader.current = A
    holds.adopt(Member(A, 3), at(A, 3))
    assert (holds.strays, holds.by_group[A].out) == ({}, {3: at(A, 3)})
    assert holds.came_back(at(A, 3)) == ([A], [])
    assert holds.by_group[A].next == 3


def test_message_without_a_group_affects_no_group() -> None:
    holds = Holds()
    assert holds.settled(1) is None
    assert holds.came_back(1) == ([], [])


def test_held_group_cannot_be_begun() -> None:
    holds = Holds()
    begun(holds, a_reader(holds), A, 1)
    with pytest.raises(AssertionError, match="held"):
        holds.begin(A, a_reader(holds), 2)


def test_group_with_a_leased_member_does_not_end() -> None:
    holds = Holds()
    begun(holds, a_reader(holds), A, 1)
    with pytest.raises(AssertionError, match="leased"):
        holds.end(A)


def test_last_readers_are_remembered_for_a_limited_number_of_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hold, "LAST_MAX", 2)
    holds = Holds()
    reader = a_reader(holds, PINNED)
    for group_id in (A, B, A, C):
        begun(holds, reader, group_id, 1)
        holds.settled(at(group_id, 1))
    assert holds.last_reader(B) is None
    assert holds.last_reader(A) is holds.last_reader(C) is reader


def test_assigned_group_leaves_its_reader_for_another() -> None:
    holds = Holds()
    one, other = a_reader(holds), a_reader(holds, connection=2)
    begun(holds, one, A, 1)
    holds.assign(A, 0)
    assert not holds.let_go(A)
    holds.settled(at(A, 1))
    assert A not in holds.by_group
    assert [holds.is_for(A, reader) for reader in (one, other)] == [False, True]
    begun(holds, other, A, 2)
    assert holds.is_for(A, one), "it was for the next one only"


def test_group_is_assigned_only_to_a_connection_with_a_reader() -> None:
    holds = Holds()
    one, other = a_reader(holds), a_reader(holds, connection=2)
    assert not holds.can_assign(A, 3)
    assert holds.can_assign(A, 2)
    holds.assign(A, 2)
    assert [holds.is_for(A, reader) for reader in (one, other)] == [False, True]
    assert holds.close(other) == [A]
    assert holds.is_for(A, one)


def test_group_cannot_be_reassigned_from_the_only_reader() -> None:
    holds = Holds()
    one = a_reader(holds)
    begun(holds, one, A, 1)
    assert not holds.can_assign(A, 0)
    other = a_reader(holds)
    assert holds.can_assign(A, 0)
    holds.assign(A, 0)
    holds.let_go(A)
    holds.settled(at(A, 1))
    assert holds.close(other) == [A]
    assert holds.is_for(A, one)


def test_assignments_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "ASSIGNED_MAX", 2)
    holds = Holds()
    one: Any = a_reader(holds)
    a_reader(holds, connection=2)
    assert [holds.assign(group_id, 2) for group_id in (A, B, C)] == [[], [], [A]]
    assert [holds.is_for(group_id, one) for group_id in (A, B, C)] == [True, False, False]


@pytest.mark.parametrize("order", [PHYSICAL, LOGICAL, PINNED])
def test_reader_has_an_order_unless_it_is_physical(order: int) -> None:
    assert Reader(1, "app", QUEUE, order).is_ordered == (order != PHYSICAL)


def test_reader_that_had_to_leave_a_group_is_still_its_last() -> None:
    """A previous reader then learns that the group was with another one."""
    holds = Holds()
    before, other = a_reader(holds, PINNED), a_reader(holds, PINNED)
    begun(holds, before, A, 1)
    holds.settled(at(A, 1))
    begun(holds, other, A, 2)
    assert not holds.let_go(A)
    holds.settled(at(A, 2))
    assert holds.last_reader(A) is other


def test_reader_that_received_nothing_of_a_group_was_not_its_last() -> None:
    holds = Holds()
    holds.begin(A, a_reader(holds, PINNED), 1)
    holds.end(A)
    assert holds.last_reader(A) is None
