"""The time of a turn: parts with marks, by a clock that is handed in."""

from qmgrd.core.budget import ARRIVALS, DELIVERY, ENDLESS, WORK, Budget
from tests.qmgrd.core.ticking import MS_NS, Ticking


def test_parts_of_a_turn_end_at_their_marks() -> None:
    clock = Ticking()
    budget = Budget(100, clock)
    clock.now_ns = 7 * MS_NS
    budget.begin()
    for mark in (ARRIVALS, WORK, DELIVERY):
        budget.allow(mark)
        clock.now_ns = (7 + mark) * MS_NS - 1
        assert not budget.is_over
        clock.now_ns += 1
        assert budget.is_over


def test_next_turn_starts_with_its_whole_time() -> None:
    clock = Ticking()
    budget = Budget(10, clock)
    clock.now_ns = 1_000 * MS_NS
    assert budget.is_over
    budget.begin()
    assert not budget.is_over


def test_clock_that_stands_still_ends_nothing() -> None:
    ENDLESS.begin()
    assert not ENDLESS.is_over
