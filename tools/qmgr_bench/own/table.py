"""TABLE: the messages of a snapshot as a table, read with and without Spark.

All methods of reading take turns in each round. Spark reads each column of each row and discards it
(format "noop"). Rows per core are rows per second of processor time of all processes involved.

    decoder     the batches for Spark, made in one process without Spark
    loop        each record decoded in Python, for comparison
    spark       the table on one core and on two; long partitions have 1,000,000 rows
    ready       the same batch repeatedly by Spark, to show Spark's own cost
    Parquet     the same rows in a file, read by pyarrow on one thread and by Spark
    PostgreSQL  some of the same rows, read by Spark over JDBC
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.table_source import JAR, copies, snapshots
from qmgr_bench.own.table_spark import Reading, Session
from qmgr_bench.own.table_ways import (
    DECODER,
    LEAN_DECODER,
    LEAN_SPARK,
    LONG_SPARK,
    SPARK,
    Ways,
    snapshot_table,
    way_over_jdbc,
    ways_of,
)
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_least, at_most

MESSAGES = 5_000_000
FEWER = 1_000_000  # number of rows in PostgreSQL, and to compare snapshots and partitions
COUNTS = (1, 10, 100)
DISK_FACTOR = 4  # space for store, snapshots, Parquet and PostgreSQL, relative to the store
RATE_LEAST, RATIO_MOST = 250_000, 1.3


@dataclass(frozen=True, slots=True)
class MethodMedians:
    """The medians of one method of reading."""

    way: str
    rows: int
    rows_per_s: float  # rows per second of elapsed time
    rows_per_core_s: float
    cpu_us: float  # processor time of all processes per row
    worker_cpu_us: float  # processor time of Spark's Python workers per row
    ratio: float  # elapsed time relative to that of the decoder with the same columns
    cpu_ratio: float


@dataclass(frozen=True, slots=True)
class TimeOf:
    """The time for the same rows on two cores, with a given number of snapshots or partitions."""

    of: str
    count: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Tables:
    """The results of row TABLE."""

    ways: list[MethodMedians]
    times: list[TimeOf]

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        spark, long = (
            next(one for one in self.ways if one.way == way) for way in (SPARK, LONG_SPARK)
        )
        rate, ratio = (
            "rows per second and core, Spark, with payload",
            "Spark's time, relative to the decoder's",
        )
        return [
            at_least(rate, spark.rows_per_core_s, RATE_LEAST),
            at_most(ratio, spark.ratio, RATIO_MOST),
            at_most(f"{ratio}, long partitions", long.ratio, RATIO_MOST),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the rates as bars."""
        ours = (DECODER, LEAN_DECODER, SPARK, LONG_SPARK, LEAN_SPARK)
        bars = [(one.way, one.rows_per_core_s, one.way in ours) for one in self.ways]
        return "rows per second and core, medians", bars


def table(setting: Setting) -> Tables:
    """Measures all methods alternately, then the times for snapshots and partitions."""
    rows, fewer = setting.scaled(MESSAGES), setting.scaled(FEWER)
    setting.check_disk(DISK_FACTOR * rows)
    made = snapshots(setting, sorted({max(fewer // count, 1) for count in COUNTS} | {rows}))
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(Session(setting.directory, cores, str(JAR))) for cores in (1, 2)
        )
        ways = ways_of(setting, one, two, made[rows], rows)
        ways |= stack.enter_context(way_over_jdbc(setting, one, made[fewer], fewer))
        found = _rounds(setting, ways)
        return Tables(_summary(found), _times(setting, two, made, fewer))


def _rounds(setting: Setting, ways: Ways) -> dict[str, list[Reading]]:
    """Returns the readings of each of *ways* in each round."""
    found: dict[str, list[Reading]] = {way: [] for way in ways}
    for number in range(setting.rounds):
        for way in reversed(ways) if number % 2 else ways:
            setting.say(f"TABLE: round {number + 1} of {setting.rounds}: {way}")
            found[way].append(ways[way]())
    return found


def _summary(found: dict[str, list[Reading]]) -> list[MethodMedians]:
    ways = []
    for way, readings in found.items():
        beside = found[LEAN_DECODER if way.endswith("no payload") else DECODER]
        wall_us, cpu_us = ([one.wall_us for one in readings], [one.cpu_us for one in readings])
        ways.append(
            MethodMedians(
                way,
                readings[0].rows,
                round(1e6 / median(wall_us)),
                round(1e6 / median(cpu_us)),
                median(cpu_us),
                median([one.worker_cpu_s / one.rows * 1e6 for one in readings]),
                median_ratio(wall_us, [one.wall_us for one in beside]),
                median_ratio(cpu_us, [one.cpu_us for one in beside]),
            )
        )
    return ways


def _times(setting: Setting, two: Session, made: dict[int, Path], rows: int) -> list[TimeOf]:
    """Reads the same *rows* from 1, 10 and 100 snapshots, and in 1, 10 and 100 partitions."""
    tables = {}
    for count in COUNTS:
        setting.say(f"TABLE: {count} snapshots")
        cut = {"minPartitions": str(count), "rowsPerPartition": str(rows)}
        tables["snapshots", count] = snapshot_table(copies(made[max(rows // count, 1)], count))
        tables["partitions", count] = snapshot_table(made[rows], **cut)
    found: dict[tuple[str, int], list[float]] = {key: [] for key in tables}
    for number in range(setting.rounds):
        setting.say(f"TABLE: round {number + 1} of {setting.rounds}: snapshots and partitions")
        for key in reversed(tables) if number % 2 else tables:
            found[key].append(two.read(rows, tables[key]).wall_s)
    return [TimeOf(*key, rows, median(seconds)) for key, seconds in sorted(found.items())]
