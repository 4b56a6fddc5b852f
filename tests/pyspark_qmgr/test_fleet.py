"""Tests of one query over two hundred queue managers."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from qmgr_tables.options import Options
from qmgr_tables.planning import BUNDLES_MIN, plan
from qmgr_tables.tables.registry import TABLES
from tests.qmgr_tables.fleet import make

MANAGERS = 200
PLAN_MAX_S = 10  # Planning takes 0.2 s, but the machine may be busy.

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("fleet"), MANAGERS)


@pytest.fixture(params=["false", "true"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """A session with pushdown off, and with pushdown on."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", request.param)
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def table(spark: SparkSession, fleet: Path, name: str) -> DataFrame:
    return spark.read.format("qmgr").option("table", name).load(f"{fleet}/*")


@pytest.mark.long
def test_messages_of_all_are_one_table(session: SparkSession, fleet: Path) -> None:
    messages = table(session, fleet, "messages").where("queue = 'Q'")
    found = dict(map(tuple, messages.groupBy("queue_manager").count().collect()))
    expected = {f"QM{number}": number + 1 - (number % 10 == 0) for number in range(MANAGERS)}
    assert found == {name: count for name, count in expected.items() if count}
    assert messages.where("queue_manager = 'QM77'").count() == 78
    assert messages.rdd.getNumPartitions() == BUNDLES_MIN


@pytest.mark.long
def test_tables_are_joined(session: SparkSession, fleet: Path) -> None:
    """The data about each queue matches its content."""
    counted = table(session, fleet, "messages").groupBy("queue_manager", "queue").count()
    queues = table(session, fleet, "queues")
    both = queues.join(counted, ["queue_manager", "queue"], "left").fillna(0, ["count"])
    assert both.where("depth <> count").count() == 0
    assert queues.agg(f.countDistinct("queue_manager")).first() == (MANAGERS,)
    dead = table(session, fleet, "deadletters").select("queue_manager", "dead_queue").collect()
    assert sorted(map(tuple, dead)) == sorted((f"QM{n}", "Q") for n in range(0, MANAGERS, 10))


@pytest.mark.parametrize("name", TABLES)
def test_planning_is_not_slow(fleet: Path, name: str) -> None:
    started = time.monotonic()
    bundles = plan(TABLES[name], Options((f"{fleet}/*",), table=name))
    assert time.monotonic() - started < PLAN_MAX_S
    assert len(bundles) <= BUNDLES_MIN
