from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_qmgr.reports.depth import DEPTH
from pyspark_qmgr.reports.place import Place
from pyspark_qmgr.reports.rates import RATES
from pyspark_qmgr.reports.report import SHOWN_MAX, Frames
from pyspark_qmgr.reports.run import run, why
from pyspark_qmgr.reports.sizes import SIZES
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def tables(spark: SparkSession, **other: DataFrame) -> Mapping[str, DataFrame]:
    return made.empty(spark) | other


def test_rows_are_written_and_the_first_are_shown_in_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    messages = made.frame(
        spark,
        "messages",
        [
            {"queue": f"Q{n}", "put_at": made.at(0), "body_bytes": 1}
            for n in range(SHOWN_MAX + 9)
            for _ in range(2 if n == 7 else 1)
        ],
    )
    snapshots = made.frame(spark, "snapshots", [{"at": made.at(1.5)}])
    told: list[str] = []
    place = Place(spark, str(tmp_path))
    found = tables(spark, messages=messages, snapshots=snapshots)
    (outcome,) = run(spark, [DEPTH], found, place, told.append)
    assert told == ["depth"]
    (part,) = outcome.parts
    assert (outcome.error, part.rows_total, len(part.rows)) == ("", SHOWN_MAX + 9, SHOWN_MAX)
    assert (part.rows[0]["queue"], part.rows[0]["depth"]) == ("Q7", 2)
    # The time is in UTC in any time zone of the driver.
    assert part.rows[0]["oldest_put_at"] == made.START
    assert part.plot.startswith("<svg")
    assert spark.read.parquet(str(tmp_path / "depth.parquet")).count() == SHOWN_MAX + 9


def test_report_that_fails_leaves_the_others(spark: SparkSession, tmp_path: Path) -> None:
    def fail(tables: Frames) -> Frames:
        broken = F.expr("CAST(assert_true(id < 0, 'no such thing') AS STRING)")
        return {"": spark.range(9).select(broken.alias("queue"))}

    bad = DEPTH._replace(name="bad", make=fail, parts=(DEPTH.parts[0]._replace(order=("queue",)),))
    missing = DEPTH._replace(name="missing", make=lambda tables: {"": tables["nowhere"]})
    place = Place(spark, str(tmp_path))
    outcomes = run(spark, [bad, missing, SIZES], tables(spark), place)
    errors = [outcome.error for outcome in outcomes]
    assert "no such thing" in errors[0]
    assert errors[1:] == ["'nowhere'", ""]
    assert [outcome.parts == () for outcome in outcomes] == [True, True, False]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "sizes-histogram.parquet",
        "sizes.parquet",
    ]


def test_line_is_drawn_of_those_with_the_most(spark: SparkSession, tmp_path: Path) -> None:
    events = [
        {"event": "put", "at": hour * 3_600, "queue": f"Q{n}"}
        for n in range(9)
        for hour in range(2)
        for _ in range(n + 1)
    ]
    place = Place(spark, str(tmp_path))
    found = tables(spark, history=made.history(spark, events))
    (outcome,) = run(spark, [RATES], found, place)
    _, hourly = outcome.parts
    assert [f"QM · Q{n}" in hourly.plot for n in range(9)] == [False] * 3 + [True] * 6


def test_error_of_an_executor_is_reported_in_a_line() -> None:
    text = (
        "[PYTHON] it failed:\n  File x\n"
        "qmgrd.snapshot.finder.SnapshotUnreadable: /a: damaged; copy it\n\tat java"
    )
    assert why(RuntimeError(text)) == "/a: damaged; copy it"
    assert why(ValueError("one\ntwo")) == "one"
    assert why(ValueError()) == "ValueError"
    assert len(why(ValueError("x" * 9_999))) == 500
