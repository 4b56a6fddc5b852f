"""Tests that filters reduce the data that a query reads, but do not change its results."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pyspark_qmgr.pushdown import Pushed, push
from qmgr_tables.filters import Filters
from qmgr_tables.tables.registry import TABLES
from tests.qmgr_tables.snapshots import batches, reader_of, rows
from tests.qmgrd.core.harness import WALL_US

SETTING = "spark.sql.python.filterPushdown.enabled"
MOMENT = datetime.fromtimestamp(WALL_US / 1_000_000, UTC)


def narrowed(*filters: Filter, table: str = "messages") -> tuple[Filters, list[Filter]]:
    known, left = push(TABLES[table], list(filters), Filters())
    return known, list(left)


@pytest.mark.parametrize(
    ("one", "part", "names"),
    [
        (EqualTo(("queue",), "A"), "queues", "A"),
        (EqualNullSafe(("queue_manager",), "A"), "managers", "A"),
        (In(("snapshot_id",), ("A", "B")), "snapshots", "AB"),
    ],
)
def test_what_each_row_has_is_done(one: Filter, part: str, names: str) -> None:
    known, left = narrowed(one)
    assert getattr(known, part) == frozenset(names)
    assert left == []


@pytest.mark.parametrize("column", ["queue", "queue_manager"])
def test_what_is_never_null_is_no_question(column: str) -> None:
    assert narrowed(IsNotNull((column,))) == (Filters(), [])


def test_state_spares_reading_and_is_sparks_all_the_same() -> None:
    one = EqualTo(("state",), "ready")
    known, left = narrowed(one)
    assert known.states == frozenset(["ready"])
    assert left[0] is one


@pytest.mark.parametrize(
    ("kind", "since", "until"),
    [
        (EqualTo, 7, 8),
        (GreaterThan, 8, None),
        (GreaterThanOrEqual, 7, None),
        (LessThan, None, 7),
        (LessThanOrEqual, None, 8),
    ],
)
def test_bounds_are_exact(kind: Any, since: int | None, until: int | None) -> None:
    one = kind(("arrival",), 7)
    known, left = narrowed(one)
    assert (known.since_arrival, known.until_arrival) == (since, until)
    assert left[0] is one
    known, _ = narrowed(kind(("put_at",), MOMENT))
    shift = WALL_US - 7
    assert known.since_us == (None if since is None else since + shift)
    assert known.until_us == (None if until is None else until + shift)


def test_set_of_numbers_is_its_bounds() -> None:
    known, left = narrowed(In(("arrival",), (9, 3, 5)))
    assert (known.since_arrival, known.until_arrival, len(left)) == (3, 10, 1)


@pytest.mark.parametrize(
    "one",
    [
        EqualNullSafe(("queue",), None),
        In(("queue",), ("A", None)),
        IsNull(("queue",)),
        Not(EqualTo(("queue",), "A")),
        StringStartsWith(("queue",), "A"),
        EqualTo(("body",), b""),
        EqualTo(("headers", "queue"), "A"),
        GreaterThan(("queue",), "A"),
        EqualTo(("put_at",), datetime(2024, 1, 1)),
        EqualTo(("arrival",), None),
        In(("arrival",), (1, None)),
        EqualTo(("arrival",), True),
        IsNull(("arrival",)),
    ],
)
def test_what_is_not_understood_is_sparks(one: Filter) -> None:
    known, left = narrowed(one)
    assert known == Filters()
    assert left[0] is one


def test_table_has_its_own_names() -> None:
    known, left = narrowed(EqualTo(("subscription",), "A:a"), table="republish")
    assert (known.queues, left) == (frozenset(["A:a"]), [])
    assert narrowed(EqualTo(("queue_manager",), "A"), table="snapshots")[0] == Filters()


def test_two_filters_hold_both_and_each_object_comes_back() -> None:
    same = [EqualTo(("state",), "ready"), EqualTo(("state",), "ready")]
    _, left = narrowed(*same)
    assert [id(one) for one in left] == [id(one) for one in same]
    known, _ = narrowed(In(("queue",), ("A", "B")), In(("queue",), ("B", "C")))
    assert known.queues == frozenset("B")


def test_every_name_that_is_pushed_is_a_column_and_a_part() -> None:
    for table in TABLES.values():
        assert set(table.pushed) <= set(table.schema.names)
        parts = {*Filters._fields, "us", "arrival"}
        assert set(table.pushed.values()) <= parts


def test_spark_takes_it_for_the_inherited_method() -> None:
    """Otherwise, Spark rejects the reader while pushdown is off."""
    assert Pushed(list).__func__ is DataSourceReader.pushFilters


def test_less_is_read(office: Path) -> None:
    made = reader_of(office)
    asked: list[Filter] = [EqualTo(("queue",), "UIDS"), LessThan(("arrival",), 104)]
    assert list(made.pushFilters(asked)) == asked[1:]
    found = [row for batch in batches(made) for row in batch.to_pylist()]
    assert [row["message_id"] for row in found] == ["A.101", "A.102", "A.103"]


@pytest.fixture(params=["false", "true"])
def setting(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    spark.conf.set(SETTING, request.param)
    yield str(request.param)
    spark.conf.unset(SETTING)


def load(spark: SparkSession, path: str, table: str) -> DataFrame:
    return spark.read.format("qmgr").option("table", table).load(path)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("messages", "queue = 'UIDS' AND arrival BETWEEN 104 AND 110"),
        ("messages", "queue IN ('UIDS', 'TIMES') AND state = 'ready' AND queue_manager = 'QM1'"),
        ("messages", "put_at < timestamp'2023-11-14 22:13:21' OR queue = 'ALL'"),
        ("messages", "put_at < timestamp'2023-11-14 22:13:21Z'"),
        ("messages", "put_at >= timestamp'2023-11-14 22:13:21Z' AND state <> 'ready'"),
        ("messages", "queue <=> NULL OR state IS NULL"),
        ("messages", "queue IS NULL"),
        ("messages", "queue IN ('ALL', NULL)"),
        ("messages", "queue = 'nowhere'"),
        ("messages", "state = 'damaged'"),
        ("messages", "queue LIKE 'SYS%' AND arrival > 1"),
        ("queues", "queue = 'UIDS' OR depth > 100"),
        ("republish", "subscription = 'A:bad' AND arrival = 2"),
        ("duplicates", "queue = 'UIDS' AND state = 'remembered' AND timestamp < 10"),
        ("snapshots", "queue_manager = 'QM1'"),
        ("events", "at > timestamp'2023-11-14 22:13:24Z' AND queue = 'SYSTEM.EVENTS'"),
    ],
)
def test_answer_is_the_same_on_and_off(
    spark: SparkSession, snapshot: Path, office: Path, setting: str, table: str, where: str
) -> None:
    both = f"{snapshot},{office}"
    all_of_it = load(spark, both, table).cache()  # Spark itself filters a cached table.
    expected = sorted(map(str, all_of_it.where(where).collect()))
    all_of_it.unpersist()
    found = load(spark, both, table).where(where)
    assert sorted(map(str, found.collect())) == expected


@pytest.mark.spark
def test_partitions_are_fewer_where_it_is_on(
    spark: SparkSession, snapshot: Path, setting: str
) -> None:
    table = spark.read.format("qmgr").option("rowsPerPartition", "500").load(str(snapshot))
    asked = table.where("queue = 'TIMES'")
    assert asked.count() == len(rows(snapshot, queues="TIMES"))
    assert asked.rdd.getNumPartitions() == (1 if setting == "true" else 7)
