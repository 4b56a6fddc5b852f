"""Tables for the tests of reports. A test sets some columns, and the others have default values."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

START = datetime(2024, 5, 6, 10, 0, tzinfo=UTC)
SCHEMAS = {
    "messages": (
        "queue string, state string, body_bytes long, put_at timestamp, "
        "queue_manager string, snapshot_id string"
    ),
    "deadletters": (
        "dead_code string, dead_reason string, dead_queue string, dead_manager string, "
        "dead_at timestamp, dead_failed int, dead_retries int, queue string, body_bytes long, "
        "queue_manager string, snapshot_id string"
    ),
    "history": (
        "event string, at timestamp, queue string, arrival long, priority int, message_id string, "
        "origin string, created_at timestamp, put_at timestamp, record_bytes long, delivered int, "
        "failed int, peer string, target string, code string, seq long, turn long, "
        "queue_manager string, store_id string, snapshot_id string"
    ),
    "snapshots": "at timestamp, queue_manager string, snapshot_id string, turn long",
    "queues": (
        "queue string, puts long, fast long, slow long, duplicates long, refused long, "
        "queue_manager string, snapshot_id string"
    ),
    "groups": (
        "queue string, group_id string, state string, present long, missing long, "
        "next_number long, last_number long, complete boolean, age_ms long, "
        "queue_manager string, snapshot_id string"
    ),
    "subscriptions": (
        "subscription string, topic string, suspended boolean, backlog long, missed long, "
        "queue_manager string, snapshot_id string"
    ),
    "republish": (
        "message_id string, topic string, subscription string, republished long, code string, "
        "reason string, since timestamp, awaited boolean, record_bytes long, "
        "queue_manager string, snapshot_id string"
    ),
}
USUAL: dict[str, dict[str, Any]] = {
    "messages": {"queue": "Q", "state": "ready", "queue_manager": "QM", "snapshot_id": "s"},
    "history": {"queue": "Q", "queue_manager": "QM", "store_id": "st", "snapshot_id": "s"},
    "snapshots": {"queue_manager": "QM", "snapshot_id": "s", "at": START, "turn": 1},
    "deadletters": {
        "queue": "SYSTEM.DEAD.LETTERS",
        "dead_queue": "Q",
        "dead_manager": "QM",
        "dead_failed": 0,
        "dead_retries": 0,
        "body_bytes": 1,
        "queue_manager": "QM",
        "snapshot_id": "s",
    },
    "queues": {
        "queue": "Q",
        "puts": 0,
        "fast": 0,
        "slow": 0,
        "duplicates": 0,
        "refused": 0,
        "queue_manager": "QM",
        "snapshot_id": "s",
    },
    "groups": {"queue": "Q", "missing": 0, "queue_manager": "QM", "snapshot_id": "s"},
    "subscriptions": {
        "topic": "/#",
        "suspended": False,
        "backlog": 0,
        "missed": 0,
        "queue_manager": "QM",
        "snapshot_id": "s",
    },
    "republish": {
        "topic": "/a",
        "republished": 0,
        "awaited": False,
        "record_bytes": 1,
        "queue_manager": "QM",
        "snapshot_id": "s",
    },
}


def at(seconds: float) -> datetime:
    """Returns the time *seconds* after START."""
    return START + timedelta(seconds=seconds)


def frame(spark: SparkSession, table: str, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Returns *rows* as a table. Missing columns have default values or null."""
    names = [part.split()[0] for part in SCHEMAS[table].split(", ")]
    told = [USUAL[table] | dict(row) for row in rows]
    assert all(row.keys() <= set(names) for row in told)
    return spark.createDataFrame(
        [tuple(row.get(name) for name in names) for row in told], SCHEMAS[table]
    )


def history(spark: SparkSession, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Returns numbered history rows with ids by arrival. `at` is in seconds after START."""
    told = []
    for number, row in enumerate(rows):
        arrival = row.get("arrival", 1)
        more = {"seq": number, "arrival": arrival, "message_id": f"A.{arrival}", "origin": "A"}
        told.append(more | dict(row) | {"at": at(row["at"])})
    return frame(spark, "history", told)


def empty(spark: SparkSession) -> dict[str, DataFrame]:
    """Returns all tables without rows."""
    return {table: frame(spark, table, ()) for table in SCHEMAS}


def rows(found: DataFrame, *columns: str) -> list[Any]:
    """Returns the sorted rows of *found*: values if there is one column, and tuples otherwise."""
    taken = found.select(*columns) if columns else found
    plain = [tuple(row) for row in taken.collect()]
    told = sorted(plain, key=lambda row: [(value is None, str(value)) for value in row])
    return [row[0] for row in told] if len(columns) == 1 else told
