"""Tests of which reader holds a group, by the rules in held_groups.py, in any order of events."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from qmgr_protocol.messages import LOGICAL, PHYSICAL, PINNED
from qmgrd.core.queue.group import held_groups as held_groups_module
from qmgrd.core.queue.group.held_groups import HeldGroups, Member, Reader

A, B, C = (letter * 24 for letter in (b"a", b"b", b"c"))
LAST = 6  # number of the last message of each group
QUEUE = 1

groups = st.sampled_from([A, B, C])
picks = st.integers(0, 100)


class Held(RuleBasedStateMachine):
    """Three groups of six messages, readers in both orders, and a plain account of all leases."""

    def __init__(self) -> None:
        super().__init__()
        self.held_groups = HeldGroups()
        self.readers: list[Reader] = []
        self.leased: dict[int, Member] = {}
        self.leased_singly: set[int] = set()
        self.returning: set[int] = set()  # messages after one that has returned
        self.gone: dict[bytes, set[int]] = {A: set(), B: set(), C: set()}
        self.arrival = 0

    def free(self, group_id: bytes, number: int) -> int | None:
        """Returns the first unconsumed number from *number* on, if its message can be leased."""
        while number in self.gone[group_id]:
            number += 1
        is_leased = Member(group_id, number) in self.leased.values()
        return None if is_leased or number > LAST else number

    def lease(self, member: Member) -> int:
        self.arrival += 1
        self.leased[self.arrival] = member
        return self.arrival

    def hand_out(self, group_id: bytes) -> None:
        held = self.held_groups.by_group[group_id]
        assert held.reader is not None
        number = self.free(group_id, held.next)
        if number is not None:
            self.held_groups.record_lease(
                group_id, held, number, self.lease(Member(group_id, number))
            )
            held.next, held.has_ended = number + 1, number == LAST
        if held.has_ended and held.reader.current == group_id:
            held.reader.current = None
        if held.is_settled and held.reader.current != group_id:
            self.held_groups.end(group_id)

    @rule(order=st.sampled_from([LOGICAL, PINNED]))
    def open(self, order: int) -> None:
        if len(self.readers) < 4:
            reader = Reader(1 + len(self.readers) % 2, "app", QUEUE, order)
            self.readers.append(reader)
            self.held_groups.open(reader)

    @precondition(lambda self: self.readers)
    @rule(pick=picks, group_id=groups)
    def begin(self, pick: int, group_id: bytes) -> None:
        reader = self.readers[pick % len(self.readers)]
        due = self.free(group_id, 1)
        if group_id in self.held_groups.by_group or reader.current is not None or due is None:
            return
        if self.held_groups.may_begin(group_id, reader):
            self.held_groups.begin(group_id, reader, due)
            reader.current = group_id if reader.order == LOGICAL else None
            self.hand_out(group_id)

    @precondition(lambda self: self.held_groups.by_group)
    @rule(pick=picks)
    def go_on(self, pick: int) -> None:
        held = sorted(self.held_groups.by_group)
        group_id = held[pick % len(held)]
        reader = self.held_groups.by_group[group_id].reader
        if reader is not None and (reader.order == PINNED or reader.current == group_id):
            self.hand_out(group_id)

    @rule(group_id=groups, number=st.integers(1, LAST))
    def get_in_physical_order(self, group_id: bytes, number: int) -> None:
        if number not in self.gone[group_id] and self.free(group_id, number) == number:
            arrival = self.lease(Member(group_id, number))
            self.leased_singly.add(arrival)
            self.held_groups.lease_singly(Member(group_id, number), arrival)

    @precondition(lambda self: self.leased)
    @rule(pick=picks)
    def settle(self, pick: int) -> None:
        arrival = sorted(self.leased)[pick % len(self.leased)]
        member = self.forget(arrival)
        self.gone[member.group_id].add(member.number)
        assert self.held_groups.settled(arrival) == member.group_id

    @precondition(lambda self: self.leased)
    @rule(pick=picks)
    def come_back(self, pick: int) -> None:
        arrival = sorted(self.leased)[pick % len(self.leased)]
        held = self.held_groups.by_group.get(self.leased[arrival].group_id)
        is_stray = arrival in self.leased_singly
        out = {} if held is None or is_stray else dict(held.out)
        member = self.forget(arrival)
        touched, behind = self.held_groups.returned(arrival)
        assert member.group_id in touched
        assert sorted(behind) == sorted(at for number, at in out.items() if number > member.number)
        assert set(behind) <= set(self.leased)
        self.returning |= set(behind)
        if held is not None and not is_stray:
            assert held.next <= member.number, "the position returns to the group"
            assert not held.has_ended

    def forget(self, arrival: int) -> Member:
        self.leased_singly.discard(arrival)
        self.returning.discard(arrival)
        return self.leased.pop(arrival)

    @precondition(lambda self: self.readers)
    @rule(pick=picks)
    def close(self, pick: int) -> None:
        reader = self.readers.pop(pick % len(self.readers))
        held = set(reader.held_groups)
        freed = self.held_groups.close(reader)
        assert not reader.held_groups
        assert held - set(self.held_groups.by_group) <= set(freed), "other readers are informed"

    @rule(group_id=groups)
    def let_go(self, group_id: bytes) -> None:
        was_held = group_id in self.held_groups.by_group
        is_free = self.held_groups.release(group_id)
        assert is_free == (was_held and group_id not in self.held_groups.by_group)
        assert not any(group_id in reader.held_groups for reader in self.readers)

    @rule(group_id=groups, connection=st.integers(0, 2))
    def assign(self, group_id: bytes, connection: int) -> None:
        if self.held_groups.can_assign(group_id, connection):
            self.held_groups.assign(group_id, connection)
            self.held_groups.release(group_id)
            assert any(self.held_groups.may_begin(group_id, reader) for reader in self.readers)

    @invariant()
    def what_is_assigned_is_somebodys_to_begin(self) -> None:
        for group_id in (A, B, C):
            if self.readers:
                assert any(self.held_groups.may_begin(group_id, reader) for reader in self.readers)

    @invariant()
    def what_is_leased_is_known(self) -> None:
        assert self.held_groups.leased == self.leased
        for group_id in (A, B, C):
            count = sum(member.group_id == group_id for member in self.leased.values())
            assert self.held_groups.leased_of(group_id) == count
        leased_singly = [self.leased[arrival].group_id for arrival in self.leased_singly]
        assert self.held_groups.leased_singly == {
            one: leased_singly.count(one) for one in set(leased_singly)
        }

    @invariant()
    def what_is_out_is_before_the_position_and_in_one_place(self) -> None:
        for group_id, held in self.held_groups.by_group.items():
            assert not set(held.out) & set(held.going)
            assert all(number < held.next for number in held.out)
            assert set(held.going.values()) <= self.returning
            for number, arrival in (held.out | held.going).items():
                assert self.leased[arrival] == Member(group_id, number)

    @invariant()
    def group_is_held_as_long_as_somebody_is_in_it_or_has_of_it(self) -> None:
        for group_id, held in self.held_groups.by_group.items():
            is_current = held.reader is not None and held.reader.current == group_id
            assert is_current or not held.is_settled

    @invariant()
    def readers_and_holds_name_each_other(self) -> None:
        for group_id, held in self.held_groups.by_group.items():
            assert held.reader is None or group_id in held.reader.held_groups
            assert held.reader is None or held.reader in self.readers
        for reader in self.readers:
            assert set(reader.calling) <= set(reader.held_groups)
            assert reader.current is None or reader.current in reader.held_groups
            assert reader.order == LOGICAL or reader.current is None
            for group_id in reader.held_groups:
                assert self.held_groups.by_group[group_id].reader is reader


TestHeld = Held.TestCase


def a_reader(held_groups: HeldGroups, order: int = LOGICAL, connection: int = 1) -> Reader:
    reader = Reader(connection, "app", QUEUE, order)
    held_groups.open(reader)
    return reader


def begun(held_groups: HeldGroups, reader: Reader, group_id: bytes, *numbers: int) -> None:
    """Makes *reader* hold a group in which *numbers* are leased. Arrivals equal the numbers."""
    held = held_groups.begin(group_id, reader, numbers[0])
    for number in numbers:
        held_groups.record_lease(group_id, held, number, at(group_id, number))
    held.next = numbers[-1] + 1
    if reader.order == LOGICAL:
        reader.current = group_id


def at(group_id: bytes, number: int) -> int:
    return group_id[0] * 100 + number


def test_reader_returns_to_the_group_whose_member_came_back() -> None:
    """The reader releases its other group, because no message of that group is leased."""
    held_groups = HeldGroups()
    reader = a_reader(held_groups)
    begun(held_groups, reader, A, 1, 2)
    reader.current = None  # Group A has ended.
    begun(held_groups, reader, B, 1)
    held_groups.settled(at(B, 1))
    touched, behind = held_groups.returned(at(A, 1))
    assert touched == [A, B]
    assert behind == [at(A, 2)]
    assert reader.current == A
    assert B not in held_groups.by_group
    assert list(reader.calling) == [A]


def test_reader_stays_in_a_group_that_it_began_earlier() -> None:
    held_groups = HeldGroups()
    reader = a_reader(held_groups)
    begun(held_groups, reader, A, 1)
    reader.current = None
    begun(held_groups, reader, B, 1)
    held_groups.returned(at(A, 1))
    assert reader.current == A
    touched, _ = held_groups.returned(at(B, 1))
    assert touched == [B]
    assert reader.current == A


def test_pinned_reader_is_called_back_and_holds_the_members_still_leased() -> None:
    held_groups = HeldGroups()
    reader = a_reader(held_groups, PINNED)
    begun(held_groups, reader, A, 1, 2, 3)
    assert held_groups.returned(at(A, 2)) == ([A], [at(A, 3)])
    assert list(reader.calling) == [A]
    assert held_groups.by_group[A].out == {1: at(A, 1)}
    assert held_groups.by_group[A].next == 2


def test_member_taken_back_is_remembered_until_it_is_leased_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of messages that the daemon remembers is limited."""
    held_groups = HeldGroups()
    reader = a_reader(held_groups)
    begun(held_groups, reader, A, 1, 2, 3)
    held_groups.returned(at(A, 1))
    assert list(held_groups.taken_back) == [at(A, 2), at(A, 3)]
    for number in (2, 3):
        held_groups.returned(at(A, number))
    held_groups.record_lease(A, held_groups.by_group[A], 2, at(A, 2))
    held_groups.lease_singly(Member(A, 3), at(A, 3))
    assert not held_groups.taken_back
    monkeypatch.setattr(held_groups_module, "TAKEN_BACK_MAX", 2)
    begun(held_groups, a_reader(held_groups), B, 1, 2, 3, 4)
    held_groups.returned(at(B, 1))
    assert list(held_groups.taken_back) == [at(B, 3), at(B, 4)]


def test_member_got_in_physical_order_can_become_part_of_a_hold() -> None:
    held_groups = HeldGroups()
    reader = a_reader(held_groups)
    held_groups.lease_singly(Member(A, 3), at(A, 3))
    held_groups.begin(A, reader, 4)
    reader.current = A
    held_groups.adopt(Member(A, 3), at(A, 3))
    assert (held_groups.leased_singly, held_groups.by_group[A].out) == ({}, {3: at(A, 3)})
    assert held_groups.returned(at(A, 3)) == ([A], [])
    assert held_groups.by_group[A].next == 3


def test_message_without_a_group_affects_no_group() -> None:
    held_groups = HeldGroups()
    assert held_groups.settled(1) is None
    assert held_groups.returned(1) == ([], [])


def test_held_group_cannot_be_begun() -> None:
    held_groups = HeldGroups()
    begun(held_groups, a_reader(held_groups), A, 1)
    with pytest.raises(AssertionError, match="held"):
        held_groups.begin(A, a_reader(held_groups), 2)


def test_group_with_a_leased_member_does_not_end() -> None:
    held_groups = HeldGroups()
    begun(held_groups, a_reader(held_groups), A, 1)
    with pytest.raises(AssertionError, match="leased"):
        held_groups.end(A)


def test_last_readers_are_remembered_for_a_limited_number_of_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_groups_module, "LAST_MAX", 2)
    held_groups = HeldGroups()
    reader = a_reader(held_groups, PINNED)
    for group_id in (A, B, A, C):
        begun(held_groups, reader, group_id, 1)
        held_groups.settled(at(group_id, 1))
    assert held_groups.last_reader(B) is None
    assert held_groups.last_reader(A) is held_groups.last_reader(C) is reader


def test_assigned_group_leaves_its_reader_for_another() -> None:
    held_groups = HeldGroups()
    one, other = a_reader(held_groups), a_reader(held_groups, connection=2)
    begun(held_groups, one, A, 1)
    held_groups.assign(A, 0)
    assert not held_groups.release(A)
    held_groups.settled(at(A, 1))
    assert A not in held_groups.by_group
    assert [held_groups.may_begin(A, reader) for reader in (one, other)] == [False, True]
    begun(held_groups, other, A, 2)
    assert held_groups.may_begin(A, one), "the mark was for the next delivery only"


def test_group_is_assigned_only_to_a_connection_with_a_reader() -> None:
    held_groups = HeldGroups()
    one, other = a_reader(held_groups), a_reader(held_groups, connection=2)
    assert not held_groups.can_assign(A, 3)
    assert held_groups.can_assign(A, 2)
    held_groups.assign(A, 2)
    assert [held_groups.may_begin(A, reader) for reader in (one, other)] == [False, True]
    assert held_groups.close(other) == [A]
    assert held_groups.may_begin(A, one)


def test_group_cannot_be_reassigned_from_the_only_reader() -> None:
    held_groups = HeldGroups()
    one = a_reader(held_groups)
    begun(held_groups, one, A, 1)
    assert not held_groups.can_assign(A, 0)
    other = a_reader(held_groups)
    assert held_groups.can_assign(A, 0)
    held_groups.assign(A, 0)
    held_groups.release(A)
    held_groups.settled(at(A, 1))
    assert held_groups.close(other) == [A]
    assert held_groups.may_begin(A, one)


def test_assignments_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_groups_module, "ASSIGNED_MAX", 2)
    held_groups = HeldGroups()
    one: Any = a_reader(held_groups)
    a_reader(held_groups, connection=2)
    assert [held_groups.assign(group_id, 2) for group_id in (A, B, C)] == [[], [], [A]]
    assert [held_groups.may_begin(group_id, one) for group_id in (A, B, C)] == [True, False, False]


@pytest.mark.parametrize("order", [PHYSICAL, LOGICAL, PINNED])
def test_reader_has_an_order_unless_it_is_physical(order: int) -> None:
    assert Reader(1, "app", QUEUE, order).is_ordered == (order != PHYSICAL)


def test_reader_that_had_to_leave_a_group_is_still_its_last() -> None:
    """An earlier reader then learns that another reader has had the group."""
    held_groups = HeldGroups()
    before, other = a_reader(held_groups, PINNED), a_reader(held_groups, PINNED)
    begun(held_groups, before, A, 1)
    held_groups.settled(at(A, 1))
    begun(held_groups, other, A, 2)
    assert not held_groups.release(A)
    held_groups.settled(at(A, 2))
    assert held_groups.last_reader(A) is other


def test_reader_that_received_nothing_of_a_group_was_not_its_last() -> None:
    held_groups = HeldGroups()
    held_groups.begin(A, a_reader(held_groups, PINNED), 1)
    held_groups.end(A)
    assert held_groups.last_reader(A) is None
