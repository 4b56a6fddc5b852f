"""Tests of streams as Spark runs them: files, checkpoints and error reports."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from qmgr_client.blocking import connect
from tests.pyspark_qmgr.test_stream import served
from tests.qmgr_client.served import address_of
from tests.qmgr_tables.tables.test_history import happen, keep_accounts, picture
from tests.qmgrd.snapshot.shot import managed

pytestmark = pytest.mark.spark


def drained(history: DataFrame, directory: Path) -> Counter[tuple[int, int]]:
    """Writes the available data to files. Returns the row and event numbers in the files."""
    query = (
        history.writeStream.format("parquet")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = history.sparkSession.read.parquet(str(directory / "out")).collect()
    return Counter((row.seq, row.number) for row in rows)


@pytest.mark.long
def test_stream_of_a_daemon_goes_on_where_its_checkpoint_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "qm").mkdir()
    with served(tmp_path / "qm") as client:
        history = (
            spark.readStream.format("qmgr")
            .option("url", address_of(tmp_path / "qm"))
            .option("cursor", "lake")
            .option("maxRowsPerTrigger", "4")
            .load()
        )
        assert drained(history, tmp_path) == Counter()
        for expected in (5, 8):
            with connect(address_of(tmp_path / "qm")) as app:
                while app.admin.history_show()["next"] <= expected:
                    app.put("Q", b"x")
            assert drained(history, tmp_path) == Counter((n, 1) for n in range(1, expected + 1))
        assert client.admin.history_show()["first"] > 1


@pytest.mark.long
def test_stream_of_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    days = tmp_path / "days"
    days.mkdir()
    history = spark.readStream.format("qmgr").option("path", str(days)).option("table", "history")
    with managed(tmp_path / "qm") as manager:
        keep_accounts(manager)
        seen = 0
        for day in (1, 2):
            happen(manager, 2)
            picture(manager, days, day)
            found = drained(history.load(), tmp_path)
            assert set(found.values()) == {1}
            assert len(found) > seen
            seen = len(found)


def test_what_is_lost_is_named_by_the_query(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "qm").mkdir()
    with served(tmp_path / "qm") as client:
        history = (
            spark.readStream.format("qmgr")
            .option("url", address_of(tmp_path / "qm"))
            .option("cursor", "lake")
            .load()
        )
        client.put("Q", b"x")
        drained(history, tmp_path)
        client.admin.cursor_delete("lake")
        client.put("Q", b"x")
        client.admin.cursor_commit("other", 2)
        client.put("Q", b"x")
        with pytest.raises(StreamingQueryException, match="rows 2 to 2 of history were deleted"):
            drained(history, tmp_path)
