import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.hops import COLUMNS, HOPS, hops
from tests.pyspark_qmgr.reports import made

pytestmark = pytest.mark.spark


def sent(
    number: int, put: float, taken: float, here: str = "NYC", to: str = "LON"
) -> list[dict[str, object]]:
    of = {"queue_manager": here, "queue": f"@{to}", "message_id": f"A.{number}"}
    return [
        of | {"event": "put", "at": put},
        of | {"event": "transferred", "at": taken, "peer": to},
    ]


def came(number: int, at: float, there: str = "LON", queue: str = "IN") -> dict[str, object]:
    return {
        "queue_manager": there,
        "queue": queue,
        "message_id": f"A.{number}",
        "event": "put",
        "at": at,
    }


def test_hop_is_from_the_put_here_to_the_put_there(spark: SparkSession) -> None:
    events = [
        *sent(1, 0, 0.05),
        came(1, 0.02),
        *sent(2, 1, 1.07),
        came(2, 1.04, queue="@PAR"),
        *sent(2, 1.04, 1.1, "LON", "PAR"),
        *sent(3, 2, 2.09),
        {"queue_manager": "NYC", "queue": "@LON", "message_id": "A.4", "event": "put", "at": 3},
    ]
    found = hops(made.history(spark, events))
    columns = (
        "queue_manager",
        "peer",
        "messages",
        "seen",
        "hop_p50_ms",
        "hop_max_ms",
        "link_p50_ms",
        "link_max_ms",
        "early",
    )
    assert made.rows(found, *columns) == [
        ("LON", "PAR", 1, 0, None, None, 60.0, 60.0, 0),
        ("NYC", "LON", 3, 2, 20.0, 40.0, 70.0, 90.0, 0),
    ]
    assert found.columns == [column.name for column in COLUMNS]


def test_clock_that_is_behind_is_reported(spark: SparkSession) -> None:
    found = hops(made.history(spark, [*sent(1, 0, 0.05), came(1, -0.5)]))
    assert made.rows(found, "hop_p50_ms", "early", "link_p50_ms") == [(-500.0, 1, 50.0)]


def test_same_message_from_two_sides_is_held_apart(spark: SparkSession) -> None:
    events = [*sent(1, 0, 1, "NYC"), came(1, 0.5), *sent(1, 10, 12, "PAR")]
    found = hops(made.history(spark, events))
    assert made.rows(found, "queue_manager", "link_p50_ms") == [("NYC", 1000.0), ("PAR", 2000.0)]


def test_title_names_the_slowest_way() -> None:
    row = {
        "queue_manager": "NYC",
        "peer": "LON",
        "messages": 1,
        "link_p50_ms": 5.0,
        "link_p99_ms": 70.0,
    }
    assert HOPS.parts[0].title([row]) == (
        "NYC to LON is the slowest link: of 1 message, half were committed within 5 ms, "
        "and one in a hundred after 70 ms or more"
    )
