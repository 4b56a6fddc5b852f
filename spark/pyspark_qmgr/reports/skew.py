"""Message groups: how unequal they are, and which of them are incomplete."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.latest import latest
from pyspark_qmgr.reports.measure import ratio
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_QUEUE = ("queue_manager", "queue")
_WHERE = (
    Column("queue_manager", Kind.TEXT, "the queue manager of the queue"),
    Column("queue", Kind.TEXT, "as of its queue manager's last snapshot"),
)
COLUMNS = (
    *_WHERE,
    Column("groups", Kind.COUNT, "groups with at least one member"),
    Column("members", Kind.COUNT, "members on the queue"),
    Column("members_mean", Kind.NUMBER, "the mean number of members of a group"),
    Column("members_max", Kind.COUNT, "the number of members of the largest group"),
    Column("skew", Kind.NUMBER, "members_max divided by members_mean; 1: all are equal"),
    Column("largest_share", Kind.SHARE, "the largest group's share of all members"),
    Column("largest_group_id", Kind.TEXT, "the id of the largest group"),
    Column("incomplete", Kind.COUNT, "groups with missing members, or with an unknown end"),
    Column("incomplete_age_ms", Kind.MS, "the age of the oldest of these"),
)
INCOMPLETE = (
    *_WHERE,
    Column("group_id", Kind.TEXT, "in hexadecimal"),
    Column("state", Kind.TEXT, "open (its end is not known), gap, paused or parked"),
    Column("members", Kind.COUNT, "members on the queue"),
    Column("missing", Kind.COUNT, "missing members before the highest"),
    Column("next_number", Kind.COUNT, "the number that is next"),
    Column("last_number", Kind.COUNT, "the number of the last member; null while it is unknown"),
    Column("age_ms", Kind.MS, "the time since its first member arrived, as of the snapshot"),
)


def by_queue(groups: DataFrame) -> DataFrame:
    """Returns how the groups of each queue differ in size, and how many are incomplete."""
    there = groups.where(F.col("present") > 0)
    largest = F.max_by("group_id", F.struct("present", "group_id"))
    counted = there.groupBy(*_QUEUE).agg(
        F.count("*").alias("groups"),
        F.sum("present").alias("members"),
        F.max("present").alias("members_max"),
        largest.alias("largest_group_id"),
        F.count_if(~F.col("complete")).alias("incomplete"),
        F.max(F.when(~F.col("complete"), F.col("age_ms"))).alias("incomplete_age_ms"),
    )
    return (
        counted.withColumn("members_mean", ratio("members", "groups"))
        .withColumn("skew", ratio("members_max", "members_mean"))
        .withColumn("largest_share", ratio("members_max", "members"))
        .select(*(column.name for column in COLUMNS))
    )


def incomplete(groups: DataFrame) -> DataFrame:
    """Returns the groups that are incomplete, or whose end is unknown."""
    found = groups.where((F.col("present") > 0) & ~F.col("complete"))
    named = found.withColumnRenamed("present", "members")
    return named.select(*(column.name for column in INCOMPLETE))


def _title(rows: Sequence[Row]) -> str:
    worst = max(rows, key=lambda row: row["skew"] or 0)
    waiting = sum(row["incomplete"] for row in rows)
    return (
        f"the largest of {cells.of(worst['groups'], 'group')} on {cells.text(worst['queue'])} has "
        f"{cells.share(worst['largest_share'] or 0)} of all members; "
        f"incomplete: {cells.of(waiting, 'group')}"
    )


def _incomplete_title(rows: Sequence[Row]) -> str:
    oldest = rows[0]
    return (
        f"group {cells.text(oldest['group_id'])} of {cells.text(oldest['queue'])} has waited "
        f"longest: {cells.duration(oldest['age_ms'] or 0)}, "
        f"{cells.of(oldest['missing'] or 0, 'member')} missing"
    )


def _make(tables: Frames) -> Frames:
    groups = latest(tables["groups"], tables["snapshots"])
    return {"": by_queue(groups), "incomplete": incomplete(groups)}


SKEW = Report(
    "groups",
    "message groups: skew, and incomplete groups",
    ("groups", "snapshots"),
    (
        Part(
            "",
            "a queue with groups",
            COLUMNS,
            ("-members", *_QUEUE),
            _title,
            Plot(_QUEUE, ("members_mean", "members_max"), "members of a group", is_log=True),
        ),
        Part(
            "incomplete", "a group", INCOMPLETE, ("-age_ms", *_QUEUE, "group_id"), _incomplete_title
        ),
    ),
    _make,
)
