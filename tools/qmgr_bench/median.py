"""Medians over several rounds."""

import statistics
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """Returns the median, rounded to four decimals."""
    return round(statistics.median(values), 4)


def median_ratio(values: Sequence[float], references: Sequence[float]) -> float:
    """Returns the median of the ratios of *values* to the *references* of the same rounds.

    A drift over half an hour affects both values of a pair, so it does not affect the ratio.
    """
    pairs = zip(values, references, strict=True)
    return median([value / reference for value, reference in pairs])
