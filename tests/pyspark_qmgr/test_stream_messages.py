"""Tests of streams of messages as Spark runs them: files, checkpoints, limits and errors."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from qmgr_client.blocking import Client, connect
from tests.qmgr_client.served import Server, address_of

pytestmark = pytest.mark.spark


@contextmanager
def served(directory: Path) -> Iterator[Client]:
    directory.mkdir(exist_ok=True)
    with Server(directory), connect(address_of(directory)) as client:
        yield client


def messages(spark: SparkSession, directory: Path, **options: str) -> DataFrame:
    """Returns a stream of the messages on queues A and B of the daemon in *directory*."""
    asked = {"url": address_of(directory), "table": "messages", "queues": "A,B", **options}
    return spark.readStream.format("qmgr").options(**asked).load()


def drained(found: DataFrame, directory: Path) -> Counter[tuple[str, int, bytes]]:
    """Writes the available data to files. Returns the queues, arrivals and bodies in the files."""
    query = (
        found.writeStream.format("parquet")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = found.sparkSession.read.parquet(str(directory / "out")).collect()
    return Counter((row.queue, row.arrival, bytes(row.body)) for row in rows)


def test_each_message_comes_once_over_runs_of_a_query(spark: SparkSession, tmp_path: Path) -> None:
    with served(tmp_path / "qm") as client:
        client.admin.queue_create("A")
        client.put_many("A", [b"1", b"2", b"3", b"4", b"5"])
        found = messages(spark, tmp_path / "qm", maxRowsPerTrigger="2", minPartitions="2")
        expected = {("A", at, b"%d" % at) for at in range(1, 6)}
        assert drained(found, tmp_path) == Counter(expected)
        assert len(list((tmp_path / "checkpoint/offsets").glob("[0-9]*"))) == 3
        assert drained(found, tmp_path) == Counter(expected)
        for message in client.get_many("A", 5):
            client.ack(message)  # Messages that were already streamed remain in the files.
        client.put("A", b"6", delay_ms=86_400_000)
        client.admin.queue_create("B")
        client.put_many("B", [b"1", b"2"])
        expected |= {("A", 6, b"6"), ("B", 1, b"1"), ("B", 2, b"2")}
        assert drained(found, tmp_path) == Counter(expected)


@pytest.mark.long
def test_latest_has_what_comes_from_then_on(spark: SparkSession, tmp_path: Path) -> None:
    with served(tmp_path / "qm") as client:
        client.admin.queue_create("A")
        client.put("A", b"before")
        found = messages(spark, tmp_path / "qm", startingOffsets="latest")
        assert drained(found, tmp_path) == Counter()
        client.put("A", b"after")
        assert drained(found, tmp_path) == Counter([("A", 2, b"after")])


@pytest.mark.long
def test_latest_has_all_of_a_queue_that_comes_between_two_queries(
    spark: SparkSession, tmp_path: Path
) -> None:
    with served(tmp_path / "qm") as client:
        found = messages(spark, tmp_path / "qm", startingOffsets="latest", queues="NEW")
        assert drained(found, tmp_path) == Counter()
        client.admin.queue_create("NEW")
        client.put("NEW", b"x")
        assert drained(found, tmp_path) == Counter([("NEW", 1, b"x")])


@pytest.mark.long
def test_store_that_was_restored_is_named_by_the_query(spark: SparkSession, tmp_path: Path) -> None:
    with served(tmp_path / "qm") as client:
        client.admin.queue_create("A")
        client.put("A", b"x")
    copytree(tmp_path / "qm", tmp_path / "kept", ignore=ignore_patterns("*.sock"))
    with served(tmp_path / "qm") as client:
        client.put("A", b"y")
        drained(messages(spark, tmp_path / "qm"), tmp_path)
    rmtree(tmp_path / "qm")
    (tmp_path / "kept").rename(tmp_path / "qm")
    with served(tmp_path / "qm") as client:
        assert client.admin.queue_show("A")["arrived"] == 1
        with pytest.raises(StreamingQueryException, match="queue A was read up to arrival 2, but"):
            drained(messages(spark, tmp_path / "qm"), tmp_path)
        client.put("A", b"other")
        client.put("A", b"more")
        found = messages(spark, tmp_path / "qm", failOnDataLoss="false")
        assert drained(found, tmp_path).keys() > {("A", 3, b"more")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cursor": "lake"}, "option cursor: streams of messages have no cursor; omit it"),
        ({"path": "/snapshots"}, "options url and path: a stream reads only one of them; omit one"),
        ({"table": "queues"}, "option table: queues cannot be streamed, only history, messages"),
    ],
    ids=["cursor", "path", "table"],
)
def test_stream_of_messages_refuses_unsupported_options(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        messages(spark, tmp_path, **options)


def test_only_streams_read_a_url(spark: SparkSession) -> None:
    reading = spark.read.format("qmgr").option("url", "127.0.0.1:1").option("table", "messages")
    with pytest.raises(PySparkException, match="for readStream only; spark"):
        reading.load().collect()
