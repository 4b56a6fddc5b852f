"""Queues as tables: the Spark data source of qmgrd.

    messages = spark.read.format("qmgr").option("path", "/var/snapshots/monday").load()

Spark finds DefaultSource by the name of this package. You do not need to register the class.
"""

from pyspark_qmgr.source import DefaultSource

__all__ = ["DefaultSource"]
