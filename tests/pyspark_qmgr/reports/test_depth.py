import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.depth import COLUMNS, DEPTH, depth
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def test_each_queue_is_counted_by_state_and_its_oldest_found(spark: SparkSession) -> None:
    messages = made.frame(
        spark,
        "messages",
        [
            {"put_at": made.at(0), "body_bytes": 10},
            {"put_at": made.at(5), "body_bytes": None},
            {"put_at": made.at(-1), "state": "delayed", "body_bytes": 1},
            {"queue": "@LON", "state": "transmission", "put_at": made.at(9.5), "body_bytes": 7},
            {"queue_manager": "LON", "snapshot_id": "t", "put_at": None},
        ],
    )
    snapshots = made.frame(spark, "snapshots", [{"at": made.at(10)}])
    columns = (
        "queue_manager",
        "queue",
        "depth",
        "ready",
        "delayed",
        "transmission",
        "body_bytes",
        "oldest_age_ms",
    )
    found = depth(messages, snapshots)
    assert made.rows(found, *columns) == [
        ("LON", "Q", 1, 1, 0, 0, 0, None),
        ("QM", "@LON", 1, 0, 0, 1, 7, 500.0),
        ("QM", "Q", 3, 2, 1, 0, 11, 11_000.0),
    ]
    assert found.columns == [column.name for column in COLUMNS]


def test_title_names_the_deepest_and_the_oldest() -> None:
    deep = {"queue_manager": "QM", "queue": "A", "depth": 2_000, "oldest_age_ms": 5}
    old = {"queue_manager": "QM", "queue": "B", "depth": 1, "oldest_age_ms": 3_600_000}
    assert DEPTH.parts[0].title([deep, old]) == (
        "A of QM is the deepest with 2,000 messages; the oldest message has been on B for 1 h"
    )
