import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.latest import depths, latest, taken
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark
SNAPSHOTS = [
    {"snapshot_id": "b", "at": made.at(0)},
    {"snapshot_id": "a", "at": made.at(60)},
    {"snapshot_id": "c", "queue_manager": "LON", "at": made.at(0)},
]


def test_last_snapshot_of_each_queue_manager_counts(spark: SparkSession) -> None:
    snapshots = made.frame(spark, "snapshots", SNAPSHOTS)
    messages = made.frame(
        spark,
        "messages",
        [
            {"snapshot_id": "b", "queue": "OLD"},
            {"snapshot_id": "a"},
            {"snapshot_id": "a"},
            {"snapshot_id": "c", "queue_manager": "LON"},
        ],
    )
    assert made.rows(latest(messages, snapshots), "queue_manager", "snapshot_id", "queue") == [
        ("LON", "c", "Q"),
        ("QM", "a", "Q"),
        ("QM", "a", "Q"),
    ]
    assert made.rows(depths(messages, snapshots)) == [("LON", "Q", 1), ("QM", "Q", 2)]
    assert taken(snapshots).columns == ["queue_manager", "snapshot_id", "taken_at"]
