"""Tests of the rules that every report follows for its texts, its columns, and empty input."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_qmgr.reports.registry import ALL, REPORTS
from pyspark_qmgr.reports.report import Kind, Report
from pyspark_qmgr.reports.run import ordered
from tests.pyspark_qmgr.reports import made

EACH = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
TYPES = {
    Kind.TEXT: {"string"},
    Kind.COUNT: {"bigint", "int"},
    Kind.MS: {"double", "bigint"},
    Kind.BYTES: {"bigint", "double"},
    Kind.RATE: {"double"},
    Kind.SHARE: {"double"},
    Kind.NUMBER: {"double"},
    Kind.TIME: {"timestamp"},
    Kind.FLAG: {"boolean"},
}


@EACH
def test_report_is_described(report: Report) -> None:
    assert report.name not in (ALL, "ls")
    assert 0 < len(report.text) <= 76
    assert report.parts[0].name == ""
    files = [report.file_of(part) for part in report.parts]
    assert len(set(files)) == len(files)
    assert files[0] == f"{report.name}.parquet"
    for part in report.parts:
        names = [column.name for column in part.columns]
        assert len(set(names)) == len(names)
        assert all(column.text for column in part.columns)
        assert part.plot is None or {*part.plot.label, *part.plot.values} <= set(names)


@pytest.mark.spark
@EACH
def test_report_of_nothing_has_its_columns_and_no_rows(spark: SparkSession, report: Report) -> None:
    """The frames have the documented columns in the documented order, with valid types."""
    tables = made.empty(spark)
    frames = report.make(tables)
    assert list(frames) == [part.name for part in report.parts]
    for part in report.parts:
        found: DataFrame = ordered(frames[part.name], part)
        assert found.columns == [column.name for column in part.columns]
        for column, (_, type_) in zip(part.columns, found.dtypes, strict=True):
            assert type_ in TYPES[column.kind], column.name
        assert found.collect() == []


@EACH
def test_report_names_the_tables_that_it_reads(report: Report) -> None:
    class Asked(dict[str, object]):
        def __missing__(self, name: str) -> object:
            asked.add(name)
            raise KeyError(name)

    asked: set[str] = set()
    with pytest.raises(KeyError):
        report.make(Asked())  # type: ignore[arg-type]
    assert asked <= set(report.tables)
    assert set(report.tables) <= set(made.SCHEMAS)
