from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.registry import named
from pyspark_qmgr.reports.tables import Tables, snapshots_frame, time_of
from qmgr_protocol import messages as m
from qmgrd.snapshot.finder import find
from tests.pyspark_qmgr.reports import made
from tests.qmgrd.snapshot.shot import Camera, managed

pytestmark = pytest.mark.spark


def test_snapshots_are_a_table(spark: SparkSession, snapshot: Path) -> None:
    (found,) = find([str(snapshot)])
    frame = snapshots_frame(spark, [found])
    assert made.rows(frame.selectExpr("queue_manager", "snapshot_id", "unix_micros(at)")) == [
        ("QM1", found.id, found.wall_us)
    ]
    assert time_of(found.wall_us).timestamp() * 1_000_000 == found.wall_us


@pytest.mark.long
def test_tables_are_those_of_the_snapshots(spark: SparkSession, snapshot: Path) -> None:
    tables = Tables(spark, find([str(snapshot)]))
    assert {"messages", "snapshots"} <= set(tables)
    assert len(tables) == len(set(tables))
    messages = tables["messages"]
    assert messages.where("queue = 'MANY'").count() == 2_500
    assert messages.where("body IS NOT NULL").count() == 0
    assert messages is not tables["messages"]


def lived(directory: Path) -> list[str]:
    """Returns two snapshots of a queue on which messages waited 1, 2 and 3 s.

    The first message was returned once.
    """
    with managed(directory / "store") as manager:
        app, camera = manager.connect(), Camera(manager)
        app.ask(m.QueueCreate, "Q", {"accounting": "on"})
        app.put("Q", b"a", b"b", b"c", b"stays")
        for number in range(3):
            manager.turn(1_000)
            (message,) = app.get("Q")
            if number == 0:
                app.release(message)
                (message,) = app.get("Q")
                camera.take(directory / "first")
            app.ack(message)
        manager.turn(2_000)
        camera.take(directory / "second")
    return [str(directory / "first"), str(directory / "second")]


@pytest.mark.long
def test_reports_tell_what_was_lived(spark: SparkSession, tmp_path: Path) -> None:
    """History that appears in both snapshots counts once."""
    tables = Tables(spark, find(lived(tmp_path)))
    latency, rates, redelivery = named(["latency", "rates", "redelivery"])
    found = latency.make(tables)[""]
    assert made.rows(found, "queue", "messages", "queue_p50_ms", "queue_max_ms", "early") == [
        ("Q", 3, 2_000.0, 3_000.0, 0)
    ]
    found = rates.make(tables)[""]
    assert made.rows(found, "queue", "arrived", "served", "returned", "depth") == [
        ("Q", 4, 3, 1, 1)
    ]
    found = redelivery.make(tables)[""]
    assert made.rows(found, "queue", "deliveries", "returned", "returns_max") == [("Q", 4, 1, 1)]
