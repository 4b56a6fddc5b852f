import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.duplicates import COLUMNS, DUPLICATES, duplicates
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def test_shares_are_of_what_was_put_and_of_what_was_offered(spark: SparkSession) -> None:
    found = duplicates(
        made.frame(
            spark,
            "queues",
            [
                {"puts": 90, "fast": 81, "slow": 9, "duplicates": 10, "refused": 5},
                {"queue": "ONLY", "duplicates": 3},
                {"queue": "IDLE"},
            ],
        )
    )
    assert made.rows(found) == [
        ("QM", "ONLY", 3, 0, 0, None, 0, 3, 1.0, 0),
        ("QM", "Q", 105, 90, 81, 0.9, 9, 10, 0.1, 5),
    ]
    assert found.columns == [column.name for column in COLUMNS]


def test_title_tells_the_share_of_the_fast_path() -> None:
    title = DUPLICATES.parts[0].title
    assert title([{"puts": 4, "fast": 3, "duplicates": 1}]) == (
        "75 % of the puts were recognized as new without a lookup; 1 duplicate refused"
    )
    assert title([{"puts": 0, "fast": 0, "duplicates": 2}]).endswith("2 duplicates refused")
