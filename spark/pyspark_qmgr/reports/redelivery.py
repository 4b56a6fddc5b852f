"""Queues that deliver messages repeatedly, and the reasons for returns."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.measure import ratio
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_QUEUE = ("queue_manager", "queue")
_STAY = ("queue_manager", "store_id", "queue", "arrival", "message_id")
# Number of returns of the last bar of the histogram, which includes all higher numbers.
RETURNS_MAX = 16
_WHERE = (
    Column("queue_manager", Kind.TEXT, "the queue manager of the queue"),
    Column("queue", Kind.TEXT, "the queue that delivered the messages"),
)
COLUMNS = (
    *_WHERE,
    Column("deliveries", Kind.COUNT, "deliveries to consumers"),
    Column("returned", Kind.COUNT, "deliveries that were returned"),
    Column(
        "returned_share",
        Kind.SHARE,
        "returned as a fraction of deliveries; null if no delivery is known",
    ),
    Column("messages", Kind.COUNT, "messages that were delivered or returned"),
    Column("messages_returned", Kind.COUNT, "messages that were returned at least once"),
    Column("returns_max", Kind.COUNT, "the highest number of returns of one message"),
)
CODES = (
    *_WHERE,
    Column("code", Kind.TEXT, "the reason code of the returns; null if there is none"),
    Column("peer", Kind.TEXT, "the client that received the messages"),
    Column("returned", Kind.COUNT, "deliveries returned for this reason"),
    Column("messages", Kind.COUNT, "the number of messages returned for this reason"),
    Column("first_at", Kind.TIME, "the time of the first such return"),
    Column("last_at", Kind.TIME, "the time of the last such return"),
)
HISTOGRAM = (
    *_WHERE,
    Column(
        "returns",
        Kind.COUNT,
        f"the number of returns of a message; {RETURNS_MAX} includes higher numbers",
    ),
    Column("messages", Kind.COUNT, "messages with this number of returns"),
)


def by_message(history: DataFrame) -> DataFrame:
    """Returns the deliveries and returns of each message that was delivered or returned."""
    event = F.col("event")
    found = history.where(event.isin("delivered", "returned")).groupBy(*_STAY)
    return found.agg(
        F.count_if(event == "delivered").alias("deliveries"),
        F.count_if(event == "returned").alias("returns"),
    )


def by_queue(messages: DataFrame) -> DataFrame:
    """Returns the returns of each queue. *messages* is the result of `by_message`."""
    counted = messages.groupBy(*_QUEUE).agg(
        F.sum("deliveries").alias("deliveries"),
        F.sum("returns").alias("returned"),
        F.count("*").alias("messages"),
        F.count_if(F.col("returns") > 0).alias("messages_returned"),
        F.max("returns").alias("returns_max"),
    )
    shares = counted.withColumn("returned_share", ratio("returned", "deliveries"))
    return shares.select(*(column.name for column in COLUMNS))


def by_code(history: DataFrame) -> DataFrame:
    """Returns the returns by reason and client."""
    found = history.where(F.col("event") == "returned").groupBy(*_QUEUE, "code", "peer")
    return found.agg(
        F.count("*").alias("returned"),
        F.countDistinct("store_id", "arrival").alias("messages"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
    ).select(*(column.name for column in CODES))


def histogram(messages: DataFrame) -> DataFrame:
    """Returns the number of messages by number of returns.

    *messages* is the result of `by_message`.
    """
    often = messages.withColumn("returns", F.least("returns", F.lit(RETURNS_MAX)))
    return often.groupBy(*_QUEUE, "returns").agg(F.count("*").alias("messages"))


def _title(rows: Sequence[Row]) -> str:
    worst = rows[0]
    if not worst["returned"]:
        return "no delivery was returned"
    share = worst["returned_share"]
    part = "" if share is None else f", {cells.share(share)} of its deliveries"
    return (
        f"{cells.of(worst['returned'], 'delivery')} returned to {cells.text(worst['queue'])} of "
        f"{cells.text(worst['queue_manager'])}{part}; "
        f"one message was returned {cells.of(worst['returns_max'], 'time')}"
    )


def _code_title(rows: Sequence[Row]) -> str:
    worst = rows[0]
    return (
        f"most returns: {cells.text(worst['queue'])} for "
        f"{cells.text(worst['code'] or 'no stated reason')}, "
        f"{cells.of(worst['returned'], 'delivery')} of {cells.of(worst['messages'], 'message')}"
    )


def _histogram_title(rows: Sequence[Row]) -> str:
    once = sum(row["messages"] for row in rows if row["returns"] == 0)
    return (
        f"{cells.share(once / sum(row['messages'] for row in rows))} of the messages of "
        f"these queues were never returned"
    )


def _make(tables: Frames) -> Frames:
    history = tables["history"]
    messages = by_message(history)
    return {"": by_queue(messages), "code": by_code(history), "histogram": histogram(messages)}


REDELIVERY = Report(
    "redelivery",
    "returns after a delivery: by queue, by code and client, and by number",
    ("history",),
    (
        Part(
            "",
            "a queue",
            COLUMNS,
            ("-returned", *_QUEUE),
            _title,
            Plot(_QUEUE, ("deliveries", "returned"), "deliveries", is_log=True),
        ),
        Part(
            "code",
            "a reason and a client",
            CODES,
            ("-returned", *_QUEUE, "code", "peer"),
            _code_title,
            Plot(("queue", "code"), ("returned",), "returned deliveries"),
        ),
        Part(
            "histogram",
            "a queue and a number of returns",
            HISTOGRAM,
            (*_QUEUE, "returns"),
            _histogram_title,
        ),
    ),
    _make,
)
