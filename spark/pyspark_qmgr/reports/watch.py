"""The progress of Spark while it works."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

EVERY_S = 0.2


@contextmanager
def watched(spark: SparkSession, report_progress: Callable[[int, int], object]) -> Iterator[None]:
    """Reports the finished tasks of the running stages, and their total, until the block ends.

    A separate thread calls *report_progress*. The thread ends before the block returns.
    """
    over = threading.Event()

    def look() -> None:
        while not over.wait(EVERY_S):
            report_progress(*tasks(spark))

    thread = threading.Thread(target=look, name="spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def tasks(spark: SparkSession) -> tuple[int, int]:
    """Returns the number of finished tasks of the running stages, and their total."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(s.numTasks for s in known)
