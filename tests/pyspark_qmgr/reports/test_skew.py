import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.skew import COLUMNS, INCOMPLETE, SKEW, by_queue, incomplete
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark
GROUPS = [
    {"group_id": "a", "present": 6, "complete": True, "age_ms": 900, "state": "complete"},
    {"group_id": "b", "present": 1, "complete": False, "age_ms": 70, "state": "open"},
    {"group_id": "c", "present": 2, "complete": False, "age_ms": 80, "state": "gap", "missing": 3},
    {"group_id": "gone", "present": 0, "complete": False, "age_ms": 999},
]


def test_largest_group_is_held_against_the_others(spark: SparkSession) -> None:
    found = by_queue(made.frame(spark, "groups", GROUPS))
    assert made.rows(found) == [("QM", "Q", 3, 9, 3.0, 6, 2.0, 6 / 9, "a", 2, 80)]
    assert found.columns == [column.name for column in COLUMNS]


def test_groups_that_wait_for_members_are_listed(spark: SparkSession) -> None:
    found = incomplete(made.frame(spark, "groups", GROUPS))
    assert made.rows(found, "group_id", "state", "members", "missing") == [
        ("b", "open", 1, 0),
        ("c", "gap", 2, 3),
    ]
    assert found.columns == [column.name for column in INCOMPLETE]


def test_titles_tell_of_both() -> None:
    row = {"queue": "Q", "groups": 3, "skew": 2.0, "largest_share": 0.5, "incomplete": 1}
    assert SKEW.parts[0].title([row]) == (
        "the largest of 3 groups on Q has 50 % of all members; incomplete: 1 group"
    )
    row = {"group_id": "c", "queue": "Q", "age_ms": 80, "missing": 3}
    assert SKEW.parts[1].title([row]) == (
        "group c of Q has waited longest: 80 ms, with 3 missing members"
    )
