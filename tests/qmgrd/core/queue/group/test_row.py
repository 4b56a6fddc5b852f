"""Tests of the row of a group, compared with a plain set of the removed numbers."""

from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol.codec import pack, unpack
from qmgrd.core.queue.group.row import AHEAD_MAX_RUNS, GroupRow

numbers = st.integers(1, 30)
steps = st.lists(st.tuples(st.sampled_from(["leave", "leave", "leave", "give up"]), numbers))


def first_not_in(gone: set[int], number: int = 1) -> int:
    while number in gone:
        number += 1
    return number


def after_steps(todo: list[tuple[str, int]]) -> tuple[GroupRow, set[int]]:
    """Returns a row, and the numbers that left the group or were given up."""
    row, gone = GroupRow(), set[int]()
    for what, number in todo:
        if what == "leave":
            row.leave(number)
            gone.add(number)
        else:
            row.give_up_to(number)
            gone |= set(range(1, number))
    return row, gone


@given(steps)
def test_it_knows_what_a_set_knows(todo: list[tuple[str, int]]) -> None:
    row, gone = after_steps(todo)
    assert row.left_count == len(gone)
    assert row.due == first_not_in(gone)
    for number in range(1, 35):
        assert row.has_left(number) == (number in gone)
        assert row.after(number) == first_not_in(gone, number)


@given(steps)
def test_runs_ascend_and_do_not_touch(todo: list[tuple[str, int]]) -> None:
    row, _ = after_steps(todo)
    end = row.done + 1  # This number is due, so its message has not left.
    for first, count in row.ahead:
        assert first > end
        assert count > 0
        end = first + count


@given(steps, st.sets(numbers), st.sets(numbers))
def test_number_that_never_arrived_is_missing(
    todo: list[tuple[str, int]], ready: set[int], delayed: set[int]
) -> None:
    row, gone = after_steps(todo)
    ready -= gone
    delayed -= gone | ready
    there = ready | delayed
    row.count, row.waiting = len(ready), len(delayed)
    row.highest = max(there | gone, default=0)
    assert row.missing == len(set(range(1, row.highest + 1)) - gone - there)
    row.last = row.highest
    assert row.is_rest_here == (row.missing == 0 and row.last > 0)
    assert row.is_whole == (ready == set(range(1, row.highest + 1)) and row.last > 0)


stored = st.builds(
    GroupRow,
    count=numbers,
    waiting=numbers,
    done=numbers,
    ahead=st.lists(st.tuples(numbers, numbers).map(list), max_size=3),
    last=numbers,
    highest=numbers,
    is_paused=st.booleans(),
    is_closed=st.booleans(),
    parked_number=numbers,
    parked_code=numbers,
    place=st.binary(max_size=9),
    first_us=numbers,
    changed_ms=numbers,
    due_ms=numbers,
    born=numbers,
)


@given(stored)
def test_stored_row_is_read_back(row: GroupRow) -> None:
    assert GroupRow.decode(row.encode()) == row


def test_stored_row_has_all_of_it_in_the_order_of_its_fields() -> None:
    """Later versions add fields at the end, which older versions ignore."""
    values = [1, 2, 3, [[5, 1]], 5, 6, True, False, 9, 10, b"place", 12, 13, 14, 15, 16, True]
    row = GroupRow.decode(pack([*values, "more"]))
    assert unpack(row.encode()) == values
    assert (row.count, row.done, row.is_paused, row.place, row.born) == (1, 3, True, b"place", 15)
    assert GroupRow.decode(pack(values[:3])) == GroupRow(1, 2, 3)


def test_runs_are_limited_and_the_rest_is_a_gap() -> None:
    row = GroupRow()
    for number in range(AHEAD_MAX_RUNS + 5):
        row.leave(3 + 2 * number)
    assert len(row.ahead) == AHEAD_MAX_RUNS
    assert row.has_left(3 + 2 * (AHEAD_MAX_RUNS - 1))
    assert not row.has_left(3 + 2 * AHEAD_MAX_RUNS)


def test_size_does_not_grow_with_what_left_in_order() -> None:
    row = GroupRow()
    for number in range(1, 1_001):
        row.leave(number)
    assert (row.done, row.ahead) == (1_000, [])
    assert len(row.encode()) < 40


def test_state_names_the_most_important_condition_for_an_operator() -> None:
    row = GroupRow(count=2, highest=2)
    assert row.state == "open"
    row.last = 2
    assert row.state == "complete"
    row.count = 1
    assert row.state == "gap"
    row.is_paused = True
    assert (row.state, row.is_stopped) == ("paused", True)
    row.is_paused, row.parked_number = False, 2
    assert (row.state, row.is_stopped) == ("parked", True)
