"""Reports on the tables of queue managers: plain functions from DataFrames to DataFrames.

    from pyspark_qmgr.reports.latency import by_queue
    from pyspark_qmgr.reports.stays import stays

    history = spark.read.format("qmgr").option("table", "history").load("/snapshots/*")
    by_queue(stays(history)).show()

`qmctl report` runs these reports, and pyspark_qmgr.submit runs them on a cluster.
"""
