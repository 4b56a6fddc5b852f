"""Tests of a small round trip, and of finding differences. `make roundtrip` uses all flights."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from qmgr_tables.tables.messages import MESSAGES
from tests.pyspark_qmgr.roundtrip import Way, csv_rows, differences, from_file, round_trip, value_of


@pytest.mark.process
@pytest.mark.spark
def test_flights_come_out_of_every_way_as_they_went_in(spark: SparkSession, tmp_path: Path) -> None:
    told: list[str] = []
    assert round_trip(spark, tmp_path, 3_000, 500, told.append) == []
    assert len([line for line in told if "3,000 rows, 500 of them in all 34 columns" in line]) == 4


def test_a_difference_is_named() -> None:
    row = dict.fromkeys(MESSAGES.schema.names)
    row |= {"arrival": 1, "queue": "Q", "headers": [("row", "0")]}
    one = Way(
        "one", 1, {("AA", "JFK"): (1, 1, 5, 9)}, pa.Table.from_pylist([row], MESSAGES.schema), 0
    )
    assert differences(one, one._replace(name="other")) == []
    another = pa.Table.from_pylist([row | {"queue": "R"}], MESSAGES.schema)
    assert differences(one._replace(rows=2, sums={}, sample=another), one) == [
        "one and one: 2 rows, not 1",
        "one and one: other aggregates",
        "one and one: column queue",
    ]


def test_a_difference_from_the_file_is_named() -> None:
    rows = csv_rows(1)
    body = str({}).encode()
    message = {
        "headers": [("row", "0"), ("carrier", "XX"), ("destination", "IAH")],
        "body": body,
        "correlation_id": "N0",
        "priority": 4,
    }
    assert from_file(pa.Table.from_pylist([message], MESSAGES.schema), rows) == [
        "body of row 0",
        "headers of row 0",
        "correlation id of row 0",
        "priority of row 0",
    ]


def test_cells_are_numbers_or_text_or_nothing() -> None:
    assert [value_of(text) for text in ("", "NA", "517.0", "-3", "N14228")] == [
        None,
        None,
        517,
        -3,
        "N14228",
    ]
