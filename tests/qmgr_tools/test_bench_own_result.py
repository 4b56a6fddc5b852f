from pathlib import Path

import pytest

from qmgr_tools.bench_own_result import Setting, at_least, at_most, median, median_ratio


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


def test_ratio_is_that_within_each_round() -> None:
    """The disk slowed down tenfold between the rounds: the ratio does not see it."""
    assert median_ratio([90, 9.5, 8], [100, 10, 10]) == 0.9
    with pytest.raises(ValueError, match="shorter"):
        median_ratio([1, 2], [1])


def test_median_of_an_even_number_lies_between() -> None:
    assert median([1, 2, 10, 4]) == 3


def test_scale_leaves_one_message() -> None:
    setting = Setting(Path(), 1, 0.001, 1, print)
    assert (setting.scaled(1_000_000), setting.scaled(10)) == (1_000, 1)
