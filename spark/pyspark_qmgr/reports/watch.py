"""Reports Spark's progress while it works."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

EVERY_S = 0.2


@contextmanager
def watched(spark: SparkSession, tell: Callable[[int, int], object]) -> Iterator[None]:
    """Reports, until the block ends, the finished tasks of the running stages, and their total.

    *tell* is called from a separate thread, which has ended when the block has.
    """
    over = threading.Event()

    def look() -> None:
        while not over.wait(EVERY_S):
            tell(*tasks(spark))

    thread = threading.Thread(target=look, name="spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def tasks(spark: SparkSession) -> tuple[int, int]:
    """Returns the finished tasks of the running stages, and their total."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(s.numTasks for s in known)
