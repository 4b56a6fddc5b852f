"""Dead letters: their queues, reasons, ages, and new kinds."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.latest import latest
from pyspark_qmgr.reports.measure import hour
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

NEW_H = 24
_SPOT = ("dead_manager", "dead_queue", "dead_code", "dead_reason")
COLUMNS = (
    Column("dead_manager", Kind.TEXT, "the queue manager where the message became a dead letter"),
    Column("dead_queue", Kind.TEXT, "the queue where the message became a dead letter"),
    Column("dead_code", Kind.TEXT, "the reason code of the dead letter"),
    Column(
        "dead_reason",
        Kind.TEXT,
        "the reason that the consumer gave when it rejected the message, in one word",
    ),
    Column("messages", Kind.COUNT, "dead letters that still exist"),
    Column("body_bytes", Kind.BYTES, "the size of the bodies"),
    Column("lies_on", Kind.COUNT, "the number of queues that hold these dead letters"),
    Column("retried", Kind.COUNT, "dead letters that were retried at least once"),
    Column("failed_max", Kind.COUNT, "the highest number of failures of one message"),
    Column("first_at", Kind.TIME, "the time of the first dead letter"),
    Column("last_at", Kind.TIME, "the time of the last dead letter"),
    Column(
        "is_new", Kind.FLAG, f"whether first_at is within the {NEW_H} h before the last snapshot"
    ),
)
HOURLY = (
    Column("hour", Kind.TIME, "the start of the hour, in UTC"),
    *COLUMNS[:3],
    Column("messages", Kind.COUNT, "dead letters of that hour that still exist"),
)


def spots(deadletters: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Returns the number of dead letters by queue, code and reason."""
    end = snapshots.agg(F.max("at").alias("_end"))
    counted = deadletters.groupBy(*_SPOT).agg(
        F.count("*").alias("messages"),
        F.coalesce(F.sum("body_bytes"), F.lit(0)).alias("body_bytes"),
        F.countDistinct("queue_manager", "queue").alias("lies_on"),
        F.count_if(F.col("dead_retries") > 0).alias("retried"),
        F.max("dead_failed").alias("failed_max"),
        F.min("dead_at").alias("first_at"),
        F.max("dead_at").alias("last_at"),
    )
    since = F.col("_end") - F.expr(f"interval {NEW_H} hours")
    found = counted.join(F.broadcast(end)).withColumn("is_new", F.col("first_at") > since)
    return found.select(*(column.name for column in COLUMNS))


def hourly(deadletters: DataFrame) -> DataFrame:
    """Returns the number of dead letters by hour, queue and code."""
    timed = deadletters.where(F.col("dead_at").isNotNull()).withColumn("hour", hour("dead_at"))
    return timed.groupBy("hour", *_SPOT[:3]).agg(F.count("*").alias("messages"))


def _title(rows: Sequence[Row]) -> str:
    worst = rows[0]
    new = sum(bool(row["is_new"]) for row in rows)
    end = f"; {cells.of(new, 'kind')} of failure first seen within {NEW_H} h" if new else ""
    return (
        f"{cells.of(worst['messages'], 'dead letter')} of {cells.text(worst['dead_queue'])} with "
        f"{cells.text(worst['dead_code'])}{end}"
    )


def _hourly_title(rows: Sequence[Row]) -> str:
    worst = max(rows, key=lambda row: row["messages"])
    return (
        f"the worst hour was {cells.time(worst['hour'])[:16]}: "
        f"{cells.of(worst['messages'], 'dead letter')} of {cells.text(worst['dead_queue'])}"
    )


def _make(tables: Frames) -> Frames:
    snapshots = tables["snapshots"]
    found = latest(tables["deadletters"], snapshots)
    return {"": spots(found, snapshots), "hourly": hourly(found)}


DEAD = Report(
    "deadletters",
    "dead letters by queue, code and reason: number, age, new kinds",
    ("deadletters", "snapshots"),
    (
        Part(
            "",
            "a queue, a code and a reason",
            COLUMNS,
            ("-messages", *_SPOT),
            _title,
            Plot(_SPOT[1:], ("messages",), "dead letters"),
        ),
        Part(
            "hourly",
            "an hour, a queue and a code",
            HOURLY,
            ("-messages", "hour", *_SPOT[:3]),
            _hourly_title,
            Plot(_SPOT[:3], ("messages",), "dead letters per hour", x="hour", labels_max=6),
        ),
    ),
    _make,
)
