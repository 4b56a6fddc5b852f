import pytest

from qmgr_bench.median import median, median_ratio


def test_ratio_is_that_within_each_round() -> None:
    """The ratio does not change if the disk becomes ten times slower between two rounds."""
    assert median_ratio([90, 9.5, 8], [100, 10, 10]) == 0.9
    with pytest.raises(ValueError, match="shorter"):
        median_ratio([1, 2], [1])


def test_median_of_an_even_number_lies_between() -> None:
    assert median([1, 2, 10, 4]) == 3
