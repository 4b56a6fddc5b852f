"""Streams with one planted fault each, which show that the campaign finds the fault."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadLimit

from pyspark_qmgr.source import DefaultSource
from pyspark_qmgr.stream import StreamReader
from qmgr_tables.stream.history_feed import HistoryFeed


class _Reader(StreamReader):
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options, self._schema)


class CommitsEarly(_Reader):
    """A stream that releases a batch after it is planned, instead of after it is written."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        self._options = self._options._replace(skip_lost=True)
        end = super().latestOffset(start, limit)
        self._source.commit(end)
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Any]:
        return _changed(super().partitions(start, end), skip_lost=True)


class SkipsFirst(_Reader):
    """A stream whose batches begin one row of history too late."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Any]:
        later = {store_id: after + 1 for store_id, after in start.items()}
        return super().partitions(later, end)


class ReadsOn(_Reader):
    """A stream whose batches read one row more than planned, if that row exists by then."""

    def read(self, partition: Any) -> Iterator[Any]:
        if partition.value is not None:
            part = partition.value
            with HistoryFeed(part.address, part.wait_ms) as feed:
                part = part._replace(until=min(part.until + 1, feed.state().last))
            partition.value = part
        return super().read(partition)


def _changed(partitions: list[Any], **fields: Any) -> list[Any]:
    for partition in partitions:
        partition.value = partition.value._replace(**fields)
    return partitions


BROKEN: dict[str, type[StreamReader]] = {
    "commits-early": CommitsEarly,
    "skips-first": SkipsFirst,
    "reads-on": ReadsOn,
}


class _Source(DefaultSource):
    reader_class: type[StreamReader]

    def streamReader(self, schema: Any) -> Any:
        return self.reader_class(*super().streamReader(schema).__reduce__()[1])


class CommitsEarlySource(_Source):
    reader_class = CommitsEarly


class SkipsFirstSource(_Source):
    reader_class = SkipsFirst


class ReadsOnSource(_Source):
    reader_class = ReadsOn


def register(spark: SparkSession, broken: str) -> str:
    """Registers the broken stream *broken* in *spark*. Returns its format."""
    sources = (CommitsEarlySource, SkipsFirstSource, ReadsOnSource)
    (source,) = (one for one in sources if one.reader_class is BROKEN[broken])
    name = f"qmgr_{broken.replace('-', '_')}"
    named = type(source.__name__, (source,), {"name": classmethod(lambda cls: name)})
    spark.dataSource.register(named)
    return name
