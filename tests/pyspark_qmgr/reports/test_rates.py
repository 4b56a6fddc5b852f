from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.history import ENTER, GONE, SERVED
from pyspark_qmgr.reports.rates import COLUMNS, HOURLY, RATES, hourly, rates
from qmgr_protocol.history import EVENTS
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def test_rates_are_those_of_the_whole_time_and_of_the_best_minute(spark: SparkSession) -> None:
    puts = [{"event": "put", "at": n * 10} for n in range(12)]  # The last put is at 110 s.
    served = [{"event": "settled", "at": at} for at in (1, 2, 3, 61, 62, 120)]
    history = made.history(
        spark,
        [
            *puts,
            *served,
            {"event": "expired", "at": 100},
            {"event": "put", "at": 200, "queue": "LATE"},
        ],
    )
    depths = spark.createDataFrame(
        [("QM", "Q", 6)], "queue_manager string, queue string, depth long"
    )
    found = rates(history, depths)
    columns = (
        "queue",
        "arrived",
        "served",
        "gone",
        "returned",
        "arrived_per_s",
        "served_per_s",
        "served_peak_per_s",
        "depth",
    )
    assert made.rows(found, *columns) == [
        ("LATE", 1, 0, 0, 0, None, None, 0.0, 0),
        ("Q", 12, 6, 1, 0, 12 / 200, 6 / 200, 3 / 60, 6),
    ]
    # More messages arrive than can be served, so the queue never becomes empty.
    assert made.rows(found, "utilisation", "drain_ms") == [(12 / 200 / (3 / 60), None), (None, 0.0)]
    assert found.columns == [column.name for column in COLUMNS]


def test_time_to_drain_counts_what_comes_meanwhile(spark: SparkSession) -> None:
    events = [
        {"event": "put", "at": 0},
        *({"event": "settled", "at": 1} for _ in range(60)),
        {"event": "put", "at": 10},
    ]
    depths = spark.createDataFrame(
        [("QM", "Q", 8)], "queue_manager string, queue string, depth long"
    )
    found = rates(made.history(spark, events), depths)
    # One message per second is served, and 0.2 per second arrive.
    assert made.rows(found, "drain_ms") == [8 / (1 - 0.2) * 1000]


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.tuples(st.sampled_from(EVENTS), st.integers(0, 10_000), st.sampled_from("AB")),
        max_size=60,
    )
)
def test_hours_hold_every_event_once(
    spark: SparkSession, events: list[tuple[str, int, str]]
) -> None:
    history = made.history(spark, [{"event": e, "at": at, "queue": q} for e, at, q in events])
    found = hourly(history)
    assert found.columns == [column.name for column in HOURLY]
    kinds = {
        **dict.fromkeys(ENTER, 0),
        **dict.fromkeys(SERVED, 1),
        **dict.fromkeys(GONE, 2),
        "returned": 3,
    }
    expected = Counter((q, at // 3_600, kinds[e]) for e, at, q in events if e in kinds)
    told: Counter[tuple[str, int, int]] = Counter()
    for queue, hour, *counts in made.rows(
        found.selectExpr("queue", "unix_seconds(hour)", "arrived", "served", "gone", "returned")
    ):
        for kind, count in enumerate(counts):
            told[queue, (hour - int(made.START.timestamp())) // 3_600, kind] += count
    assert +told == expected


def test_title_tells_of_what_never_ends() -> None:
    row = {"queue_manager": "QM", "queue": "A", "utilisation": 0.5, "drain_ms": None}
    assert RATES.parts[0].title([row, row | {"drain_ms": 1}]) == (
        "A of QM has the highest utilisation: 50 % of its best minute; "
        "at this rate, 1 queue would never become empty"
    )
    assert RATES.parts[0].title([row | {"utilisation": None}]) == "no message was served on A"
