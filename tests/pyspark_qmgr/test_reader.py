"""Tests of the pitfalls of Spark data sources, tested without Spark."""

import gc
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_qmgr import reader
from pyspark_qmgr.schema import schema_of
from qmgr_tables import image
from qmgr_tables.tables.registry import TABLES
from qmgrd.snapshot.finder import SnapshotUnreadable
from tests.qmgr_tables.snapshots import batches, reader_of, rows

FILLED = sorted(set(TABLES) - {"audit"})  # The queue managers of these tests have no users.
MESSAGES = schema_of(TABLES["messages"])
MESSAGES_IN_ALL = 8 + 2500 + 2 + 7 + 1 + 1  # ALL, MANY, @NYC, TIMES, dead letters, events
SOME = StructType([StructField("body_bytes", LongType()), StructField("queue", StringType())])


def test_partitions_are_a_list_of_input_partitions(snapshot: Path) -> None:
    found = reader_of(snapshot, rowsPerPartition="500").partitions()
    assert type(found) is list
    assert len(found) >= 5
    assert {type(partition) for partition in found} == {InputPartition}


def test_read_returns_an_iterator_that_does_nothing_yet(snapshot: Path) -> None:
    found = reader_of(snapshot).read(InputPartition("examined only when needed"))
    assert isinstance(found, Iterator)


def test_empty_snapshot_has_no_partition_and_spark_asks_all_the_same(empty: Path) -> None:
    assert reader_of(empty).partitions() == []
    assert list(reader_of(empty).read(InputPartition(None))) == []
    assert rows(empty) == []
    for name in ("deadletters", "events"):
        assert reader_of(empty, table=name).partitions() == []
        assert list(reader_of(empty, table=name).read(InputPartition(None))) == []


def test_pushdown_seems_not_defined_as_spark_refuses_that_by_default(snapshot: Path) -> None:
    pushed = reader_of(snapshot).pushFilters
    assert getattr(pushed, "__func__", None) is DataSourceReader.pushFilters


@pytest.mark.parametrize("schema", [MESSAGES, SOME], ids=["all", "some"])
def test_every_batch_has_the_very_schema_that_spark_wants(
    snapshot: Path, schema: StructType
) -> None:
    wanted = to_arrow_schema(schema, timezone="UTC")
    found = batches(reader_of(snapshot, schema, rowsPerPartition="400"))
    assert len(found) > 5
    for batch in found:
        assert isinstance(batch, pa.RecordBatch)
        assert wanted.equals(batch.schema, check_metadata=True)
        batch.validate(full=True)


@pytest.mark.parametrize("name", FILLED)
def test_every_batch_of_every_table_has_it(
    snapshot: Path, office: Path, empty: Path, name: str
) -> None:
    """Spark examines only the first batch. A difference in a later batch is an error of the JVM."""
    schema = schema_of(TABLES[name])
    wanted = to_arrow_schema(schema, timezone="UTC")
    some = StructType(schema.fields[::-3])
    both = f"{empty},{snapshot},{office}"
    for asked, expected in ((schema, wanted), (some, to_arrow_schema(some, timezone="UTC"))):
        found = batches(reader_of(both, asked, table=name, rowsPerPartition="100"))
        for batch in found:
            assert expected.equals(batch.schema, check_metadata=True)
            batch.validate(full=True)
    assert sum(batch.num_rows for batch in found) == len(rows(both, table=name)) > 0


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_the_same_with_all_columns_and_with_some(office: Path, name: str) -> None:
    schema = schema_of(TABLES[name])
    all_columns = rows(office, table=name)
    for field in schema.fields:
        alone = rows(office, StructType([field]), table=name)
        assert [row[field.name] for row in all_columns] == [row[field.name] for row in alone]


def test_own_schema_reads_those_columns_in_that_order(snapshot: Path) -> None:
    found = rows(snapshot, SOME, queues="@NYC")
    assert found[0] == {"body_bytes": 4, "queue": "@NYC"}


@pytest.mark.parametrize("rows_per_partition", ["1", "7", "100", "100000"])
def test_each_message_is_read_once_however_it_is_cut(
    snapshot: Path, rows_per_partition: str
) -> None:
    found = rows(snapshot, rowsPerPartition=rows_per_partition)
    places = [(row["queue"], row["priority"], row["arrival"]) for row in found]
    assert len(places) == len(set(places)) == MESSAGES_IN_ALL
    many = [row["body"] for row in found if row["queue"] == "MANY"]
    assert many == [b"%05d" % number for number in range(2_500)]


@pytest.mark.parametrize("name", FILLED)
def test_reader_and_partitions_travel(office: Path, name: str) -> None:
    """The driver pickles the reader and the partitions. Neither holds an open file."""
    made = reader_of(office, None, table=name, rowsPerPartition="900")
    (first, *_) = made.partitions()
    pickled = CloudPickleSerializer().dumps((made, first))  # type: ignore[no-untyped-call]
    there, partition = pickle.loads(pickled)
    assert len(pickle.dumps(first)) < 2_000
    assert batches(there, [partition]) == batches(made, [first])


# The manifest does not count the rows of history in a snapshot.
@pytest.mark.parametrize("name", sorted(set(TABLES) - {"history"}))
def test_planning_opens_no_data_file(snapshot: Path, name: str) -> None:
    """The planning process may have little memory, and is forked later."""
    image._open.clear()
    gc.collect()
    reader_of(snapshot, None, table=name).partitions()
    assert image._open == {}


def test_importing_the_source_loads_neither_arrow_nor_lmdb_environments() -> None:
    """Spark imports the module in every worker, and in the process that later forks workers."""
    code = (
        "import sys, pyspark_qmgr, qmgr_tables.image; "
        "sys.exit('pyarrow' in sys.modules or bool(qmgr_tables.image._open))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_generator_that_is_left_early_hinders_no_other(snapshot: Path) -> None:
    """A LIMIT ends a task before the end of its data."""
    made = reader_of(snapshot, rowsPerPartition="500")
    partitions = made.partitions()
    left = [made.read(partition) for partition in partitions]
    for generator in left:
        next(generator)
    assert sum(batch.num_rows for batch in batches(made)) == MESSAGES_IN_ALL
    del left, generator
    assert sum(batch.num_rows for batch in batches(made)) == MESSAGES_IN_ALL


def test_worker_is_forked_and_used_again(snapshot: Path) -> None:
    made = reader_of(snapshot)
    expected = sum(batch.num_rows for batch in batches(made))
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                counts = {sum(batch.num_rows for batch in batches(made)) for _ in range(3)}
                os._exit(0 if counts == {expected} else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_snapshots_are_one_table(snapshot: Path, empty: Path) -> None:
    found = rows(f"{snapshot},{empty}")
    assert {row["queue_manager"] for row in found} == {"QM1"}
    assert len(found) == MESSAGES_IN_ALL


def test_snapshot_that_goes_away_after_the_plan_is_named(snapshot: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(snapshot, tmp_path / "copy")
    made = reader_of(copy)
    partitions = made.partitions()
    shutil.rmtree(copy)
    with pytest.raises(SnapshotUnreadable, match="every executor must have snapshots under the"):
        batches(made, partitions)


def test_damaged_page_is_an_error_with_its_file(snapshot: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(snapshot, tmp_path / "copy")
    data = copy / "data.mdb"
    with data.open("r+b") as file:
        for page in range(2, data.stat().st_size // 4096):
            file.seek(page * 4096 + 8)
            file.write(b"\xff" * 8)
    with pytest.raises(SnapshotUnreadable, match="its checksum differs from the manifest"):
        rows(copy)
    with pytest.raises(SnapshotUnreadable) as refused:
        rows(copy, verify="false")
    assert str(refused.value).startswith(f"{copy}/data.mdb is damaged: ")
    assert str(refused.value).endswith("; copy or take the snapshot again")


def test_what_is_loaded_is_spared_by_collections_of_garbage(snapshot: Path) -> None:
    """A worker collects garbage after each task."""
    child = os.fork()
    if child == 0:
        try:
            gc.unfreeze()
            reader._spare_collector.cache_clear()
            batches(reader_of(snapshot))
            frozen = gc.get_freeze_count()
            batches(reader_of(snapshot))
            os._exit(0 if frozen > 10_000 and gc.get_freeze_count() <= frozen else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
