"""A streaming query as a separate program that can be killed: history to Parquet files.

    python -m tests.pyspark_qmgr.stream_query --master local[2] --url HOST:PORT --dir DIR [--drain]

With --drain, the query reads the data available now. The query then reads the files through Spark,
which honours the log of the file sink, and writes all rows to DIR/dump.parquet.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from pyspark_qmgr.session import _LOG4J
from tests.pyspark_qmgr.stream_broken import BROKEN, register
from tests.pyspark_qmgr.stream_load import STREAM

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss2m"
DUMP = "dump.parquet"


def session(master: str, scratch: Path) -> SparkSession:
    """Returns a session on *master* that starts as quickly as possible."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J)
    builder = SparkSession.builder.master(master).appName("stream_kill")
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.driver.extraJavaOptions": f"{QUICK} -Dlog4j2.configurationFile={log4j}",
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.task.maxFailures": "10",  # The campaign kills executors faster than they start.
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> int:
    """Runs the query until it is killed or has read all data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--url", required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--drain", action="store_true")
    parser.add_argument("--broken", choices=sorted(BROKEN), default=None)
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=options.dir))
    spark = session(options.master, scratch)
    name = register(spark, options.broken) if options.broken else "qmgr"
    history = (
        spark.readStream.format(name)
        .option("url", options.url)
        .option("cursor", STREAM)
        .option("maxRowsPerTrigger", "20000")
        .option("rowsPerPartition", "10000")
        .option("waitMs", "300000")
        .load()
    )
    writer = (
        history.writeStream.format("parquet")
        .option("path", str(options.dir / "out"))
        .option("checkpointLocation", str(options.dir / "checkpoint"))
    )
    query = (writer.trigger(availableNow=True) if options.drain else writer).start()
    query.awaitTermination()
    if options.drain:
        found = spark.read.parquet(str(options.dir / "out")).drop("snapshot_id")
        pq.write_table(found.toArrow(), options.dir / DUMP)
    spark.stop()
    shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
