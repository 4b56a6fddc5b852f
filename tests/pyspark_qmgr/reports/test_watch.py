import threading

import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.watch import tasks, watched

pytestmark = pytest.mark.spark


def test_tasks_are_reported_while_they_run(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    seen = threading.Event()

    def tell(done: int, total: int) -> None:
        told.append((done, total))
        if total:
            seen.set()

    with watched(spark, tell):
        # The block lasts until a check runs during a job. The test has its own time limit.
        while not seen.is_set():
            spark.range(0, 400_000, numPartitions=4).selectExpr("sum(sqrt(id))").collect()
    assert max(total for _, total in told) in range(1, 5)
    assert all(done <= total for done, total in told)
    assert not [thread for thread in threading.enumerate() if thread.name == "spark-progress"]


def test_nothing_runs_between_jobs(spark: SparkSession) -> None:
    assert tasks(spark) == (0, 0)
