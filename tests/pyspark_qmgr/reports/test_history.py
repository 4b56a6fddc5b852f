import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.history import ENTER, LEAVE, stays
from qmgr_protocol.history import EVENTS
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def test_events_are_those_of_the_history() -> None:
    assert set(ENTER + LEAVE) <= set(EVENTS)
    still_there = {"available", "delivered", "returned", "republished", "parked"}
    assert set(EVENTS).difference(ENTER, LEAVE) == still_there


def test_stay_is_reported_from_its_put_to_its_end(spark: SparkSession) -> None:
    events = [
        {"event": "put", "at": 0, "arrival": 1},
        {"event": "delivered", "at": 2, "arrival": 1, "put_at": made.at(0)},
        {"event": "returned", "at": 3, "arrival": 1},
        {"event": "delivered", "at": 5, "arrival": 1, "put_at": made.at(0)},
        {"event": "settled", "at": 6, "arrival": 1},
        {"event": "put", "at": 7, "arrival": 2},
        {"event": "delivered", "at": 9, "arrival": 3, "put_at": made.at(-5)},
    ]
    found = stays(made.history(spark, events))
    columns = ("arrival", "put_at", "delivered_at", "returns", "left_at", "ended")
    times = [
        f"CAST(unix_seconds({name}) AS INT)" if name.endswith("_at") else name for name in columns
    ]
    start = int(made.START.timestamp())
    assert made.rows(found.selectExpr(*times)) == [
        (1, start, start + 2, 1, start + 6, "settled"),
        (2, start + 7, None, 0, None, None),
        (3, start - 5, start + 9, 0, None, None),
    ]


def test_place_that_another_message_has_later_is_another_stay(spark: SparkSession) -> None:
    """The queue is deleted and created again between the stays."""
    events = [
        {"event": "put", "at": 0, "message_id": "A.1"},
        {"event": "put", "at": 1, "message_id": "A.2"},
    ]
    assert stays(made.history(spark, events)).count() == 2
