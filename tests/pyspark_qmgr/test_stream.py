"""Tests of streams as Spark uses them, but without Spark: offsets, limits and restarts."""

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_qmgr.schema import SchemaInvalid, schema_of
from pyspark_qmgr.source import DefaultSource
from pyspark_qmgr.stream import StreamReader
from qmgr_client.blocking import Client, connect
from qmgr_tables.options import OptionInvalid
from qmgr_tables.tables.registry import TABLES
from tests.qmgr_client.served import Server, address_of

HISTORY = schema_of(TABLES["history"])
ALL = ReadAllAvailable()


@contextmanager
def served(directory: Path) -> Iterator[Client]:
    with Server(directory), connect(address_of(directory)) as client:
        client.admin.queue_create("Q", accounting="on")
        yield client


def happen(client: Client, count: int) -> str:
    """Creates *count* events, each with one row of history. Returns the id of the store."""
    for _ in range(count):
        client.put("Q", b"x")
    store_id: str = client.admin.history_show()["store_id"]
    return store_id


def reader_of(directory: Path, schema: StructType | None = None, **options: str) -> StreamReader:
    source = DefaultSource(
        {"url": address_of(directory), "cursor": "lake", "waitMs": "0", **options}
    )
    reader = source.streamReader(schema or source.schema())
    assert isinstance(reader, StreamReader)
    return reader


def rows(reader: StreamReader, start: Any, end: Any) -> list[dict[str, Any]]:
    partitions = reader.partitions(start, end)
    assert type(partitions) is list
    assert {type(partition) for partition in partitions} <= {InputPartition}
    return [
        row
        for partition in partitions or [InputPartition(None)]
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_batches_follow_each_other(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        store = happen(client, 3)
        reader = reader_of(tmp_path)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        assert (start, end) == ({store: 0}, {store: 3})
        assert [row["seq"] for row in rows(reader, start, end)] == [1, 2, 3]
        assert reader.latestOffset(end, ALL) == end == reader.reportLatestOffset()
        assert rows(reader, end, end) == []
        happen(client, 2)
        reader.commit(end)
        assert client.admin.history_show()["cursors"][0]["position"] == 3
        assert [row["seq"] for row in rows(reader, end, reader.latestOffset(end, ALL))] == [4, 5]
        reader.stop()
        reader.stop()


def test_offsets_are_json_whose_text_is_always_the_same(tmp_path: Path) -> None:
    names = ["b", "a", "c"]
    for name in names:
        (tmp_path / name).mkdir()
    with served(tmp_path / "a") as one, served(tmp_path / "b") as two, served(tmp_path / "c"):
        happen(one, 1)
        happen(two, 2)
        url = ",".join(address_of(tmp_path / name) for name in names)
        reader = reader_of(tmp_path, url=url)
        start = reader.initialOffset()
        end = reader.latestOffset(json.loads(json.dumps(start)), ALL)
        for offset in (start, end):
            assert list(offset) == sorted(offset)
            assert len(offset) == 3
            assert all(type(position) is int for position in offset.values())
        reader.stop()


def test_limits_are_held_to_and_all_is_all(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        store = happen(client, 9)
        plain = reader_of(tmp_path)
        limited = reader_of(tmp_path, maxRowsPerTrigger="2", maxBytesPerTrigger="1000000")
        narrow = reader_of(tmp_path, maxBytesPerTrigger="1")
        assert plain.getDefaultReadLimit() == ALL
        assert limited.getDefaultReadLimit() == ReadMaxRows(2)
        assert narrow.getDefaultReadLimit() == ReadMaxBytes(1)
        start = limited.initialOffset()
        assert limited.latestOffset(start, ReadMaxRows(2)) == {store: 2}
        assert limited.latestOffset(start, ReadMaxRows(4)) == {store: 4}
        assert limited.latestOffset({store: 8}, ReadMaxRows(2)) == {store: 9}
        assert limited.latestOffset(start, ALL) == {store: 9}
        assert narrow.latestOffset(start, ReadMaxBytes(1)) == {store: 1}
        assert limited.reportLatestOffset() == {store: 9}
        # With another signature, Spark would not set a limit.
        assert len(signature(limited.latestOffset).parameters) == 2


def test_available_now_ends_where_it_began(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        store = happen(client, 5)
        reader = reader_of(tmp_path, maxRowsPerTrigger="2")
        assert isinstance(reader, SupportsTriggerAvailableNow)
        reader.prepareForTriggerAvailableNow()
        assert client.admin.history_show()["cursors"] == []  # The check must not create a cursor.
        happen(client, 5)
        start, seen = reader.initialOffset(), []
        while (end := reader.latestOffset(start, ReadMaxRows(2))) != start:
            seen.append(end[store])
            start = end
        assert seen == [2, 4, 5]
        # The offset comes from a batch that was already planned.
        assert reader.latestOffset({store: 7}, ALL) == {store: 7}


def test_available_now_goes_on_behind_what_a_store_lost_that_was_restored(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        store = happen(client, 5)
        reader = reader_of(tmp_path, failOnDataLoss="false")
        reader.prepareForTriggerAvailableNow()
        assert reader.latestOffset({store: 9}, ALL) == {store: 5}


def test_batch_that_was_planned_is_read_again_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        store = happen(client, 4)
        first = reader_of(tmp_path)
        start = first.initialOffset()
        end = first.latestOffset(start, ALL)
        told = rows(first, start, end)
        happen(client, 4)
        again = reader_of(tmp_path)
        assert rows(again, start, end) == told
        assert again.latestOffset(end, ALL) == {store: 8}
        again.commit(end)
        again.commit(end)
        assert client.admin.history_show()["cursors"][0]["position"] == 4


def test_reader_and_partitions_travel_without_connections(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        store = happen(client, 4)
        reader = reader_of(tmp_path)
        reader.initialOffset()
        partitions = reader.partitions({store: 0}, {store: 4})
        there = travelled((reader, partitions))
        (batch,) = there[0].read(there[1][0])
        assert batch.num_rows == 4
        assert next(travelled(reader.read)(partitions[0])).num_rows == 4
        assert len(pickle.dumps(partitions[0])) < 1_000


def travelled(thing: object) -> Any:
    """Returns *thing* as an executor receives it."""
    return pickle.loads(CloudPickleSerializer().dumps(thing))  # type: ignore[no-untyped-call]


SOME = StructType([StructField("queue", StringType()), StructField("event", StringType())])


@pytest.mark.parametrize("schema", [HISTORY, SOME], ids=["all", "some"])
def test_every_batch_has_the_very_schema_that_spark_wants(
    tmp_path: Path, schema: StructType
) -> None:
    with served(tmp_path) as client:
        store = happen(client, 4)
        reader = reader_of(tmp_path, schema, minPartitions="4")
        partitions = reader.partitions({store: 0}, {store: 4})
        assert len(partitions) == 4
        for partition in partitions:
            for batch in reader.read(partition):
                wanted = to_arrow_schema(schema, timezone="UTC")
                assert wanted.equals(batch.schema, check_metadata=True)
                batch.validate(full=True)


def test_queues_are_chosen_and_offsets_go_on_all_the_same(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        happen(client, 2)
        client.admin.queue_create("OTHER", accounting="on")
        client.put("OTHER", b"x")
        store = happen(client, 1)
        reader = reader_of(tmp_path, queues="OTHER")
        assert reader.latestOffset({store: 0}, ALL) == {store: 4}
        assert [row["queue"] for row in rows(reader, {store: 0}, {store: 4})] == ["OTHER"]


def test_wrong_options_and_schemas_are_refused_before_anything_is_read() -> None:
    with pytest.raises(OptionInvalid, match="option cursor is missing"):
        DefaultSource({"url": "nowhere:1"}).schema()
    with pytest.raises(OptionInvalid, match=r"for readStream only; spark.read reads"):
        DefaultSource({"url": "nowhere:1", "cursor": "lake"}).reader(HISTORY)
    wrong = StructType([StructField("body", StringType())])
    with pytest.raises(SchemaInvalid, match="table history has no column 'body'"):
        DefaultSource({"url": "nowhere:1", "cursor": "lake"}).streamReader(wrong)
    messages = schema_of(TABLES["messages"])
    with pytest.raises(
        OptionInvalid, match=r'history in snapshots, use .option\("table", "history"\)'
    ):
        DefaultSource({"path": "/snapshots"}).streamReader(messages)
    with pytest.raises(PySparkException):
        DefaultSource({}).streamWriter(HISTORY, False)


def test_first_batch_begins_where_it_did_also_where_it_is_read_again(tmp_path: Path) -> None:
    """Spark does not store the start, and requests it again until the first batch is written."""
    with served(tmp_path) as client:
        store = happen(client, 3)
        for start in ("earliest", "latest"):
            client.admin.cursor_commit("other", 0)
            options = {"startingOffsets": start, "cursor": start}
            begun = reader_of(tmp_path, None, **options).initialOffset()
            last = begun[store] + 2
            happen(client, 2)
            again = reader_of(tmp_path, None, **options)
            assert again.initialOffset() == begun
            assert [row["seq"] for row in rows(again, begun, {store: last})] == [last - 1, last]
