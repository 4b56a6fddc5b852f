"""Flights and mean delays, computed by Spark from a snapshot of the hub."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from qmgr_demo.flights import Mean


def manifest(snapshot: Path) -> dict[str, Any]:
    """Returns the manifest of the snapshot."""
    found: dict[str, Any] = json.loads((snapshot / "manifest.json").read_text())
    return found


def aggregate(spark: SparkSession, snapshot: Path, queue: str) -> dict[tuple[str, str], Mean]:
    """Returns the mean delays of the flights on *queue*, by (carrier, airport)."""
    messages = spark.read.format("qmgr").option("path", str(snapshot)).load()
    delay = f.get_json_object(f.decode(messages["body"], "UTF-8"), "$.dep_delay").cast("int")
    rows = (
        messages.where(messages["queue"] == queue)
        .select(messages["headers"]["carrier"].alias("carrier"), "origin", delay.alias("delay"))
        .groupBy("carrier", "origin")
        .agg(f.count("*"), f.count("delay"), f.sum("delay"))
        .collect()
    )
    return {(row[0], row[1]): Mean(row[2], row[3], row[4] or 0) for row in rows}
