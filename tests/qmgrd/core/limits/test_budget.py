"""Tests of a turn's time budget, which has parts with deadlines. Tests provide the clock."""

from qmgrd.core.limits.budget import ARRIVALS, DELIVERY, ENDLESS, WORK, Budget
from tests.qmgrd.core.ticking import MS_NS, Ticking


def test_each_part_of_a_turn_has_its_share_from_its_own_start() -> None:
    clock = Ticking()
    budget = Budget(100, clock)
    clock.now_ns = 7 * MS_NS
    budget.begin()
    assert budget.end_ns == (7 + ARRIVALS) * MS_NS
    for part in (WORK, DELIVERY):
        start_ns = clock.now_ns
        budget.allow(part)
        clock.now_ns = start_ns + part * MS_NS - 1
        assert not budget.is_over
        clock.now_ns += 1
        assert budget.is_over
    assert ARRIVALS + WORK + DELIVERY == 100


def test_next_turn_starts_with_a_full_budget() -> None:
    clock = Ticking()
    budget = Budget(10, clock)
    clock.now_ns = 1_000 * MS_NS
    assert budget.is_over
    budget.begin()
    assert not budget.is_over


def test_clock_that_does_not_move_ends_nothing() -> None:
    ENDLESS.begin()
    assert not ENDLESS.is_over
