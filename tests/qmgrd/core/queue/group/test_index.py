"""Tests of the index of members, with a row per run, compared with a dict of all members."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.layout import keys
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.index import MemberRun
from tests.memory_store import MemoryStore
from tests.qmgrd.core.audit_groups import indexed

GROUP, NEIGHBOUR = b"G" * 24, b"H" * 24
PREFIX = group_index.prefix_of(1, GROUP)


def position(arrival: int, lane: int = keys.LANE_GROUPED) -> bytes:
    return keys.POSITION.pack(lane, 5, arrival)


def put(store: MemoryStore, first: int, last: int, arrival: int) -> dict[int, bytes]:
    store.put(*group_index.row(PREFIX, MemberRun(first, last, position(arrival))))
    return {number: position(arrival + number - first) for number in range(first, last + 1)}


def neighbours(store: MemoryStore) -> None:
    for group_id in (b"F" * 24, NEIGHBOUR):
        prefix = group_index.prefix_of(1, group_id)
        store.put(*group_index.row(prefix, MemberRun(1, 9, position(900))))


def members(store: MemoryStore) -> dict[int, bytes]:
    found = indexed(store.rows, 1)
    return {x.number: at for x, at in found.items() if x.group_id == GROUP}


puts = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), max_size=5)
takes = st.lists(st.tuples(st.integers(1, 25), st.integers(0, 8)), max_size=8)


@given(puts, takes, st.integers(0, 30))
def test_index_is_as_if_each_member_had_a_row(
    told: list[tuple[int, int]], taken: list[tuple[int, int]], start: int
) -> None:
    store, model, number = MemoryStore(), dict[int, bytes](), 1
    neighbours(store)
    for gap, count in told:
        model |= put(store, number + gap, number + gap + count - 1, 10 * number)
        number += gap + count
    for first, more in taken:
        present = [x for x in range(first, first + more + 1) if x in model]
        if present:
            group_index.take_out(store, PREFIX, present)
        for one in present:
            del model[one]
    assert members(store) == model
    assert [group_index.find(store, PREFIX, x) for x in range(30)] == [
        model.get(x) for x in range(30)
    ]
    from_start = [
        (int.from_bytes(key[-4:], "big"), at)
        for key, at in group_index.under(store, PREFIX, keys.group(1, GROUP, start))
    ]
    assert from_start == [(x, at) for x, at in sorted(model.items()) if x >= start]
    assert len(indexed(store.rows, 1)) == len(model) + 18, "changed rows of other groups"


def test_member_that_leaves_at_the_front_changes_one_row() -> None:
    store = MemoryStore()
    put(store, 1, 100, 7)
    group_index.take_out(store, PREFIX, [*range(1, 65)])
    assert members(store) == {n: position(6 + n) for n in range(65, 101)}
    assert len(store.rows) == 1


def test_removal_of_a_missing_member_changes_nothing() -> None:
    store = MemoryStore()
    put(store, 5, 9, 7)
    before = dict(store.rows)
    group_index.take_out(store, PREFIX, [3])
    group_index.take_out(store, PREFIX, [12, 13])
    assert store.rows == before
    group_index.take_out(store, PREFIX, [3, 4, 5])
    assert members(store) == {n: position(n + 2) for n in range(6, 10)}


def test_one_member_is_under_its_own_key_only() -> None:
    store = MemoryStore()
    put(store, 1, 9, 7)
    key = keys.group(1, GROUP, 4)
    assert list(group_index.under(store, key)) == [(key, position(10))]
    assert list(group_index.under(store, key, key + b"\0")) == []
    assert list(group_index.under(store, PREFIX, PREFIX + b"\xff" * 5)) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (PREFIX + bytes(3), position(1)),
        (keys.group(1, GROUP, 3), position(1)[:-1]),
        (keys.group(1, GROUP, 3), position(1) + b"\0\0\0\1"),
        (keys.group(1, GROUP, 3), position(1) + b"\0\0\0\4"),
        (keys.group(1, GROUP, 3), position(1) + b"\0\0\3"),
        (keys.group(1, GROUP, 0), position(1)),
    ],
)
def test_damaged_row_is_ignored(key: bytes, value: bytes) -> None:
    assert not group_index.is_sound(key, value)
    store = MemoryStore()
    store.put(key, value)
    for number in range(6):
        group_index.find(store, PREFIX, number)  # The row refers to no message, and has no effect.


def test_single_member_has_the_same_name_as_before() -> None:
    store = MemoryStore()
    put(store, 5, 5, 7)
    assert indexed(store.rows, 1) == {Member(GROUP, 5): position(7)}
    assert store.rows == {keys.group(1, GROUP, 5): position(7)}
