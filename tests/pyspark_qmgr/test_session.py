"""Tests of the session for the demo and the tests."""

import os
import sys

import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.java import JavaUnsuitable
from pyspark_qmgr.session import local_session

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.master", "local[2]"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.ui.enabled", "false"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.shuffle.partitions", "2"),
    ],
)
def test_session_is_small_quiet_and_open_to_nobody(
    spark: SparkSession, key: str, value: str
) -> None:
    assert spark.conf.get(key) == value


def test_quick_session_compiles_little(spark: SparkSession) -> None:
    assert "-XX:TieredStopAtLevel=1" in str(spark.conf.get("spark.driver.extraJavaOptions"))


def test_workers_run_this_python(spark: SparkSession) -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert found == [sys.executable]


def test_nothing_is_left_where_one_stands(spark: SparkSession) -> None:
    assert str(spark.conf.get("spark.sql.warehouse.dir")).startswith("file:/")
    assert os.getcwd() not in str(spark.conf.get("spark.sql.warehouse.dir"))


def test_machine_without_java_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        JavaUnsuitable, match="Java not found: JAVA_HOME is not set and PATH has no java"
    ):
        local_session("none")
