"""Medians: what of several rounds counts."""

import statistics
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """Returns the median, to four digits behind the point."""
    return round(statistics.median(values), 4)


def median_ratio(values: Sequence[float], references: Sequence[float]) -> float:
    """Returns the median of the ratios of each of *values* to the reference of its own round.

    A drift that took half an hour is in both of a pair, and so in no ratio.
    """
    pairs = zip(values, references, strict=True)
    return median([value / reference for value, reference in pairs])
