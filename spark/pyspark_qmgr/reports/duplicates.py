"""Duplicate detection: its cost for each queue, and the duplicates found."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.latest import latest
from pyspark_qmgr.reports.measure import ratio
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_QUEUE = ("queue_manager", "queue")
COLUMNS = (
    Column("queue_manager", Kind.TEXT, "the queue manager of the queue"),
    Column(
        "queue",
        Kind.TEXT,
        "a queue of the last snapshot; counts start with the creation of the queue",
    ),
    Column("offered", Kind.COUNT, "messages put, plus refused duplicates and other refused puts"),
    Column("puts", Kind.COUNT, "messages put"),
    Column("fast", Kind.COUNT, "puts recognized as new without a lookup"),
    Column("fast_share", Kind.SHARE, "fast as a fraction of puts"),
    Column("slow", Kind.COUNT, "late puts, which needed a lookup in the index"),
    Column(
        "duplicates",
        Kind.COUNT,
        "puts that were refused because a message with the same UID existed",
    ),
    Column("duplicate_share", Kind.SHARE, "duplicates as a fraction of puts and duplicates"),
    Column("refused", Kind.COUNT, "puts refused for other reasons: no space, inhibited, malformed"),
)


def duplicates(queues: DataFrame) -> DataFrame:
    """Returns the duplicate counts of each queue with puts."""
    known = F.col("puts") + F.col("duplicates")
    return (
        queues.where(known + F.col("refused") > 0)
        .withColumn("offered", known + F.col("refused"))
        .withColumn("fast_share", ratio("fast", "puts"))
        .withColumn("duplicate_share", ratio("duplicates", known))
        .select(*(column.name for column in COLUMNS))
    )


def _title(rows: Sequence[Row]) -> str:
    puts, fast = sum(row["puts"] for row in rows), sum(row["fast"] for row in rows)
    found = sum(row["duplicates"] for row in rows)
    share = cells.share(fast / puts) if puts else "none"
    return (
        f"{share} of the puts were recognized as new without a lookup; "
        f"{cells.of(found, 'duplicate')} refused"
    )


def _make(tables: Frames) -> Frames:
    return {"": duplicates(latest(tables["queues"], tables["snapshots"]))}


DUPLICATES = Report(
    "duplicates",
    "duplicates: puts that needed a lookup, and refused puts",
    ("queues", "snapshots"),
    (
        Part(
            "",
            "a queue",
            COLUMNS,
            ("-duplicates", "-slow", *_QUEUE),
            _title,
            Plot(
                _QUEUE,
                ("fast", "slow", "duplicates"),
                "messages since the queue was created",
                is_log=True,
            ),
        ),
    ),
    _make,
)
