"""The tables that reports read, from snapshots."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from qmgrd.snapshot.finder import StoredSnapshot

SNAPSHOTS = "snapshots"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = StructType(
    [
        StructField("queue_manager", StringType()),
        StructField("snapshot_id", StringType()),
        StructField("at", TimestampType()),
        StructField("turn", LongType()),
    ]
)


def time_of(us: int) -> datetime:
    """Returns *us*, in microseconds since 1970, as a time."""
    return _EPOCH + timedelta(microseconds=us)


def snapshots_frame(spark: SparkSession, snapshots: Sequence[StoredSnapshot]) -> DataFrame:
    """Returns a row for each of *snapshots*, with the columns that reports need."""
    rows = [(s.queue_manager, s.id, time_of(s.wall_us), s.turn) for s in snapshots]
    return spark.createDataFrame(rows, _SCHEMA)


class Tables(Mapping[str, DataFrame]):
    """The tables of *snapshots* by name. A table is read only when it is used."""

    def __init__(self, spark: SparkSession, snapshots: Sequence[StoredSnapshot]) -> None:
        """Prepares the tables of *snapshots*, whose checksums must be verified."""
        self._spark = spark
        self._snapshots = snapshots

    def __getitem__(self, name: str) -> DataFrame:
        """Returns the table *name*.

        Each call returns a new frame, because Spark keeps the filters of a frame.
        """
        if name == SNAPSHOTS:
            return snapshots_frame(self._spark, self._snapshots)
        reader = self._spark.read.format("qmgr").option("table", name).option("verify", "false")
        if name == "messages":
            reader = reader.option("includePayload", "false")
        return reader.load([snapshot.directory for snapshot in self._snapshots])

    def __iter__(self) -> Iterator[str]:
        """Yields the names of all tables."""
        from qmgr_tables.tables.registry import TABLES

        yield from TABLES

    def __len__(self) -> int:
        """Returns the number of tables."""
        return sum(1 for _ in self)
