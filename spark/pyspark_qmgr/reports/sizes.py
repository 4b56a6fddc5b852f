"""The report on the sizes of bodies."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.latest import latest
from pyspark_qmgr.reports.measure import ACCURACY, PERCENTS
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_QUEUE = ("queue_manager", "queue")
COLUMNS = (
    Column("queue_manager", Kind.TEXT, "the queue manager of the queue"),
    Column("queue", Kind.TEXT, "a queue of the last snapshot of its queue manager"),
    Column("messages", Kind.COUNT, "messages whose body can be read"),
    Column("body_bytes", Kind.BYTES, "the size of all bodies"),
    Column("body_mean_bytes", Kind.BYTES, "the mean size of a body"),
    *(
        Column(
            f"body_p{percent}_bytes",
            Kind.BYTES,
            f"the size that {percent} % of the bodies do not exceed",
        )
        for percent in PERCENTS
    ),
    Column("body_max_bytes", Kind.BYTES, "the size of the longest body"),
)
HISTOGRAM = (
    Column("from_bytes", Kind.BYTES, "the lower bound of the range"),
    Column("below_bytes", Kind.BYTES, "the upper bound of the range, exclusive"),
    Column("messages", Kind.COUNT, "bodies in the range, on all queues"),
    Column("body_bytes", Kind.BYTES, "the total size of the bodies in the range"),
)


def by_queue(messages: DataFrame) -> DataFrame:
    """Returns the sizes of the bodies on each queue."""
    size = F.col("body_bytes")
    found = messages.where(size.isNotNull()).groupBy(*_QUEUE)
    return found.agg(
        F.count("*").alias("messages"),
        F.sum(size).alias("body_bytes"),
        F.avg(size).alias("body_mean_bytes"),
        *(
            F.percentile_approx(size, percent / 100, ACCURACY).alias(f"body_p{percent}_bytes")
            for percent in PERCENTS
        ),
        F.max(size).alias("body_max_bytes"),
    )


def histogram(messages: DataFrame) -> DataFrame:
    """Returns the number of bodies by size: 0, 1, 2 to 3, 4 to 7 bytes and so on."""
    size = F.col("body_bytes")
    # Unlike a logarithm, this expression is exact.
    digits = F.when(size > 0, F.length(F.bin(size))).otherwise(0)
    found = messages.where(size.isNotNull()).groupBy(digits.alias("_digits"))
    counted = found.agg(F.count("*").alias("messages"), F.sum(size).alias("body_bytes"))
    power = F.expr("shiftleft(1L, _digits)")
    return (
        counted.withColumn(
            "from_bytes", F.when(F.col("_digits") > 0, F.floor(power / 2)).otherwise(0)
        )
        .withColumn("below_bytes", power)
        .select(*(column.name for column in HISTOGRAM))
    )


def _title(rows: Sequence[Row]) -> str:
    most = rows[0]
    return (
        f"{cells.text(most['queue'])} of {cells.text(most['queue_manager'])} has the most bytes: "
        f"{cells.size(most['body_bytes'])} in {cells.of(most['messages'], 'message')}, half of "
        f"them no longer than {cells.size(most['body_p50_bytes'])}"
    )


def _histogram_title(rows: Sequence[Row]) -> str:
    usual = max(rows, key=lambda row: row["messages"])
    part = usual["messages"] / sum(row["messages"] for row in rows)
    return (
        f"{cells.share(part)} of the bodies have {cells.size(usual['from_bytes'])} to "
        f"{cells.size(usual['below_bytes'] - 1)}"
    )


def _make(tables: Frames) -> Frames:
    messages = latest(tables["messages"], tables["snapshots"])
    return {"": by_queue(messages), "histogram": histogram(messages)}


SIZES = Report(
    "sizes",
    "sizes of bodies by queue, and their distribution",
    ("messages", "snapshots"),
    (
        Part(
            "",
            "a queue",
            COLUMNS,
            ("-body_bytes", *_QUEUE),
            _title,
            Plot(
                _QUEUE,
                ("body_p50_bytes", "body_p95_bytes", "body_p99_bytes"),
                "size of a body",
                is_log=True,
            ),
        ),
        Part(
            "histogram",
            "a range of sizes",
            HISTOGRAM,
            ("from_bytes",),
            _histogram_title,
            Plot(("from_bytes",), ("messages",), "messages", in_order=True, labels_max=64),
        ),
    ),
    _make,
)
