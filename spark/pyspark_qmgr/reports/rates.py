"""The arrival and service rates of each queue, and derived values."""

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.history import ENTER, GONE, SERVED
from pyspark_qmgr.reports.latest import depths
from pyspark_qmgr.reports.measure import hour, minute_number, ms, ratio
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_QUEUE = ("queue_manager", "queue")
_COUNTS = (
    Column("arrived", Kind.COUNT, "messages put or published on the queue"),
    Column("served", Kind.COUNT, "messages settled, or committed by the peer of a link"),
    Column("gone", Kind.COUNT, "messages that expired, became dead letters or were removed"),
    Column("returned", Kind.COUNT, "deliveries that were returned"),
)
COLUMNS = (
    Column("queue_manager", Kind.TEXT, "the queue manager of the queue"),
    Column("queue", Kind.TEXT, "a queue with history"),
    Column(
        "utilisation",
        Kind.SHARE,
        "arrived_per_s divided by served_peak_per_s; from 1 on, the backlog grows",
    ),
    Column(
        "drain_ms",
        Kind.MS,
        "the time until the queue is empty at served_peak_per_s with continuing arrivals; null if "
        "never",
    ),
    Column("depth", Kind.COUNT, "messages on the queue in the last snapshot of its queue manager"),
    Column(
        "arrived_per_s", Kind.RATE, "the rate from from_at to until_at; null if both are the same"
    ),
    Column("served_per_s", Kind.RATE, "the rate of served messages in the same time"),
    Column("served_peak_per_s", Kind.RATE, "the rate of the minute with the most served messages"),
    *_COUNTS,
    Column("from_at", Kind.TIME, "the first event of the queue"),
    Column("until_at", Kind.TIME, "the last event of the queue manager"),
)
HOURLY = (
    Column("queue_manager", Kind.TEXT, "the queue manager of the queue"),
    Column("queue", Kind.TEXT, "a queue with history"),
    Column("hour", Kind.TIME, "the start of the hour, in UTC; hours without an event are omitted"),
    *_COUNTS,
)


def _counts() -> list[Expression]:
    event = F.col("event")
    return [
        F.count_if(event.isin(*ENTER)).alias("arrived"),
        F.count_if(event.isin(*SERVED)).alias("served"),
        F.count_if(event.isin(*GONE)).alias("gone"),
        F.count_if(event == "returned").alias("returned"),
    ]


def hourly(history: DataFrame) -> DataFrame:
    """Returns the arrivals and departures of each queue by hour."""
    return (
        history.withColumn("hour", hour("at"))
        .groupBy(*_QUEUE, "hour")
        .agg(*_counts())
        .select(*(column.name for column in HOURLY))
    )


def rates(history: DataFrame, depths: DataFrame) -> DataFrame:
    """Returns the rates of each queue.

    Args:
        history: The table history.
        depths: The columns queue_manager, queue and depth at the end of the history. A queue that
            is missing here is empty.
    """
    minutes = history.withColumn("_minute", minute_number("at")).groupBy(*_QUEUE, "_minute")
    counted = minutes.agg(*_counts(), F.min("at").alias("from_at"), F.max("at").alias("_until_at"))
    names = [column.name for column in _COUNTS]
    queues = counted.groupBy(*_QUEUE).agg(
        *(F.sum(name).alias(name) for name in names),
        (F.max("served") / 60).alias("served_peak_per_s"),
        F.min("from_at").alias("from_at"),
        F.max("_until_at").alias("_until_at"),
    )
    until = queues.groupBy("queue_manager").agg(F.max("_until_at").alias("until_at"))
    seconds = ms("until_at", "from_at") / 1000
    spare = F.col("served_peak_per_s") - F.col("arrived_per_s")
    return (
        queues.join(F.broadcast(until), ["queue_manager"])
        .join(depths.select(*_QUEUE, "depth"), [*_QUEUE], "left")
        .withColumn("depth", F.coalesce("depth", F.lit(0)))
        .withColumn("arrived_per_s", ratio("arrived", seconds))
        .withColumn("served_per_s", ratio("served", seconds))
        .withColumn("utilisation", ratio("arrived_per_s", "served_peak_per_s"))
        .withColumn(
            "drain_ms",
            F.when(F.col("depth") == 0, F.lit(0.0)).when(spare > 0, F.col("depth") * 1000 / spare),
        )
        .select(*(column.name for column in COLUMNS))
    )


def _title(rows: Sequence[Row]) -> str:
    busy = rows[0]
    if busy["utilisation"] is None:
        return f"no message was served on {cells.text(busy['queue'])}"
    never = sum(row["drain_ms"] is None for row in rows)
    end = f"; at this rate, {cells.of(never, 'queue')} would never become empty" if never else ""
    return (
        f"{cells.text(busy['queue'])} of {cells.text(busy['queue_manager'])} has the "
        f"highest utilisation: {cells.share(busy['utilisation'])} of its best minute{end}"
    )


def _hourly_title(rows: Sequence[Row]) -> str:
    most = max(rows, key=lambda row: row["arrived"])
    return (
        f"in the hour of {cells.time(most['hour'])[:16]}, "
        f"{cells.of(most['arrived'], 'message')} arrived on {cells.text(most['queue'])}"
    )


def _make(tables: Frames) -> Frames:
    history = tables["history"]
    found = depths(tables["messages"], tables["snapshots"])
    return {"": rates(history, found), "hourly": hourly(history)}


RATES = Report(
    "rates",
    "arrivals and service: rates, utilisation, time to drain, by hour",
    ("history", "messages", "snapshots"),
    (
        Part(
            "",
            "a queue",
            COLUMNS,
            ("-utilisation", *_QUEUE),
            _title,
            Plot(
                _QUEUE,
                ("arrived_per_s", "served_per_s", "served_peak_per_s"),
                "messages per second",
                is_log=True,
            ),
        ),
        Part(
            "hourly",
            "a queue and an hour",
            HOURLY,
            ("-arrived", "hour", *_QUEUE),
            _hourly_title,
            Plot(_QUEUE, ("arrived",), "messages per hour", x="hour", labels_max=6),
        ),
    ),
    _make,
)
