import math
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pyspark_qmgr.reports import measure
from pyspark_qmgr.reports.measure import PERCENTS
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"])
def test_hour_is_that_of_utc_in_any_zone(spark: SparkSession, zone: str) -> None:
    times = spark.createDataFrame([(made.at(59 * 60 + 59),), (made.at(3_600),)], "at timestamp")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = times.select(measure.hour("at").cast("long") - int(made.START.timestamp()))
        assert [row[0] for row in found.collect()] == [0, 3_600]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_durations_are_reported_to_the_microsecond(spark: SparkSession) -> None:
    later = made.at(3_600 * 24 * 400) + timedelta(microseconds=1)
    times = spark.createDataFrame([(made.at(0), later)], "a timestamp, b timestamp")
    found = times.select(measure.ms("b", "a"), measure.ms("a", "b")).collect()[0]
    assert tuple(found) == (34_560_000_000.001, -34_560_000_000.001)


def test_share_of_nothing_is_null(spark: SparkSession) -> None:
    numbers = spark.createDataFrame([(1, 4), (1, 0)], "a long, b long")
    assert [row[0] for row in numbers.select(measure.ratio("a", "b")).collect()] == [0.25, None]


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.integers(-1_000, 10**9), min_size=1, max_size=300))
def test_percentiles_of_few_values_are_exact(spark: SparkSession, values: list[int]) -> None:
    """A percentile is the smallest value such that this percentage of the values is not greater."""
    numbers = spark.createDataFrame([(float(value),) for value in values], "v double")
    found = numbers.agg(*measure.percentiles("v", "v")).collect()[0]
    ranked = sorted(values)
    expected = [ranked[math.ceil(percent * len(values) / 100) - 1] for percent in PERCENTS]
    assert list(found) == expected
    assert [column.name for column in measure.described("v", "")] == list(found.asDict())


def test_percentiles_of_many_values_keep_to_their_rank(spark: SparkSession) -> None:
    count = 200_000
    numbers = spark.range(count).selectExpr("CAST((id * 7919) % 200000 AS DOUBLE) AS v")
    found = numbers.agg(*measure.percentiles("v", "v")).collect()[0]
    for percent, value in zip(PERCENTS, found, strict=True):
        assert abs(value - count * percent / 100) <= count / measure.ACCURACY + 1
