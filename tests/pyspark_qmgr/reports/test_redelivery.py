import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports import redelivery
from pyspark_qmgr.reports.redelivery import REDELIVERY, RETURNS_MAX
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def handed(
    arrival: int, returns: int, code: str | None = "LEASE_EXPIRED", peer: str = "app"
) -> list[dict[str, object]]:
    of: dict[str, object] = {"arrival": arrival, "peer": peer}
    there = [of | {"event": "delivered", "at": n} for n in range(returns + 1)]
    back = [of | {"event": "returned", "at": n + 0.5, "code": code} for n in range(returns)]
    return [*there, *back]


def test_queues_messages_and_reasons_are_counted(spark: SparkSession) -> None:
    history = made.history(
        spark,
        [
            *handed(1, 0),
            *handed(2, 1),
            *handed(3, 2, None, "bad"),
            {"event": "put", "at": 0, "queue": "IDLE"},
        ],
    )
    messages = redelivery.by_message(history)
    found = redelivery.by_queue(messages)
    assert made.rows(
        found,
        "queue",
        "deliveries",
        "returned",
        "returned_share",
        "messages",
        "messages_returned",
        "returns_max",
    ) == [("Q", 6, 3, 0.5, 3, 2, 2)]
    codes = redelivery.by_code(history)
    assert made.rows(codes, "code", "peer", "returned", "messages") == [
        ("LEASE_EXPIRED", "app", 1, 1),
        (None, "bad", 2, 1),
    ]
    first, last = "unix_millis(first_at)", "unix_millis(last_at)"
    start = int(made.START.timestamp()) * 1000
    assert made.rows(codes.where("peer = 'bad'").selectExpr(first, last)) == [
        (start + 500, start + 1_500)
    ]
    assert found.columns == [column.name for column in redelivery.COLUMNS]
    assert codes.columns == [column.name for column in redelivery.CODES]


def test_histogram_has_an_end(spark: SparkSession) -> None:
    history = made.history(spark, [*handed(1, 0), *handed(2, RETURNS_MAX), *handed(3, 40)])
    found = redelivery.histogram(redelivery.by_message(history))
    assert made.rows(found, "returns", "messages") == [(0, 1), (RETURNS_MAX, 2)]


def test_title_tells_whether_anything_came_back() -> None:
    row = {"queue_manager": "QM", "queue": "A", "returned": 0}
    title = REDELIVERY.parts[0].title
    assert title([row]) == "no delivery was returned"
    assert title([row | {"returned": 1, "returned_share": 0.1, "returns_max": 1}]) == (
        "1 delivery returned to A of QM, 10 % of its deliveries; one message was returned 1 time"
    )
