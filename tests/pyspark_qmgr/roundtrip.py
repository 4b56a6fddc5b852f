"""``make roundtrip``: sends the flights of a year through a queue and reads them by each method.

The flights are put on a queue of a real daemon, which takes a snapshot. Spark reads the snapshot.
The snapshot is also exported without Java: to Parquet, which pyarrow and Spark read, and to Delta,
which deltalake reads. All methods must find the same number of rows and the same aggregates as in
the CSV file. In a sample, all methods must find the same value in every column, with the headers
and bodies of the file.
"""

import argparse
import asyncio
import csv
import io
import json
import random
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pyspark_qmgr.session import local_session
from qmgr_client.aio import connect
from qmgr_demo import flights as data
from qmgr_demo.cluster import Node
from qmgr_tables.export.export import export
from qmgr_tables.option_parser import parse
from qmgr_tables.tables.messages import MESSAGES

QUEUE = "FLIGHTS"
PIECE = 5_000  # maximum number of unanswered puts
# number of flights, number of flights with a known delay, minutes of delay, miles
Sum = tuple[int, int, int, int]
Sums = dict[tuple[str, str], Sum]  # sums by carrier and airport


class Way(NamedTuple):
    """The result of one method of reading, for comparison with the others."""

    name: str
    rows: int
    sums: Sums
    sample: pa.Table  # all columns of table messages for some rows, by arrival
    seconds: float


class Report:
    """The steps that are done, and their durations."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    @contextmanager
    def step(self, what: str, rows: int) -> Iterator[None]:
        """Reports the rate at which the block processes *rows*."""
        began = time.monotonic()
        yield
        passed_s = time.monotonic() - began
        self.say(f"{what:<44} {passed_s:8.2f} s {rows / passed_s:12,.0f} rows/s")


def csv_rows(limit: int) -> list[dict[str, str]]:
    """Returns the rows of the CSV file as text."""
    with zipfile.ZipFile(data._archive()) as archive, archive.open("flights.csv") as file:
        rows = csv.DictReader(io.TextIOWrapper(file, "utf-8"))
        return [row for _, row in zip(range(limit or 10**9), rows, strict=False)]


def sums_of(rows: Iterable[tuple[str, str, int | None, int]]) -> Sums:
    """Returns the aggregates of carrier, airport, delay and distance."""
    found: Sums = {}
    for carrier, airport, delay, miles in rows:
        count, known, minutes, total = found.get((carrier, airport), (0, 0, 0, 0))
        is_known = delay is not None
        found[carrier, airport] = (
            count + 1,
            known + is_known,
            minutes + (delay or 0),
            total + miles,
        )
    return found


def value_of(text: str) -> int | str | None:
    """Returns the value of a cell of the CSV file."""
    if text in ("", "NA"):
        return None
    try:
        return int(float(text))
    except ValueError:
        return text


async def put(node: Node, flights: list[data.Flight], snapshot: Path, report: Report) -> None:
    """Puts *flights* on a queue with ten priorities, and takes a snapshot."""
    async with connect(node.address, wait_ms=30_000) as manager:
        await manager.admin.queue_create(QUEUE)
        with report.step("put on a queue", len(flights)):
            for first in range(0, len(flights), PIECE):
                futures = [
                    await manager.submit(
                        QUEUE,
                        flight.body,
                        priority=flight.row % 10,
                        correlation_id=flight.tail_number.encode(),
                        content_type="application/json",
                        headers={
                            "carrier": flight.carrier,
                            "destination": flight.destination,
                            "row": flight.row,
                        },
                    )
                    for flight in flights[first : first + PIECE]
                ]
                await asyncio.gather(*futures)
        with report.step("snapshot", len(flights)):
            await manager.admin.snapshot(str(snapshot))


def of_arrow(name: str, found: pa.Table, arrivals: list[int], began: float) -> Way:
    """Returns the result of *found*, from any reader that returns Arrow tables."""
    found = found.select(MESSAGES.schema.names).cast(MESSAGES.schema)
    bodies = map(json.loads, found.column("body").to_pylist())
    headers = (dict(pairs) for pairs in found.column("headers").to_pylist())
    sums = sums_of(
        (header["carrier"], body["origin"], body["dep_delay"], body["distance"])
        for header, body in zip(headers, bodies, strict=True)
    )
    sample = found.filter(pc.is_in(found.column("arrival"), pa.array(arrivals, pa.int64())))
    return Way(name, found.num_rows, sums, _sorted(sample), time.monotonic() - began)


def of_spark(name: str, found: DataFrame, arrivals: list[int], began: float) -> Way:
    """Returns the result of *found*, which Spark aggregates."""
    body = f.decode(found["body"], "UTF-8")
    number = {
        key: f.get_json_object(body, f"$.{key}").cast("int") for key in ("dep_delay", "distance")
    }
    rows = (
        found.select(
            found["headers"]["carrier"].alias("carrier"),
            f.get_json_object(body, "$.origin").alias("airport"),
            number["dep_delay"].alias("delay"),
            number["distance"].alias("miles"),
        )
        .groupBy("carrier", "airport")
        .agg(f.count("*"), f.count("delay"), f.sum("delay"), f.sum("miles"))
        .collect()
    )
    sums = {(row[0], row[1]): (row[2], row[3], row[4] or 0, row[5]) for row in rows}
    wanted = found.sparkSession.createDataFrame([(at,) for at in arrivals], "arrival long")
    sample = found.join(f.broadcast(wanted), "arrival").select(*MESSAGES.schema.names).toArrow()
    return Way(name, found.count(), sums, _sorted(sample), time.monotonic() - began)


def _sorted(sample: pa.Table) -> pa.Table:
    return sample.cast(MESSAGES.schema).sort_by("arrival").combine_chunks()


def differences(way: Way, other: Way) -> list[str]:
    """Returns the differences between the results of two methods."""
    found = [f"{way.rows} rows, not {other.rows}"] if way.rows != other.rows else []
    found += ["other aggregates"] if way.sums != other.sums else []
    found += [
        f"column {name}"
        for name in MESSAGES.schema.names
        if not _same(way.sample.column(name), other.sample.column(name))
    ]
    return [f"{way.name} and {other.name}: {what}" for what in found]


def _same(column: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if pa.types.is_map(column.type):  # The order of the pairs has no meaning.
        return [dict(x) for x in column.to_pylist()] == [dict(x) for x in other.to_pylist()]
    return bool(column.equals(other))


def from_file(sample: pa.Table, rows: list[dict[str, str]]) -> list[str]:
    """Returns the differences between a sample and the file, by column and row."""
    found = []
    for message in sample.to_pylist():
        headers = dict(message["headers"])
        row = rows[int(headers["row"])]
        wanted = {key: value_of(text) for key, text in row.items() if key}
        if json.loads(message["body"]) != wanted:
            found.append(f"body of row {headers['row']}")
        if (headers["carrier"], headers["destination"]) != (row["carrier"], row["dest"]):
            found.append(f"headers of row {headers['row']}")
        if (message["correlation_id"] or "") != row["tailnum"]:
            found.append(f"correlation id of row {headers['row']}")
        if message["priority"] != int(headers["row"]) % 10:
            found.append(f"priority of row {headers['row']}")
    return found


def ways(
    spark: SparkSession, directory: Path, arrivals: list[int], total: int, report: Report
) -> Iterator[Way]:
    """Reads the snapshot in *directory* and its exports by every method."""
    snapshot = str(directory / "snapshot")
    options = parse({"path": snapshot, "queues": QUEUE})
    for format in ("parquet", "delta"):
        with report.step(f"export to {format}", total):
            done = export(options, str(directory / format), format=format)
        size = sum(part.bytes for part in done.written)
        report.say(f"{'':<44} {size / 2**20:8.1f} MiB {done.written[0].files:10,} files")
    began = time.monotonic()
    table = spark.read.format("qmgr").option("path", snapshot).option("queues", QUEUE).load()
    yield of_spark("Spark, the snapshot", table, arrivals, began)
    began = time.monotonic()
    parquet = spark.read.parquet(str(directory / "parquet/messages"))
    yield of_spark("Spark, Parquet", parquet, arrivals, began)
    began = time.monotonic()
    held = ds.dataset(directory / "parquet/messages", partitioning="hive").to_table()
    yield of_arrow("pyarrow, Parquet", held, arrivals, began)
    began = time.monotonic()
    lake = QueryBuilder().register("lake", DeltaTable(directory / "delta/messages"))
    held = pa.table(lake.execute("SELECT * FROM lake"))
    yield of_arrow("deltalake, Delta", held, arrivals, began)


def round_trip(
    spark: SparkSession, directory: Path, limit: int, sample: int, say: Callable[[str], None]
) -> list[str]:
    """Sends flights through the queue. Returns all differences that were found."""
    report = Report(say)
    rows = csv_rows(limit)
    sums = sums_of(
        (
            row["carrier"],
            row["origin"],
            data._value("dep_delay", row["dep_delay"]),
            int(row["distance"]),
        )  # type: ignore[misc]
        for row in rows
    )
    node = Node("EWR", directory)
    node.start()
    try:
        asyncio.run(put(node, data.read(limit), directory / "snapshot", report))
    finally:
        node.stop()
    size = (directory / "snapshot/data.mdb").stat().st_size
    say(f"{'':<44} {size / 2**20:8.1f} MiB")
    chosen = random.Random(2013).sample(range(1, len(rows) + 1), min(sample, len(rows)))
    found = list(ways(spark, directory, sorted(chosen), len(rows), report))
    wrong = [what for way in found for what in differences(way, found[0])]
    wrong += [f"{found[0].name}: {what}" for what in from_file(found[0].sample, rows)]
    for way in found:
        say(
            f"{way.name:<44} {way.seconds:8.2f} s {way.rows:12,} rows, {way.sample.num_rows:,} "
            f"of them in all {len(way.sample.column_names)} columns"
        )
        if way.rows != len(rows) or way.sums != sums or way.sample.num_rows != len(chosen):
            wrong.append(f"{way.name}: differs from the file")
    return wrong


def main() -> int:
    """Makes the round trip. Returns 0 if there are no differences."""
    parser = argparse.ArgumentParser(prog="make roundtrip", description=__doc__.partition("\n")[0])
    parser.add_argument("--flights", type=int, default=0, help="number of flights, 0 = all")
    parser.add_argument("--sample", type=int, default=10_000, help="rows compared by column")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qmgr-roundtrip-") as directory:
        spark = local_session("round trip")
        wrong = round_trip(spark, Path(directory), options.flights, options.sample, print)
        spark.stop()
    for what in wrong[:20]:
        print(f"wrong: {what}")
    print(f"{len(wrong)} differences" if wrong else "nothing differs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
