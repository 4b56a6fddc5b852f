"""Tests of the data source "qmgr" as Spark sees it, first without Spark and then in a session."""

import shutil
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

import pyspark_qmgr
from pyspark_qmgr.schema import schema_of
from pyspark_qmgr.source import DefaultSource
from qmgr_tables.options import OptionInvalid
from qmgr_tables.tables.registry import TABLES
from qmgrd.snapshot.finder import SnapshotUnreadable
from tests.pyspark_qmgr.test_reader import MESSAGES, MESSAGES_IN_ALL
from tests.qmgr_tables.snapshots import LONG, rows


def test_package_has_what_spark_looks_for() -> None:
    assert pyspark_qmgr.DefaultSource is DefaultSource
    assert DefaultSource.name() == "qmgr"


def test_schema_tells_of_wrong_options_and_paths_at_once(snapshot: Path) -> None:
    assert DefaultSource({"path": str(snapshot)}).schema() == MESSAGES
    with pytest.raises(OptionInvalid, match="option 'pth' is unknown; did you mean path"):
        DefaultSource({"pth": "/"}).schema()
    with pytest.raises(SnapshotUnreadable, match="/none: not found"):
        DefaultSource({"path": "/none"}).schema()


@pytest.fixture
def table(spark: SparkSession, snapshot: Path) -> DataFrame:
    """The snapshot as a table, loaded without registration."""
    return (
        spark.read.format("qmgr")
        .option("path", str(snapshot))
        .option("rowsPerPartition", "500")
        .load()
    )


@pytest.mark.spark
def test_snapshot_is_loaded_without_registration(table: DataFrame) -> None:
    assertSchemaEqual(table.schema, MESSAGES)
    assert table.count() == MESSAGES_IN_ALL
    assert table.rdd.getNumPartitions() >= 5


@pytest.mark.spark
def test_messages_are_aggregated(spark: SparkSession, table: DataFrame) -> None:
    found = (
        table.where("queue <> 'SYSTEM.EVENTS'")
        .groupBy("queue", "state")
        .agg(f.count("*").alias("messages"), f.sum("body_bytes").alias("bytes"))
    )
    expected = [
        ("ALL", "ready", 6, 5 + 4 + 5 + 3 + len(LONG)),
        ("ALL", "damaged", 2, None),
        ("MANY", "ready", 2500, 12_500),
        ("@NYC", "transmission", 2, 15),
        ("TIMES", "delayed", 3, 18),
        ("TIMES", "ready", 4, 35),
        ("SYSTEM.DEAD.LETTERS", "ready", 1, 4),
    ]
    schema = "queue string, state string, messages long not null, bytes long"
    assertDataFrameEqual(found, spark.createDataFrame(expected, schema))


@pytest.mark.spark
def test_spark_sees_what_the_reader_reads(table: DataFrame, snapshot: Path) -> None:
    """Every column of every kind of message passes through the JVM unchanged."""
    queues = "ALL,TIMES,SYSTEM.DEAD.LETTERS"
    seen = {(row["queue"], row["arrival"]): row for row in table.where("queue <> 'MANY'").collect()}
    for expected in rows(snapshot, queues=queues):
        row = seen[expected["queue"], expected["arrival"]].asDict()
        for name in ("created_at", "put_at", "expires_at", "deliver_at", "dead_at"):
            expected[name] = expected[name] and expected[name].timestamp()
            row[name] = row[name] and row[name].timestamp()
        expected["headers"] = expected["headers"] and dict(expected["headers"])
        assert {**row, "headers": row["headers"] or None} == {
            **expected,
            "headers": expected["headers"] or None,
        }


@pytest.mark.spark
def test_times_bodies_and_headers_are_what_analysts_ask_for(table: DataFrame) -> None:
    found = table.where("headers['number'] = '-7'").select(
        f.decode("body", "UTF-8"), f.hour("put_at"), f.col("headers")["flag"]
    )
    assert [tuple(row) for row in found.collect()] == [("full", 22, "true")]


@pytest.mark.spark
def test_limit_leaves_tasks_early_and_the_worker_continues(table: DataFrame) -> None:
    assert len(table.limit(3).collect()) == 3
    assert table.where("queue = 'MANY'").count() == 2500
    assert len(table.limit(7).collect()) == 7


@pytest.mark.spark
def test_empty_snapshot_is_an_empty_table(spark: SparkSession, empty: Path) -> None:
    assert spark.read.format("qmgr").load(str(empty)).count() == 0


@pytest.mark.spark
def test_list_of_snapshots_is_one_table(spark: SparkSession, snapshot: Path, empty: Path) -> None:
    table = spark.read.format("qmgr").load([str(snapshot), str(empty)])
    assert table.select("queue_manager").distinct().count() == 1


@pytest.mark.spark
def test_own_schema_reads_fewer_columns(spark: SparkSession, snapshot: Path) -> None:
    some = spark.read.format("qmgr").schema("body_bytes long, queue string").load(str(snapshot))
    assert some.columns == ["body_bytes", "queue"]
    assert some.where("queue = '@NYC'").first() == (4, "@NYC")


@pytest.mark.spark
def test_sql_view(spark: SparkSession, snapshot: Path) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW shot USING qmgr OPTIONS (path '{snapshot}')")
    assert spark.sql("SELECT max(arrival) FROM shot").first() == (2500,)


@pytest.mark.spark
@pytest.mark.parametrize("name", TABLES)
def test_every_table_goes_through_the_jvm_and_back(
    spark: SparkSession, snapshot: Path, office: Path, name: str
) -> None:
    both = f"{snapshot},{office}"
    table = spark.read.format("qmgr").option("table", name).load(both)
    assertSchemaEqual(table.schema, schema_of(TABLES[name]))
    expected = rows(both, table=name)
    flat = [
        column.name for column in TABLES[name].columns if str(column.type) in ("string", "int64")
    ]
    seen = sorted(str(tuple(row[column] for column in flat)) for row in table.collect())
    assert seen == sorted(str(tuple(row[column] for column in flat)) for row in expected)


@pytest.mark.spark
def test_what_plans_may_have_little_memory(spark: SparkSession, office: Path) -> None:
    spark.conf.set("spark.sql.planner.pythonExecution.memory", "768m")
    try:
        assert spark.read.format("qmgr").option("table", "queues").load(str(office)).count() == 12
    finally:
        spark.conf.unset("spark.sql.planner.pythonExecution.memory")


@pytest.mark.spark
def test_damaged_snapshot_is_fatal_or_left_out(
    spark: SparkSession, snapshot: Path, office: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(office, tmp_path / "copy")
    (copy / "data.mdb").write_bytes(bytes((copy / "data.mdb").stat().st_size))
    both = spark.read.format("qmgr").option("table", "queues").option("path", f"{snapshot},{copy}")
    with pytest.raises(AnalysisException, match="its checksum differs from the manifest"):
        both.load().count()
    both = both.option("onDamaged", "skip")
    assert both.load().select("queue_manager").distinct().collect() == [("QM1",)]
    assert both.option("table", "snapshots").load().where("damage IS NOT NULL").count() == 1


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "schema", "text"),
    [
        ({"path": "/none"}, None, "/none: not found; check the path"),
        ({"queue": "ALL"}, None, "option 'queue' is unknown; did you mean queues?"),
        ({"queues": "AL"}, None, "option queues: queue AL not found in "),
        ({}, "queue int", "schema: column queue is int, but in messages it is string"),
        ({"table": "queues"}, "depth int", "schema: column depth is int, but in queues it is bigi"),
        (
            {"table": "queue"},
            None,
            "option table: 'queue' is not a valid table; did you mean queues?",
        ),
        ({"since": "soon"}, None, "option since: 'soon' is not a valid time; use 2024-05-01, "),
        (
            {"table": "links", "since": "1"},
            None,
            "option since: table links does not support this option",
        ),
        ({"path": "/none", "onDamaged": "skip"}, None, "all 1 snapshots were skipped; "),
    ],
)
def test_mistakes_reach_the_user_in_one_line(
    spark: SparkSession, snapshot: Path, options: dict[str, str], schema: str | None, text: str
) -> None:
    reader = spark.read.format("qmgr").options(**{"path": str(snapshot), **options})
    if schema:
        reader = reader.schema(schema)
    with pytest.raises(AnalysisException) as refused:
        reader.load().collect()
    assert [line for line in str(refused.value).splitlines() if text in line]
