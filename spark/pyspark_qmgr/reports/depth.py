"""The depth of each queue, and the age of its oldest message."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.latest import taken
from pyspark_qmgr.reports.measure import ms
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_STATES = ("ready", "delayed", "transmission", "parked", "publication", "damaged")
COLUMNS = (
    Column("queue_manager", Kind.TEXT, "the queue manager of the snapshot"),
    Column("queue", Kind.TEXT, "a queue with at least one message"),
    Column("depth", Kind.COUNT, "messages on the queue, in any state"),
    Column("oldest_age_ms", Kind.MS, "the age of the oldest message at taken_at"),
    Column("oldest_put_at", Kind.TIME, "the time at which the oldest message was put"),
    Column("body_bytes", Kind.BYTES, "the size of all bodies"),
    *(Column(state, Kind.COUNT, f"messages in state {state}") for state in _STATES),
    Column("taken_at", Kind.TIME, "the time at which the snapshot was taken"),
    Column("snapshot_id", Kind.TEXT, "the id of the snapshot"),
)


def depth(messages: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Returns the depth of each queue in each snapshot, and the age of its oldest message."""
    counted = messages.groupBy("queue_manager", "snapshot_id", "queue").agg(
        F.count("*").alias("depth"),
        *(F.count_if(F.col("state") == state).alias(state) for state in _STATES),
        F.coalesce(F.sum("body_bytes"), F.lit(0)).alias("body_bytes"),
        F.min("put_at").alias("oldest_put_at"),
    )
    return (
        counted.join(taken(snapshots), ["queue_manager", "snapshot_id"], "left")
        .withColumn("oldest_age_ms", ms("taken_at", "oldest_put_at"))
        .select(*(column.name for column in COLUMNS))
    )


def _title(rows: Sequence[Row]) -> str:
    deepest = rows[0]
    oldest = max(rows, key=lambda row: row["oldest_age_ms"] or 0)
    return (
        f"{cells.text(deepest['queue'])} of {cells.text(deepest['queue_manager'])} is the "
        f"deepest with {cells.of(deepest['depth'], 'message')}; the oldest message has been on "
        f"{cells.text(oldest['queue'])} for {cells.duration(oldest['oldest_age_ms'] or 0)}"
    )


def _make(tables: Frames) -> Frames:
    return {"": depth(tables["messages"], tables["snapshots"])}


DEPTH = Report(
    "depth",
    "depth of each queue, and the age of its oldest message",
    ("messages", "snapshots"),
    (
        Part(
            "",
            "a queue of a snapshot",
            COLUMNS,
            ("-depth", "queue_manager", "queue"),
            _title,
            Plot(("queue_manager", "queue"), ("depth",), "messages", is_log=True),
        ),
    ),
    _make,
)
