"""What the search for duplicates costs each queue, and what it finds."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import shown
from pyspark_qmgr.reports.latest import latest
from pyspark_qmgr.reports.measure import ratio
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_QUEUE = ("queue_manager", "queue")
COLUMNS = (
    Column("queue_manager", Kind.TEXT, "where the queue is"),
    Column("queue", Kind.TEXT, "as of its queue manager's last snapshot; all is of its whole life"),
    Column("offered", Kind.COUNT, "messages put, and duplicates and others that were refused"),
    Column("puts", Kind.COUNT, "messages that were put"),
    Column("fast", Kind.COUNT, "those that needed no look at any message to know they are new"),
    Column("fast_share", Kind.SHARE, "of the puts"),
    Column("slow", Kind.COUNT, "those that came late, so that the index was asked"),
    Column("duplicates", Kind.COUNT, "refused, as a message of that UID was there"),
    Column("duplicate_share", Kind.SHARE, "of puts and duplicates"),
    Column("refused", Kind.COUNT, "refused for other reasons: no room, inhibited, malformed"),
)


def duplicates(queues: DataFrame) -> DataFrame:
    """Returns what each queue to which anything was put found of duplicates."""
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
    share = shown.share(fast / puts) if puts else "none"
    return (
        f"{share} of the puts were seen to be new without a look; "
        f"{shown.of(found, 'duplicate')} refused"
    )


def _make(tables: Frames) -> Frames:
    return {"": duplicates(latest(tables["queues"], tables["snapshots"]))}


DUPLICATES = Report(
    "duplicates",
    "duplicates: how many puts needed a look, how many were refused",
    ("queues", "snapshots"),
    (
        Part(
            "",
            "a queue",
            COLUMNS,
            ("-duplicates", "-slow", *_QUEUE),
            _title,
            Plot(_QUEUE, ("fast", "slow", "duplicates"), "messages, ever", is_log=True),
        ),
    ),
    _make,
)
