"""Tests that Spark's means of a snapshot match the means of the rows."""

import asyncio
from pathlib import Path

import pytest

from pyspark_qmgr.session import local_session
from qmgr_client.aio import connect
from qmgr_demo import flights as data
from qmgr_demo import spark_report
from qmgr_demo.cluster import Node

pytestmark = [pytest.mark.process, pytest.mark.spark]


async def put_and_snap(node: Node, flights: list[data.Flight], directory: str) -> None:
    async with connect(node.address, wait_ms=30_000) as manager:
        await manager.admin.queue_create("FLIGHTS")
        futures = [
            await manager.submit("FLIGHTS", flight.body, headers={"carrier": flight.carrier})
            for flight in flights
        ]
        await asyncio.gather(*futures)
        await manager.admin.snapshot(directory)


def test_spark_finds_the_means_of_the_rows_that_are_there(tmp_path: Path) -> None:
    flights = [flight for flight in data.read(900) if flight.airport == "EWR"]
    node = Node("EWR", tmp_path)
    node.start()
    try:
        asyncio.run(put_and_snap(node, flights, str(tmp_path / "snapshot")))
    finally:
        node.stop()
    told = spark_report.manifest(tmp_path / "snapshot")
    assert [row["depth"] for row in told["queues"]] == [len(flights)]
    found = spark_report.aggregate(
        local_session("test", quick=True), tmp_path / "snapshot", "FLIGHTS"
    )
    assert found == data.aggregate(flights)
