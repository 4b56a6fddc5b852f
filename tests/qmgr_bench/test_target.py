import pytest

from qmgr_bench.target import Target, at_least, at_most, number


@pytest.mark.parametrize(
    ("measured", "reached", "missing"), [(0.9, True, 0), (1.3, True, 0), (0.81, False, 10)]
)
def test_at_least_is_reached_from_the_bound_on(
    measured: float, reached: bool, missing: float
) -> None:
    target = at_least("rate", measured, 0.9)
    assert (target.reached, target.missing_percent) == (reached, missing)


@pytest.mark.parametrize(
    ("measured", "reached", "missing"), [(50, True, 0), (3, True, 0), (75, False, 50)]
)
def test_at_most_is_reached_up_to_the_bound(measured: float, reached: bool, missing: float) -> None:
    target = at_most("turn", measured, 50, "ms")
    assert (target.reached, target.missing_percent) == (reached, missing)


def test_bound_of_nothing_has_no_percent() -> None:
    assert not at_most("lookups", 3, 0).reached
    assert at_most("lookups", 3, 0).missing_percent == 0


@pytest.mark.parametrize(
    ("target", "cells"),
    [
        (at_least("rate", 0.81, 0.9), ["rate", "0.81", ">= 0.9", "missed by 10 %"]),
        (at_most("start", 812.3456, 900, "ms"), ["start", "812.346 ms", "<= 900 ms", "reached"]),
        (at_most("lookups", 3, 0), ["lookups", "3", "<= 0", "missed by 3"]),
    ],
)
def test_target_tells_by_how_much_it_was_missed(target: Target, cells: list[str]) -> None:
    assert [*target.cells().values()] == cells


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1,234"), (7, "7"), (0.5, "0.5"), (2.0, "2"), (98_304, "98,304")]
)
def test_number_has_the_digits_that_say_something(value: float, text: str) -> None:
    assert number(value) == text
