from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.tables import Tables, snapshots_frame, time_of
from qmgrd.ops.snapshots import find
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def test_snapshots_are_a_table(spark: SparkSession, snapshot: Path) -> None:
    (found,) = find([str(snapshot)])
    frame = snapshots_frame(spark, [found])
    assert made.rows(frame.selectExpr("queue_manager", "snapshot_id", "unix_micros(at)")) == [
        ("QM1", found.id, found.wall_us)
    ]
    assert time_of(found.wall_us).timestamp() * 1_000_000 == found.wall_us


def test_tables_are_those_of_the_snapshots(spark: SparkSession, snapshot: Path) -> None:
    tables = Tables(spark, find([str(snapshot)]))
    assert {"messages", "snapshots"} <= set(tables)
    assert len(tables) == len(set(tables))
    messages = tables["messages"]
    assert messages.where("queue = 'MANY'").count() == 2_500
    assert messages.where("body IS NOT NULL").count() == 0
    assert messages is not tables["messages"]
