import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.dead import COLUMNS, DEAD, HOURLY, hourly, spots
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark
H = 3_600


def test_failures_are_distinguished_and_new_ones_found(spark: SparkSession) -> None:
    letters = made.frame(
        spark,
        "deadletters",
        [
            {"dead_code": "EXPIRED", "dead_at": made.at(0), "body_bytes": 5, "dead_failed": 2},
            {
                "dead_code": "EXPIRED",
                "dead_at": made.at(99 * H),
                "queue": "MY.BAD",
                "dead_retries": 1,
            },
            {"dead_code": "REJECTED", "dead_at": made.at(90 * H), "dead_reason": "no-amount"},
            {"dead_code": "REJECTED", "dead_at": made.at(76 * H - 1), "dead_reason": "other"},
        ],
    )
    snapshots = made.frame(spark, "snapshots", [{"at": made.at(100 * H)}])
    found = spots(letters, snapshots)
    columns = (
        "dead_code",
        "dead_reason",
        "messages",
        "body_bytes",
        "lies_on",
        "retried",
        "failed_max",
        "is_new",
    )
    assert made.rows(found, *columns) == [
        ("EXPIRED", None, 2, 6, 2, 1, 2, False),
        ("REJECTED", "no-amount", 1, 1, 1, 0, 0, True),
        ("REJECTED", "other", 1, 1, 1, 0, 0, False),
    ]
    assert found.columns == [column.name for column in COLUMNS]


def test_hours_are_counted(spark: SparkSession) -> None:
    letters = made.frame(
        spark,
        "deadletters",
        [{"dead_code": "EXPIRED", "dead_at": made.at(at)} for at in (0, H - 1, H)]
        + [{"dead_code": "EXPIRED"}],
    )
    found = hourly(letters)
    start = int(made.START.timestamp())
    assert made.rows(found.selectExpr("unix_seconds(hour)", "messages")) == [
        (start, 2),
        (start + H, 1),
    ]
    assert found.columns == [column.name for column in HOURLY]


def test_title_tells_of_what_is_new() -> None:
    row = {"dead_queue": "A", "dead_code": "EXPIRED", "messages": 1, "is_new": True}
    assert DEAD.parts[0].title([row, row | {"is_new": False}]) == (
        "1 dead letter of A with EXPIRED; 1 kind of failure first seen within 24 h"
    )
