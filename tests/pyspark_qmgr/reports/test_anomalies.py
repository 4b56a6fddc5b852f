import math
import statistics
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_qmgr.reports.anomalies import ANOMALIES, COLUMNS, DAYS_MIN, anomalies
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def hours(spark: SparkSession, arrived: dict[int, int]) -> DataFrame:
    """Returns the arrivals in the given hours. All other hours have no row."""
    rows = [
        ("QM", "Q", made.START + timedelta(hours=hour), count, 0, 0, 0)
        for hour, count in arrived.items()
    ]
    return spark.createDataFrame(
        rows,
        "queue_manager string, queue string, hour timestamp, arrived long, served long, "
        "gone long, returned long",
    )


@pytest.mark.long
def test_hour_is_held_against_that_hour_of_all_other_days(spark: SparkSession) -> None:
    """In five days, the fourth hour of the third day has unusually many arrivals."""
    arrived = {day * 24 + hour: 10 * hour + 7 * (day % 2) for day in range(5) for hour in range(24)}
    arrived[2 * 24 + 3] = 400
    del arrived[1 * 24 + 3]  # An hour without arrivals also counts.
    found = anomalies(hours(spark, arrived)).where("what = 'arrived'")
    assert found.columns == [column.name for column in COLUMNS]
    told = {(row.hour.day, row.hour.hour): row for row in found.collect()}
    assert len(told) == 5 * 24 - 2  # The first and the last hour may be incomplete.
    ((key, worst),) = [item for item in told.items() if item[1].is_unusual]
    others = [30, 0, 30, 37]
    usual = statistics.mean(others)
    assert (worst.messages, worst.usual, worst.days) == (400, usual, 4)
    assert math.isclose(worst.deviation, statistics.stdev(others))
    assert math.isclose(worst.z, (400 - usual) / statistics.stdev(others))
    quiet = [row for at, row in told.items() if at[1] == key[1] and row.messages == 0]
    assert len(quiet) == 1


@pytest.mark.long
def test_what_is_always_the_same_has_the_deviation_of_chance(spark: SparkSession) -> None:
    arrived = dict.fromkeys(range(24 * 6), 100)
    arrived[24 * 2 + 5] = 120
    arrived[24 * 2 + 6] = 131
    found = anomalies(hours(spark, arrived)).where("what = 'arrived' AND messages > 100")
    assert made.rows(found, "messages", "usual", "deviation", "is_unusual") == [
        (120, 100.0, 10.0, False),
        (131, 100.0, 10.0, True),
    ]


@pytest.mark.long
def test_nothing_is_said_of_too_few_days(spark: SparkSession) -> None:
    few = dict.fromkeys(range(24 * DAYS_MIN), 5)
    assert anomalies(hours(spark, few)).count() == 0
    assert anomalies(hours(spark, {0: 1})).count() == 0
    assert anomalies(hours(spark, {0: 1, 1: 1})).count() == 0


def test_title_names_the_hour_or_says_that_none_is_odd() -> None:
    row = {
        "queue": "Q",
        "what": "arrived",
        "messages": 400,
        "usual": 24.25,
        "hour": made.START,
        "is_unusual": True,
    }
    title = ANOMALIES.parts[0].title
    said = title([row])
    assert said == "Q: 400 arrived in the hour of 2024-05-06 10:00; usual: 24"
    assert title([row | {"is_unusual": False}]) == (
        "no hour is 3 deviations or more from the usual value"
    )
