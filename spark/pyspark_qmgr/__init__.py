"""Queues as tables: the Spark data source of qmgrd.

    messages = spark.read.format("qmgr").option("path", "/var/snapshots/monday").load()

Spark finds DefaultSource by the name of this package, without registration.
"""

from pyspark_qmgr.source import DefaultSource

__all__ = ["DefaultSource"]
