"""Tests of a queue's counters: their invariant, and their stored row."""

from collections.abc import Callable
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.keys import LANE_DELAYED, LANE_GROUPED, LANE_PARKED, LANE_READY

FIELDS = len(astuple(Counters()))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=FIELDS, max_size=FIELDS))
def test_decode_reads_what_was_encoded(values: list[int]) -> None:
    counters = Counters(*values)
    assert Counters.decode(counters.encode()) == counters


def test_row_of_an_older_version_starts_new_counters_at_zero() -> None:
    row = Counters(next_arrival=5, depth=3).encode()
    assert Counters.decode(row[:16]) == Counters(next_arrival=5, depth=3)


def test_row_of_a_newer_version_is_read_as_far_as_known() -> None:
    assert Counters.decode(Counters(depth=3).encode() + b"\1" * 8) == Counters(depth=3)


def is_balanced(counters: Counters) -> bool:
    gone = counters.acked + counters.purged + counters.damaged + counters.expired
    gone += counters.dead + counters.moved + counters.lost
    there = counters.depth + counters.delayed + counters.parked
    return there == counters.puts - gone and counters.puts == counters.fast + counters.slow


def enter(counters: Counters, lane: int = LANE_READY, *, is_volatile: bool = False) -> None:
    counters.enter_lane(lane, 10, counters.assign_arrival(), is_volatile=is_volatile)


def leave(
    counters: Counters,
    lane: int = LANE_READY,
    *,
    is_volatile: bool = False,
    is_lost: bool = False,
    size: int = 10,
) -> None:
    counters.leave_lane(lane, size, 1, is_volatile=is_volatile, is_lost=is_lost)


def test_arrivals_are_assigned_in_sequence() -> None:
    counters = Counters()
    assert [counters.assign_arrival(), counters.assign_arrival()] == [1, 2]
    counters.skip_arrivals(9)
    counters.skip_arrivals(4)
    assert counters.assign_arrival() == 9


def test_all_deliveries_so_far_are_doubted() -> None:
    counters = Counters(next_arrival=5)
    counters.mark_all_maybe_delivered()
    assert counters.maybe_before == 5


@pytest.mark.parametrize("lane", [LANE_READY, LANE_GROUPED, LANE_DELAYED])
@pytest.mark.parametrize("is_volatile", [False, True])
def test_a_message_that_leaves_its_lane_undoes_what_it_counted(
    lane: int, is_volatile: bool
) -> None:
    counters = Counters()
    enter(counters, lane, is_volatile=is_volatile)
    assert (counters.depth, counters.delayed) == ((0, 1) if lane == LANE_DELAYED else (1, 0))
    assert counters.grouped == (lane == LANE_GROUPED)
    assert counters.bytes == 10
    assert counters.volatile + counters.volatile_delayed == is_volatile
    assert counters.volatile_bytes == 10 * is_volatile
    leave(counters, lane, is_volatile=is_volatile)
    assert counters == Counters(next_arrival=2, volatile_from=int(is_volatile))


def test_the_lowest_volatile_arrival_is_kept() -> None:
    counters = Counters()
    for arrival in (7, 5, 6):
        counters.enter_lane(LANE_READY, 10, arrival, is_volatile=True)
    assert counters.volatile_from == 5
    for _ in range(3):
        leave(counters, is_volatile=True)
    counters.enter_lane(LANE_DELAYED, 10, 8, is_volatile=True)
    assert counters.volatile_from == 8


def test_lost_messages_count_once_except_members_of_groups() -> None:
    counters = Counters()
    for lane in (LANE_READY, LANE_GROUPED, LANE_DELAYED):
        enter(counters, lane, is_volatile=True)
        counters.count_put(is_fast=True)
    enter(counters)
    counters.count_put(is_fast=False)
    assert counters.lose_volatile() == counters.lost == 3
    assert (counters.depth, counters.delayed, counters.bytes, counters.grouped) == (1, 0, 10, 1)
    assert is_balanced(counters)
    leave(counters, LANE_GROUPED, is_volatile=True, is_lost=True)
    assert (counters.depth, counters.bytes, counters.grouped) == (1, 10, 0)
    assert counters.lose_volatile() == 0


def test_bytes_never_fall_below_zero() -> None:
    counters = Counters()
    enter(counters, is_volatile=True)
    leave(counters, is_volatile=True, size=1000)
    assert counters.bytes == counters.volatile_bytes == 0
    counters.put_batch(1, 10)
    counters.acknowledge_batch(1, 1000)
    assert counters.bytes == 0


def test_a_parked_message_left_its_lane_and_comes_back_to_one() -> None:
    counters = Counters()
    enter(counters)
    counters.count_put(is_fast=True)
    leave(counters)
    counters.count_parked()
    assert (counters.depth, counters.parked, counters.bytes) == (0, 1, 0)
    assert is_balanced(counters)
    leave(counters, LANE_PARKED)
    enter(counters)
    assert (counters.depth, counters.parked, counters.bytes) == (1, 0, 10)
    assert is_balanced(counters)


@pytest.mark.parametrize(
    "reason",
    [
        Counters.count_acked,
        Counters.count_purged,
        Counters.count_expired,
        Counters.count_dead,
        Counters.count_moved,
        Counters.count_damaged,
    ],
)
def test_each_reason_to_leave_keeps_the_balance(reason: Callable[[Counters], None]) -> None:
    counters = Counters()
    enter(counters)
    counters.count_put(is_fast=False)
    leave(counters)
    assert not is_balanced(counters)
    reason(counters)
    assert is_balanced(counters)


def test_batches_keep_the_balance() -> None:
    counters = Counters()
    counters.put_batch(5, 50, grouped=5)
    assert (counters.depth, counters.grouped, counters.bytes, counters.fast) == (5, 5, 50, 5)
    assert is_balanced(counters)
    counters.acknowledge_batch(3, 30, grouped=3)
    assert (counters.depth, counters.grouped, counters.bytes, counters.acked) == (2, 2, 20, 3)
    assert is_balanced(counters)


def test_events_without_a_change_of_messages_are_tallied() -> None:
    counters = Counters()
    counters.count_delivered(2)
    counters.count_returned()
    counters.count_duplicate()
    counters.count_refused()
    counters.count_refused(2)
    counters.count_missed(4)
    assert counters == Counters(delivered=2, returned=1, duplicates=1, refused=3, missed=4)
