"""The model of qmctl top: turns samples of a queue manager into rows with rates.

The functions are pure, because samples contain their time. A rate is the increase of a counter per
second between two samples. A rate is None (unknown) if there is no earlier sample of the same boot.
A rate is also None if the counter fell, because the queue was then created again.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qmgr_tools.cli.output import Row
from qmgr_tools.queue import state as queue_state

TREND_MAX = 240  # maximum number of samples of a queue's depth to keep
DOWN = ("waiting", "dialling", "opening", "refused", "stopped")

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of a queue manager at one time."""

    time_ms: int  # time of a monotonic clock
    status: Row
    queues: Sequence[Row] = ()
    links: Sequence[Row] = ()
    inbound: Sequence[Row] = ()
    connections: Sequence[Row] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """A sample prepared for display: the head, and the rows by the name of the view."""

    head: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)


class Model:
    """A converter of samples into frames. ``_trends`` has the depths of existing queues."""

    def __init__(self) -> None:
        self._before: Sample | None = None
        self._trends: dict[str, deque[int]] = {}

    def take(self, sample: Sample) -> Frame:
        """Returns the frame of *sample*, with rates since the previous sample."""
        before = self._before
        if before is None or before.status.get("boot") != sample.status.get("boot"):
            before = Sample(sample.time_ms, {})  # Counters restart with the daemon.
        self._before = sample
        elapsed_ms = sample.time_ms - before.time_ms
        queues = self._queues(sample, before, elapsed_ms)
        return Frame(
            _head(sample, before, elapsed_ms, queues),
            {
                "queues": queues,
                "links": _links(sample, before, elapsed_ms),
                "connections": [dict(row) for row in sample.connections],
            },
        )

    def _queues(self, sample: Sample, before: Sample, elapsed_ms: int) -> Rows:
        known = {_queue_key(row): row for row in before.queues}
        links = {row["link"]: row.get("state") for row in sample.links}
        rows: Rows = []
        for queue in sample.queues:
            was = known.get(_queue_key(queue), {})
            row = dict(queue)
            row["state"] = queue_state.with_link(queue, links)
            for name, counter in (("put", "puts"), ("get", "delivered"), ("ack", "acked")):
                row[f"{name}_rate"] = rate(queue, was, counter, elapsed_ms)
            row["trend"] = self._trend(queue)
            rows.append(row)
        names = {row["queue"] for row in rows}
        self._trends = {name: trend for name, trend in self._trends.items() if name in names}
        return rows

    def _trend(self, row: Row) -> tuple[int, ...]:
        if row.get("depth") is None:
            return ()
        trend = self._trends.setdefault(row["queue"], deque(maxlen=TREND_MAX))
        trend.append(row["depth"])
        return tuple(trend)


def rate(now: Row, before: Row, counter: str, elapsed_ms: int) -> float | None:
    """Returns the increase of *counter* per second with one decimal, or None if unknown."""
    new, old = now.get(counter), before.get(counter)
    if new is None or old is None or new < old or elapsed_ms <= 0:
        return None
    rise: float = (new - old) * 1000 / elapsed_ms
    return round(rise, 1)


def _queue_key(row: Row) -> tuple[Any, Any]:
    return row["queue"], row.get("queue_id")


def _links(sample: Sample, before: Sample, elapsed_ms: int) -> Rows:
    """Returns the links of both directions. An inbound link is up if its peer is connected."""
    known: dict[Any, Row] = {("out", row["link"]): row for row in before.links}
    known |= {("in", row["stream"]): row for row in before.inbound}
    rows: Rows = []
    for link in sample.links:
        was = known.get(("out", link["link"]), {})
        moved = rate(link, was, "transferred", elapsed_ms)
        rows.append({**link, "direction": "out", "rate": moved, "key": f"out {link['link']}"})
    peers = {row["name"]: row for row in sample.connections if row.get("kind") == "inbound"}
    for stream in sample.inbound:
        was = known.get(("in", stream["stream"]), {})
        peer = peers.get(stream["peer"])
        state = "up" if stream.get("blocked_id") is None else "blocked"
        rows.append(
            {
                **stream,
                "link": stream["peer"],
                "direction": "in",
                "state": "away" if peer is None else state,
                "addresses": [] if peer is None else [peer.get("address", "")],
                "rate": rate(stream, was, "commit_id", elapsed_ms),
                "key": f"in {stream['stream']}",
            }
        )
    return rows


def _head(sample: Sample, before: Sample, elapsed_ms: int, queues: Iterable[Row]) -> dict[str, Any]:
    status = sample.status
    busy = rate(status, before.status, "cpu_ms", elapsed_ms)
    map_bytes = status.get("store_map_bytes")
    queues = list(queues)
    return dict(status) | {
        "store_percent": (
            round(100 * status.get("store_used_bytes", 0) / map_bytes, 1) if map_bytes else None
        ),
        "cpu_percent": None if busy is None else round(busy / 10, 1),
        "turn_rate": rate(status, before.status, "turn", elapsed_ms),
        **{
            name: _sum(row[name] for row in queues) for name in ("put_rate", "get_rate", "ack_rate")
        },
    }


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [value for value in rates if value is not None]
    return round(sum(known), 1) if known else None
