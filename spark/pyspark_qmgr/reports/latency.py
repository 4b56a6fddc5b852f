"""Latency of messages: on their queue, and from their creation to their settlement."""

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.history import stays
from pyspark_qmgr.reports.measure import described, hour, ms, percentiles
from pyspark_qmgr.reports.report import Column, Frames, Kind, Part, Plot, Report, Row

_TIMES = (
    ("wait", "from the put to the first delivery to a consumer"),
    ("queue", "from the put on this queue to the settlement"),
    ("total", "from the creation, by the creator's clock, to the settlement"),
)
_MANAGER = Column("queue_manager", Kind.TEXT, "the queue manager where the message was settled")
_QUEUE = Column("queue", Kind.TEXT, "the queue where the message was settled")
_ORIGIN = Column("origin", Kind.TEXT, "the creator of the message")
_HOUR = Column("hour", Kind.TIME, "the hour of the settlement, in UTC")


def _figures() -> Iterable[Column]:
    yield Column("messages", Kind.COUNT, "settled messages")
    for name, text in _TIMES:
        yield from described(name, text)
        yield Column(f"{name}_max_ms", Kind.MS, f"{text}: the longest time")
    yield Column(
        "early", Kind.COUNT, "messages settled before they were created, because the clocks differ"
    )


BY_QUEUE = (_MANAGER, _QUEUE, *_figures())
BY_ORIGIN = (_ORIGIN, _MANAGER, *_figures())
BY_HOUR = (_HOUR, _MANAGER, _QUEUE, *_figures())


def settled(stays: DataFrame) -> DataFrame:
    """Returns the *stays* that ended with a settlement, with wait_ms, queue_ms and total_ms."""
    return (
        stays.where(F.col("ended") == "settled")
        .withColumn("wait_ms", ms("delivered_at", "put_at"))
        .withColumn("queue_ms", ms("left_at", "put_at"))
        .withColumn("total_ms", ms("left_at", "created_at"))
        .withColumn("hour", hour("left_at"))
    )


def _by(settled: DataFrame, columns: Sequence[Column]) -> DataFrame:
    keys = [column.name for column in columns if column in (_MANAGER, _QUEUE, _ORIGIN, _HOUR)]
    figures = [
        figure
        for name, _ in _TIMES
        for figure in (
            *percentiles(f"{name}_ms", name),
            F.max(f"{name}_ms").alias(f"{name}_max_ms"),
        )
    ]
    early = F.count_if(F.col("total_ms") < 0).alias("early")
    counted = settled.groupBy(*keys).agg(F.count("*").alias("messages"), *figures, early)
    return counted.select(*(column.name for column in columns))


def by_queue(settled: DataFrame) -> DataFrame:
    """Returns the percentiles for each queue."""
    return _by(settled, BY_QUEUE)


def by_origin(settled: DataFrame) -> DataFrame:
    """Returns the percentiles for each origin and destination."""
    return _by(settled, BY_ORIGIN)


def by_hour(settled: DataFrame) -> DataFrame:
    """Returns the percentiles for each queue and hour."""
    return _by(settled, BY_HOUR)


def _slowest(name: str, time: str) -> Callable[[Sequence[Row]], str]:
    def title(rows: Sequence[Row]) -> str:
        known = [row for row in rows if row[f"{time}_p99_ms"] is not None]
        if not known:
            return "the put time of the settled messages is unknown"
        worst = max(known, key=lambda row: row[f"{time}_p99_ms"])
        label = worst[name]
        of = cells.time(label)[:16] if name == "hour" else cells.text(label)
        what = "from creation to settlement" if time == "total" else "on the queue"
        return (
            f"{of}: one message in a hundred took {cells.duration(worst[f'{time}_p99_ms'])} or "
            f"more {what}, and half took {cells.duration(worst[f'{time}_p50_ms'])} or less"
        )

    return title


def _make(tables: Frames) -> Frames:
    found = settled(stays(tables["history"]))
    return {"": by_queue(found), "origin": by_origin(found), "hour": by_hour(found)}


def _times(name: str) -> tuple[str, ...]:
    return tuple(f"{name}_p{percent}_ms" for percent in (50, 95, 99))


LATENCY = Report(
    "latency",
    "time on queue and from end to end: percentiles by queue, origin, hour",
    ("history",),
    (
        Part(
            "",
            "a queue",
            BY_QUEUE,
            ("-queue_p99_ms", "queue_manager", "queue"),
            _slowest("queue", "queue"),
            Plot(("queue_manager", "queue"), _times("queue"), "time on the queue", is_log=True),
        ),
        Part(
            "origin",
            "an origin",
            BY_ORIGIN,
            ("-total_p99_ms", "origin", "queue_manager"),
            _slowest("origin", "total"),
            Plot(("origin", "queue_manager"), _times("total"), "time since creation", is_log=True),
        ),
        Part(
            "hour",
            "a queue and an hour",
            BY_HOUR,
            ("-queue_p99_ms", "hour", "queue_manager", "queue"),
            _slowest("hour", "queue"),
            Plot(
                ("queue_manager", "queue"),
                ("queue_p99_ms",),
                "p99 of the time on the queue",
                x="hour",
                is_log=True,
                labels_max=6,
            ),
        ),
    ),
    _make,
)
