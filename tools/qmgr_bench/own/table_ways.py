"""The methods of reading the messages of a snapshot, which row TABLE measures."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from qmgr_bench.load import LoadFailed
from qmgr_bench.own.table_source import QUEUE, batches, postgres, write_parquet
from qmgr_bench.own.table_spark import Reading, Session, Table
from qmgr_bench.setting import Setting
from qmgr_protocol import record as records
from qmgr_tables.image import image
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import read

DECODER, LEAN_DECODER = "decoder", "decoder, no payload"
SPARK, LEAN_SPARK = "spark, 1 core", "spark, 1 core, no payload"
LONG_SPARK = "spark, 1 core, long partitions"
LEAN = {"includePayload": "false"}
LONG = {"rowsPerPartition": "1000000"}  # as recommended in docs/spark.md for many rows per core
LOOP_SHARE = 10  # divisor of the messages that the loop reads, because the loop is slow
Ways = dict[str, Callable[[], Reading]]


def snapshot_table(path: Path | str, **options: str) -> Table:
    """Returns the messages of a snapshot as a table for Spark."""
    return "qmgr", {"path": str(path), "queues": QUEUE, "verify": "false", **options}


def ways_of(setting: Setting, one: Session, two: Session, path: Path, rows: int) -> Ways:
    """Returns the methods that need no database, and warms up both sessions.

    Raises:
        LoadFailed: The results of the table and of Parquet differ.
    """
    file, whole, lean, long = (
        setting.directory / "messages.parquet",
        snapshot_table(path),
        snapshot_table(path, **LEAN),
        snapshot_table(path, **LONG),
    )
    in_parquet: Table = ("parquet", {"path": str(file)})
    setting.say("TABLE: writing the same messages to Parquet")
    write_parquet(str(path), file)
    check_same(one, whole, in_parquet)
    for session in (one, two):
        session.read(rows, whole)
    return {
        DECODER: lambda: measured(batches(str(path), verify="false")),
        LEAN_DECODER: lambda: measured(batches(str(path), verify="false", **LEAN)),
        "loop": lambda: loop(str(path), max(rows // LOOP_SHARE, 1)),
        SPARK: lambda: one.read(rows, whole),
        LONG_SPARK: lambda: one.read(rows, long),
        LEAN_SPARK: lambda: one.read(rows, lean),
        "spark, 1 core, ready batches": lambda: one.read(
            rows, ("ready", {"path": str(path), "rows": str(rows)})
        ),
        "spark, 2 cores": lambda: two.read(rows, whole),
        "spark, 2 cores, no payload": lambda: two.read(rows, lean),
        "pyarrow, Parquet": lambda: measured(
            pq.ParquetFile(file).iter_batches(batch_size=10_000, use_threads=False)
        ),
        "spark, 1 core, Parquet": lambda: one.read(rows, in_parquet),
    }


@contextmanager
def way_over_jdbc(setting: Setting, one: Session, path: Path, rows: int) -> Iterator[Ways]:
    """Copies a snapshot's messages to PostgreSQL and yields the method that reads them.

    Yields no method if PostgreSQL is not installed.

    Raises:
        LoadFailed: The results of the table and of PostgreSQL differ.
    """
    with postgres(setting) as found:
        if found is None:
            yield {}
            return
        server, options = found
        in_database: Table = ("jdbc", options)
        setting.say(f"TABLE: copying {rows:,} messages to PostgreSQL")
        one.ask("copy", snapshot_table(path), in_database)
        check_same(one, snapshot_table(path), in_database)

        def read_all() -> Reading:
            before_s = server.cpu_s()
            reading = one.read(rows, in_database)
            return replace(reading, cpu_s=reading.cpu_s + server.cpu_s() - before_s)

        yield {"spark, 1 core, PostgreSQL": read_all}


def check_same(session: Session, these: Table, those: Table) -> None:
    """Compares two tables by the sums of their columns.

    Raises:
        LoadFailed: The tables differ.
    """
    here, there = session.ask("sums", these), session.ask("sums", those)
    if here != there:
        raise LoadFailed(f"TABLE: {those[0]} returned {there}, but {these[0]} returned {here}")


def measured(found: Iterable[Any]) -> Reading:
    """Returns the cost of making all batches of *found*."""
    start_s, start_cpu_s = time.monotonic(), time.process_time()
    rows = sum(batch.num_rows for batch in found)
    return Reading(rows, time.monotonic() - start_s, time.process_time() - start_cpu_s)


def loop(path: str, most: int) -> Reading:
    """Returns the cost of decoding at most *most* records, one after another."""
    snapshot = read(path)
    (queue,) = (one for one in snapshot.queues if one.name == QUEUE)
    lane = keys.lane(queue.id, keys.LANE_READY)
    start_s, start_cpu_s, rows = time.monotonic(), time.process_time(), 0
    with image(snapshot).transaction() as tx:
        for _, value in tx.scan(lane, keys.after(lane)):
            records.decode(entries.record(tx, entries.decode(value)))
            rows += 1
            if rows == most:
                break
    return Reading(rows, time.monotonic() - start_s, time.process_time() - start_cpu_s)
