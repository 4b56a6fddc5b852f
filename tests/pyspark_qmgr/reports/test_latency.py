import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports import latency
from pyspark_qmgr.reports.history import stays
from pyspark_qmgr.reports.latency import LATENCY
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def message(
    arrival: int, put: float, wait: float, work: float, **more: object
) -> list[dict[str, object]]:
    """Returns the history of a message that was created one second before its put, and consumed."""
    of = {"arrival": arrival, "created_at": made.at(put - 1), **more}
    return [
        of | {"event": "put", "at": put},
        of | {"event": "delivered", "at": put + wait, "put_at": made.at(put)},
        of | {"event": "settled", "at": put + wait + work},
    ]


def test_waiting_and_work_are_distinguished(spark: SparkSession) -> None:
    events = [event for n in range(1, 101) for event in message(n, n, n / 1000, 0.5)]
    events += [{"event": "put", "at": 1, "arrival": 900}]
    events += [{"event": "expired", "at": 1, "arrival": 901, "put_at": made.at(0)}]
    settled = latency.settled(stays(made.history(spark, events)))
    found = latency.by_queue(settled)
    assert made.rows(
        found, "messages", "wait_p50_ms", "wait_p95_ms", "wait_p99_ms", "wait_max_ms"
    ) == [(100, 50.0, 95.0, 99.0, 100.0)]
    assert made.rows(found, "queue_p50_ms", "queue_max_ms", "total_p50_ms", "early") == [
        (550.0, 600.0, 1_550.0, 0)
    ]
    assert found.columns == [column.name for column in latency.BY_QUEUE]


def test_origins_and_hours_are_distinguished(spark: SparkSession) -> None:
    events = [
        *message(1, 0, 1, 1, origin="A"),
        *message(2, 3_599, 0, 2, origin="B"),
        *message(3, 0, 0, 0, origin="B", created_at=made.at(60)),
    ]
    settled = latency.settled(stays(made.history(spark, events)))
    assert made.rows(latency.by_origin(settled), "origin", "messages", "total_max_ms", "early") == [
        ("A", 1, 3_000.0, 0),
        ("B", 2, 3_000.0, 1),
    ]
    hours = latency.by_hour(settled).selectExpr("unix_seconds(hour)", "messages")
    start = int(made.START.timestamp())
    assert made.rows(hours) == [(start, 2), (start + 3_600, 1)]


def test_message_of_which_only_the_end_is_known_counts_without_a_time(spark: SparkSession) -> None:
    settled = latency.settled(stays(made.history(spark, [{"event": "settled", "at": 1}])))
    assert made.rows(latency.by_queue(settled), "messages", "wait_p50_ms", "queue_p99_ms") == [
        (1, None, None)
    ]


def test_title_tells_of_the_slowest() -> None:
    row = {"queue": "A", "queue_p99_ms": 2_000.0, "queue_p50_ms": 1.5}
    assert LATENCY.parts[0].title([row]) == (
        "A: one message in a hundred took 2 s or more on the queue, and half took 1.5 ms or less"
    )
    unknown = LATENCY.parts[0].title([row | {"queue_p99_ms": None}])
    assert unknown == "the put time of the settled messages is unknown"
