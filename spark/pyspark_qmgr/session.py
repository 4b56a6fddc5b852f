"""A Spark session on this machine, for the demo, the tests and interactive use."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_qmgr.java import find_java

# Spark would set the level of all loggers to the level of the second logger, and print two lines.
LOG4J = "log4j2.properties"
_LOG4J = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n%ex{short}
"""


def local_session(
    app_name: str, cores: int = 2, *, quick: bool = False, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Returns a session on *cores* cores of this machine.

    The session is quiet, uses UTC, and cannot be reached from outside.

    Args:
        quick: Whether the session is for small work. Such a session starts sooner, but work in it
            takes two to three times as long.
        settings: Further settings of Spark, which override the settings of this function.

    Raises:
        JavaUnsuitable: Spark cannot use the installed Java. The text states the fix.
    """
    find_java()
    # By default, workers run the first `python3` in PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    scratch = _scratch()
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app_name)
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={scratch / LOG4J} -XX:+UseSerialGC"
            + (" -XX:TieredStopAtLevel=1" if quick else "")
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
        **(settings or {}),
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def cluster_session(app_name: str, master: str) -> SparkSession:
    """Returns a session on the cluster at *master*, which is quiet and uses UTC.

    All other settings are from spark-defaults.conf and the environment (SPARK_CONF_DIR,
    PYSPARK_PYTHON).

    Raises:
        JavaUnsuitable: Spark cannot use the installed Java. The text states the fix.
    """
    find_java()
    log4j = _scratch() / LOG4J
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j}",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _scratch() -> Path:
    """Returns a new temporary directory with Spark's log configuration."""
    scratch = Path(tempfile.mkdtemp(prefix="qmgr-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    (scratch / LOG4J).write_text(_LOG4J)
    return scratch
