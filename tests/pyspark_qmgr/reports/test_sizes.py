import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.sizes import COLUMNS, HISTOGRAM, SIZES, by_queue, histogram
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def test_sizes_of_each_queue(spark: SparkSession) -> None:
    sizes = [{"body_bytes": size} for size in (*range(1, 100), 1_000)]
    messages = made.frame(
        spark, "messages", [*sizes, {"body_bytes": None}, {"queue": "E", "body_bytes": 0}]
    )
    found = by_queue(messages)
    assert made.rows(found) == [
        ("QM", "E", 1, 0, 0.0, 0, 0, 0, 0),
        ("QM", "Q", 100, 5_950, 59.5, 50, 95, 99, 1_000),
    ]
    assert found.columns == [column.name for column in COLUMNS]


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.one_of(
            st.integers(0, 20), st.integers(0, 2**40), st.integers(0, 40).map(lambda n: 2**n)
        ),
        max_size=50,
    )
)
def test_each_body_is_in_the_one_range_that_holds_it(spark: SparkSession, sizes: list[int]) -> None:
    messages = made.frame(spark, "messages", [{"body_bytes": size} for size in sizes])
    found = histogram(messages)
    assert found.columns == [column.name for column in HISTOGRAM]
    rows = found.collect()
    for row in rows:
        inside = [size for size in sizes if row.from_bytes <= size < row.below_bytes]
        assert (row.messages, row.body_bytes) == (len(inside), sum(inside))
    assert sum(row.messages for row in rows) == len(sizes)


def test_title_names_the_usual_size() -> None:
    rows = [
        {"from_bytes": 2, "below_bytes": 4, "messages": 3},
        {"from_bytes": 0, "below_bytes": 1, "messages": 1},
    ]
    assert SIZES.parts[1].title(rows) == "75 % of the bodies have 2 B to 3 B"
