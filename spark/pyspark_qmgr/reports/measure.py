"""Durations, hours and percentiles, as expressions that do not depend on the session."""

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from pyspark_qmgr.reports.report import Column as Described
from pyspark_qmgr.reports.report import Kind

PERCENTS = (50, 95, 99)
# Percentiles are exact up to this number of values in a group. With more values, the error of the
# rank is at most the number of values divided by this number.
ACCURACY = 10_000
_HOUR_S = 3_600


def ms(later: str | Column, earlier: str | Column) -> Column:
    """Returns the time from *earlier* to *later* in ms, with microsecond resolution."""
    return (F.unix_micros(later) - F.unix_micros(earlier)) / 1000


def hour(at: str) -> Column:
    """Returns the UTC hour of *at*, independent of the session's time zone."""
    return F.timestamp_seconds(_whole(at, _HOUR_S) * _HOUR_S)


def minute_number(at: str) -> Column:
    """Returns the minute of *at*, counted from 1970."""
    return _whole(at, 60)


def _whole(at: str, seconds: int) -> Column:
    return F.floor(F.unix_seconds(F.col(at)) / seconds)


def ratio(part: str | Column, whole: str | Column) -> Column:
    """Returns *part* divided by *whole*, or null if *whole* is 0."""
    return F.try_divide(_column(part).cast("double"), _column(whole).cast("double"))


def _column(given: str | Column) -> Column:
    return F.col(given) if isinstance(given, str) else given


def percentiles(value: str, name: str) -> list[Column]:
    """Returns the aggregates name_p50_ms, name_p95_ms and name_p99_ms of *value*."""
    return [
        F.percentile_approx(value, percent / 100, ACCURACY).alias(f"{name}_p{percent}_ms")
        for percent in PERCENTS
    ]


def described(name: str, what: str) -> Iterable[Described]:
    """Returns the columns of `percentiles`."""
    for percent in PERCENTS:
        yield Described(
            f"{name}_p{percent}_ms", Kind.MS, f"{what}: {percent} % of the messages took no longer"
        )
