import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.backlog import BACKLOG, COLUMNS, REASONS, by_reason, by_subscriber
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark
PARKED = [
    {
        "subscription": "a:x",
        "since": made.at(5),
        "code": "LIMIT",
        "record_bytes": 10,
        "awaited": True,
    },
    {
        "subscription": "a:x",
        "since": made.at(2),
        "code": "LIMIT",
        "reason": "no-amount",
        "republished": 3,
        "topic": "/b",
    },
    {"subscription": "a:x", "since": made.at(3), "code": "LIMIT", "reason": "no-amount"},
]


@pytest.mark.long
def test_subscribers_have_what_they_failed_on(spark: SparkSession) -> None:
    subscriptions = made.frame(
        spark,
        "subscriptions",
        [
            {"subscription": "a:x", "backlog": 1},
            {"subscription": "b", "backlog": 0},
            {"subscription": "away", "backlog": None},
        ],
    )
    snapshots = made.frame(spark, "snapshots", [{"at": made.at(10)}])
    found = by_subscriber(subscriptions, made.frame(spark, "republish", PARKED), snapshots)
    columns = (
        "subscription",
        "backlog",
        "parked",
        "parked_share",
        "parked_bytes",
        "republished_max",
        "awaited",
        "oldest_age_ms",
    )
    assert made.rows(found, *columns) == [
        ("a:x", 1, 3, 0.75, 12, 3, 1, 8_000.0),
        ("away", None, 0, None, 0, None, 0, None),
        ("b", 0, 0, None, 0, None, 0, None),
    ]
    assert found.columns == [column.name for column in COLUMNS]


def test_reasons_are_counted(spark: SparkSession) -> None:
    found = by_reason(made.frame(spark, "republish", PARKED))
    assert made.rows(found, "code", "reason", "parked", "topics") == [
        ("LIMIT", "no-amount", 2, 2),
        ("LIMIT", None, 1, 1),
    ]
    assert found.columns == [column.name for column in REASONS]


def test_titles_tell_who_failed_and_why() -> None:
    row = {"subscription": "a:x", "parked": 1, "oldest_age_ms": 8_000.0}
    title = BACKLOG.parts[0].title
    assert title([row]) == ("a:x has failed most often: 1 publication, the oldest parked for 8 s")
    assert title([row | {"parked": 0}]) == "no publication is parked for 1 subscriber"
    row = {"subscription": "a:x", "parked": 2, "code": None, "reason": "no-amount"}
    assert BACKLOG.parts[1].title([row]) == (
        "no code, no-amount: the reason for parking 2 publications of a:x"
    )
