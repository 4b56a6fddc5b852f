"""Publications on which subscribers failed, and pending publications."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.latest import latest, taken
from pyspark_qmgr.reports.measure import ms, ratio
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_SUBSCRIBER = ("queue_manager", "subscription")
_WHO = (
    Column("queue_manager", Kind.TEXT, "the queue manager of the subscription"),
    Column("subscription", Kind.TEXT, "the name of the subscription"),
)
COLUMNS = (
    *_WHO,
    Column("topic", Kind.TEXT, "the topic filter"),
    Column(
        "suspended",
        Kind.FLAG,
        "whether the subscription receives nothing until it is declared healthy again",
    ),
    Column(
        "backlog",
        Kind.COUNT,
        "publications available to the subscription; null if they are forwarded",
    ),
    Column(
        "parked", Kind.COUNT, "publications on which the subscriber failed, kept for republishing"
    ),
    Column("parked_share", Kind.SHARE, "the parked fraction of all pending publications"),
    Column("parked_bytes", Kind.BYTES, "the size of the parked publications' records"),
    Column(
        "republished_max",
        Kind.COUNT,
        "the highest number of times that a parked publication was republished",
    ),
    Column(
        "awaited",
        Kind.COUNT,
        "parked publications that are sent as soon as the subscriber is healthy",
    ),
    Column("oldest_at", Kind.TIME, "the time at which the first publication was parked"),
    Column("oldest_age_ms", Kind.MS, "the time from oldest_at to the snapshot"),
    Column(
        "missed", Kind.COUNT, "publications missed because the subscription was full or suspended"
    ),
)
REASONS = (
    *_WHO,
    Column("code", Kind.TEXT, "the reason code of the parking"),
    Column(
        "reason",
        Kind.TEXT,
        "the reason that the subscriber gave when it rejected the publications, in one word",
    ),
    Column("parked", Kind.COUNT, "publications parked for this reason"),
    Column("topics", Kind.COUNT, "the number of topics of these publications"),
    Column("first_at", Kind.TIME, "the time at which the first publication was parked"),
    Column("last_at", Kind.TIME, "the time at which the last publication was parked"),
)


def by_subscriber(
    subscriptions: DataFrame, republish: DataFrame, snapshots: DataFrame
) -> DataFrame:
    """Returns the pending publications of each subscriber.

    The tables must contain one snapshot per queue manager.
    """
    parked = republish.groupBy(*_SUBSCRIBER).agg(
        F.count("*").alias("parked"),
        F.sum("record_bytes").alias("parked_bytes"),
        F.max("republished").alias("republished_max"),
        F.count_if("awaited").alias("awaited"),
        F.min("since").alias("oldest_at"),
    )
    who = subscriptions.select(
        *_SUBSCRIBER, "snapshot_id", "topic", "suspended", "backlog", "missed"
    )
    found = who.join(parked, [*_SUBSCRIBER], "left").join(
        taken(snapshots), ["queue_manager", "snapshot_id"], "left"
    )
    nothing: dict[str, bool | float | int | str] = {"parked": 0, "parked_bytes": 0, "awaited": 0}
    return (
        found.fillna(nothing)
        .withColumn("oldest_age_ms", ms("taken_at", "oldest_at"))
        .withColumn("parked_share", ratio("parked", F.col("parked") + F.col("backlog")))
        .select(*(column.name for column in COLUMNS))
    )


def by_reason(republish: DataFrame) -> DataFrame:
    """Returns the parked publications of each subscriber by reason."""
    return republish.groupBy(*_SUBSCRIBER, "code", "reason").agg(
        F.count("*").alias("parked"),
        F.countDistinct("topic").alias("topics"),
        F.min("since").alias("first_at"),
        F.max("since").alias("last_at"),
    )


def _title(rows: Sequence[Row]) -> str:
    worst = rows[0]
    if not worst["parked"]:
        return f"no publication is parked for {cells.of(len(rows), 'subscriber')}"
    return (
        f"{cells.text(worst['subscription'])} has failed most often: "
        f"{cells.of(worst['parked'], 'publication')}, the oldest parked for "
        f"{cells.duration(worst['oldest_age_ms'] or 0)}"
    )


def _reason_title(rows: Sequence[Row]) -> str:
    worst = rows[0]
    reason = f", {cells.text(worst['reason'])}" if worst["reason"] else ""
    return (
        f"{cells.text(worst['code'] or 'no code')}{reason}: the reason for parking "
        f"{cells.of(worst['parked'], 'publication')} of {cells.text(worst['subscription'])}"
    )


def _make(tables: Frames) -> Frames:
    snapshots = tables["snapshots"]
    republish = latest(tables["republish"], snapshots)
    subscriptions = latest(tables["subscriptions"], snapshots)
    return {"": by_subscriber(subscriptions, republish, snapshots), "reason": by_reason(republish)}


BACKLOG = Report(
    "republish",
    "parked and pending publications, by subscriber and reason",
    ("subscriptions", "republish", "snapshots"),
    (
        Part(
            "",
            "a subscription",
            COLUMNS,
            ("-parked", "-backlog", *_SUBSCRIBER),
            _title,
            Plot(_SUBSCRIBER, ("backlog", "parked"), "publications", is_log=True),
        ),
        Part(
            "reason",
            "a subscriber, a code and a reason",
            REASONS,
            ("-parked", *_SUBSCRIBER, "code", "reason"),
            _reason_title,
            Plot(("subscription", "code", "reason"), ("parked",), "parked publications"),
        ),
    ),
    _make,
)
