"""Hours that differ from the same hour on other days."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells, rates
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

DAYS_MIN = 3  # minimum number of other days that determine the usual value
Z_MIN = 3.0
_QUEUE = ("queue_manager", "queue")
_SERIES = (*_QUEUE, "what", "hour_of_day")
_WHATS = ("arrived", "served", "gone", "returned")
COLUMNS = (
    Column("queue_manager", Kind.TEXT, "the queue manager of the queue"),
    Column("queue", Kind.TEXT, "a queue with history"),
    Column("what", Kind.TEXT, f"the counted messages, as in the report rates: {', '.join(_WHATS)}"),
    Column("hour", Kind.TIME, "the start of the hour, in UTC; only complete hours of the history"),
    Column("messages", Kind.COUNT, "the number of messages in that hour"),
    Column("usual", Kind.NUMBER, "the mean of the same hour on all other days"),
    Column(
        "deviation",
        Kind.NUMBER,
        "the standard deviation on these days; at least 1 and the square root of the mean, as "
        "for random arrivals",
    ),
    Column(
        "days",
        Kind.COUNT,
        f"the number of other days; hours with fewer than {DAYS_MIN} are omitted",
    ),
    Column(
        "z", Kind.NUMBER, f"the difference from usual in deviations; unusual from {Z_MIN:.0f} on"
    ),
    Column("is_unusual", Kind.FLAG, "whether the hour is unusual, high or low"),
)


def anomalies(hourly: DataFrame) -> DataFrame:
    """Returns the difference of each hour of each queue from the same hour on all other days.

    Args:
        hourly: The result of `rates.hourly`. Missing hours in between count as 0. The first and the
            last hour of a queue manager are omitted, because they may be incomplete.
    """
    counts = _counts(hourly).withColumn("hour_of_day", F.pmod(F.col("_number"), F.lit(24)))
    # The mean and the deviation are derived from integer sums, which are exact in any order.
    others = F.col("_sum") - F.col("messages")
    usual = others / F.col("days")
    squares = F.col("_squares") - F.col("messages") * F.col("messages")
    variance = (squares - others * usual) / (F.col("days") - 1)
    sums = counts.groupBy(*_SERIES).agg(
        (F.count("*") - 1).alias("days"),
        F.sum("messages").alias("_sum"),
        F.sum(F.col("messages") * F.col("messages")).alias("_squares"),
    )
    return (
        counts.join(sums.where(F.col("days") >= DAYS_MIN), [*_SERIES])
        .withColumn("usual", usual)
        .withColumn("deviation", F.sqrt(F.greatest(variance, usual, F.lit(1.0))))
        .withColumn("z", (F.col("messages") - F.col("usual")) / F.col("deviation"))
        .withColumn("is_unusual", F.abs("z") >= Z_MIN)
        .withColumn("hour", F.timestamp_seconds(F.col("_number") * 3_600))
        .select(*(column.name for column in COLUMNS))
    )


def _counts(hourly: DataFrame) -> DataFrame:
    """Returns the columns queue_manager, queue, what, _number (of the hour), and messages.

    Hours without messages are included.
    """
    numbered = hourly.withColumn("_number", F.floor(F.unix_seconds("hour") / 3_600).cast("bigint"))
    bounds = numbered.groupBy("queue_manager").agg(
        (F.min("_number") + 1).alias("_first"), (F.max("_number") - 1).alias("_last")
    )
    hours = bounds.where(F.col("_first") <= F.col("_last")).select(
        "queue_manager", F.explode(F.sequence("_first", "_last")).alias("_number")
    )
    queues = numbered.select(*_QUEUE).distinct()
    whats = F.array(
        *(
            F.struct(F.lit(what).alias("what"), F.coalesce(what, F.lit(0)).alias("messages"))
            for what in _WHATS
        )
    )
    return (
        queues.join(hours, ["queue_manager"])
        .join(numbered, [*_QUEUE, "_number"], "left")
        .select(*_QUEUE, "_number", F.explode(whats).alias("_counted"))
        .select(*_QUEUE, "_number", "_counted.what", "_counted.messages")
    )


def _title(rows: Sequence[Row]) -> str:
    odd = rows[0]
    if not odd["is_unusual"]:
        return f"no hour is {Z_MIN:.0f} deviations or more from the usual value"
    return (
        f"{cells.text(odd['queue'])}: {cells.count(odd['messages'])} {odd['what']} in the hour of "
        f"{cells.time(odd['hour'])[:16]}; usual: {cells.count(odd['usual'])}"
    )


def _make(tables: Frames) -> Frames:
    return {"": anomalies(rates.hourly(tables["history"]))}


ANOMALIES = Report(
    "anomalies",
    "hours that differ from the same hour on other days (z-score)",
    ("history",),
    (
        Part(
            "",
            "a queue, a count and an hour",
            COLUMNS,
            ("-abs(z)", "hour", *_QUEUE, "what"),
            _title,
            Plot(
                (*_QUEUE, "what"), ("z",), "deviations from the usual value", x="hour", labels_max=4
            ),
        ),
    ),
    _make,
)
