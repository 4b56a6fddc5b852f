"""The time that messages needed from one queue manager to the next."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.history import ENTER
from pyspark_qmgr.reports.measure import described, ms, percentiles
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_HOP = ("queue_manager", "queue", "peer")
COLUMNS = (
    Column("queue_manager", Kind.TEXT, "the queue manager that sent the messages"),
    Column("queue", Kind.TEXT, "the transmission queue of the link"),
    Column("peer", Kind.TEXT, "the queue manager that received the messages"),
    Column("messages", Kind.COUNT, "messages that the peer committed"),
    Column("seen", Kind.COUNT, "messages whose put is in the history of the peer"),
    *described("hop", "from the put on the link to the put at the peer, by both clocks"),
    Column(
        "hop_max_ms", Kind.MS, "from the put on the link to the put at the peer: the longest time"
    ),
    Column(
        "early",
        Kind.COUNT,
        "messages put at the peer before they were put here, because the clocks differ",
    ),
    *described(
        "link", "from the put on the link until the peer's commit was received here, by one clock"
    ),
    Column(
        "link_max_ms",
        Kind.MS,
        "from the put on the link until the peer's commit was received here: the longest time",
    ),
)


def hops(history: DataFrame) -> DataFrame:
    """Returns the percentiles of the times for each link.

    If a message passes through a link several times, only the first time counts.
    """
    event = F.col("event")
    sent = (
        history.where(F.col("queue").startswith("@"))
        .groupBy("queue_manager", "queue", "message_id")
        .agg(
            F.min(F.when(event.isin(*ENTER), F.col("at")).otherwise(F.col("put_at"))).alias(
                "put_at"
            ),
            F.min(F.when(event == "transferred", F.col("at"))).alias("taken_at"),
            F.min(F.when(event == "transferred", F.col("peer"))).alias("peer"),
        )
        .where(F.col("taken_at").isNotNull())
    )
    came = (
        history.where(event.isin(*ENTER))
        .groupBy(F.col("queue_manager").alias("peer"), "message_id")
        .agg(F.min("at").alias("came_at"))
    )
    times = (
        sent.join(came, ["peer", "message_id"], "left")
        .withColumn("hop_ms", ms("came_at", "put_at"))
        .withColumn("link_ms", ms("taken_at", "put_at"))
    )
    counted = times.groupBy(*_HOP).agg(
        F.count("*").alias("messages"),
        F.count("came_at").alias("seen"),
        *percentiles("hop_ms", "hop"),
        F.max("hop_ms").alias("hop_max_ms"),
        F.count_if(F.col("hop_ms") < 0).alias("early"),
        *percentiles("link_ms", "link"),
        F.max("link_ms").alias("link_max_ms"),
    )
    return counted.select(*(column.name for column in COLUMNS))


def _title(rows: Sequence[Row]) -> str:
    slow = rows[0]
    way = f"{cells.text(slow['queue_manager'])} to {cells.text(slow['peer'])}"
    if slow["link_p99_ms"] is None:
        return f"{way}: the time of the puts on the link is unknown"
    return (
        f"{way} is the slowest link: of {cells.of(slow['messages'], 'message')}, half were "
        f"committed within {cells.duration(slow['link_p50_ms'])}, and one in a hundred after "
        f"{cells.duration(slow['link_p99_ms'])} or more"
    )


def _make(tables: Frames) -> Frames:
    return {"": hops(tables["history"])}


HOPS = Report(
    "hops",
    "hop latency: from the put on a link to the put at the other end",
    ("history",),
    (
        Part(
            "",
            "a link",
            COLUMNS,
            ("-link_p99_ms", *_HOP),
            _title,
            Plot(
                ("queue_manager", "peer"),
                ("link_p50_ms", "link_p95_ms", "link_p99_ms"),
                "time until the commit",
                is_log=True,
            ),
        ),
    ),
    _make,
)
