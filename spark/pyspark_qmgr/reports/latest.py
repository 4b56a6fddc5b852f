"""The last snapshot of each queue manager, for queue managers with several snapshots."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_SNAPSHOT = ("queue_manager", "snapshot_id")


def taken(snapshots: DataFrame) -> DataFrame:
    """Returns queue_manager, snapshot_id and taken_at of table snapshots."""
    return F.broadcast(snapshots.select(*_SNAPSHOT, F.col("at").alias("taken_at")))


def latest(table: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Returns the rows of *table* from the last snapshot of each queue manager.

    Args:
        table: A table with the columns queue_manager and snapshot_id.
        snapshots: The table snapshots.
    """
    last = snapshots.groupBy("queue_manager").agg(
        F.max_by("snapshot_id", F.struct("at", "snapshot_id")).alias("snapshot_id")
    )
    return table.join(F.broadcast(last), list(_SNAPSHOT), "left_semi")


def depths(messages: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Returns queue_manager, queue and depth of each non-empty queue, as of the last snapshot."""
    found = latest(messages, snapshots).groupBy("queue_manager", "queue")
    return found.agg(F.count("*").alias("depth"))
