"""Message groups: the inequality of their sizes, and incomplete groups."""

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
    Column("queue", Kind.TEXT, "a queue of the last snapshot of its queue manager"),
)
COLUMNS = (
    *_WHERE,
    Column("groups", Kind.COUNT, "groups with at least one member"),
    Column("members", Kind.COUNT, "members on the queue"),
    Column("members_mean", Kind.NUMBER, "the mean number of members of a group"),
    Column("members_max", Kind.COUNT, "the number of members of the largest group"),
    Column(
        "skew",
        Kind.NUMBER,
        "members_max divided by members_mean; 1 means that all groups have equal sizes",
    ),
    Column("largest_share", Kind.SHARE, "the fraction of all members in the largest group"),
    Column("largest_group_id", Kind.TEXT, "the id of the largest group"),
    Column("incomplete", Kind.COUNT, "groups with missing members or an unknown end"),
    Column("incomplete_age_ms", Kind.MS, "the age of the oldest incomplete group"),
)
INCOMPLETE = (
    *_WHERE,
    Column("group_id", Kind.TEXT, "the id of the group, in hexadecimal"),
    Column("state", Kind.TEXT, "open (the end is unknown), gap, paused or parked"),
    Column("members", Kind.COUNT, "members on the queue"),
    Column("missing", Kind.COUNT, "the number of missing members before the highest one"),
    Column("next_number", Kind.COUNT, "the next number of the group"),
    Column("last_number", Kind.COUNT, "the number of the last member; null while it is unknown"),
    Column("age_ms", Kind.MS, "the time from the arrival of the first member to the snapshot"),
)


def by_queue(groups: DataFrame) -> DataFrame:
    """Returns the inequality of each queue's group sizes, and the number of incomplete groups."""
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
    """Returns the groups that have missing members or an unknown end."""
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
        f"longest: {cells.duration(oldest['age_ms'] or 0)}, with "
        f"{cells.of(oldest['missing'] or 0, 'missing member')}"
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
