"""The columns of plain messages, thousands at a time, with the same values as in row.py."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qmgr_protocol import record as records
from qmgr_tables import row as rows
from qmgr_tables.chunk import Array, Chunk
from qmgr_tables.options import UNRANKED, Options
from qmgr_tables.partition import Run
from qmgr_tables.table import TEXTS, TIME
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import StoredSnapshot


class Plain(NamedTuple):
    """The plain messages of one snapshot."""

    chunk: Chunk
    runs: Sequence[Run]
    run_of: Array  # index of the run of each message
    snapshot: StoredSnapshot
    options: Options

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Returns the columns of *schema*. Columns without a function below are null."""
        count = len(self.chunk)
        arrays = [
            _COLUMNS[field.name](self) if field.name in _COLUMNS else pa.nulls(count, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def by_run(self, say: Callable[[Run], Any], type_: pa.DataType) -> pa.Array:
        """Returns a column with the result of *say* for the run of each message."""
        return pa.array([*map(say, self.runs)], type_).take(pa.array(self.run_of))

    def of_run(self, ask: Callable[[Run], bool]) -> Array:
        """Returns a mask with the result of *ask* for the run of each message."""
        return np.fromiter(map(ask, self.runs), bool, len(self.runs))[self.run_of]

    @property
    def is_volatile(self) -> Array:
        """Returns a mask of the messages that a restart loses."""
        return self.chunk.entry["flags"] & entries.VOLATILE > 0

    @property
    def is_of_time(self) -> Array:
        """Returns a mask of the messages that were put in the requested time range."""
        put_us = self.chunk.entry["put_us"]
        since_us, until_us = self.options.span_us
        if since_us is None and until_us is None:
            return np.ones(len(put_us), bool)
        end_us = rows.TIME_END_US if until_us is None else min(max(until_us, 0), rows.TIME_END_US)
        found: Array = (put_us >= max(since_us or 0, 0)) & (put_us < end_us)
        return found

    def repeat(self, value: Any, type_: pa.DataType) -> pa.Array:
        """Returns a column with *value* for each message."""
        return pa.repeat(pa.scalar(value, type_), len(self.chunk))

    def some(self, which: Sequence[int], found: Iterable[str | None]) -> pa.Array:
        """Returns a column with *found* for the messages *which*, and null for all others."""
        if not which:
            return pa.nulls(len(self.chunk), pa.string())
        known: list[str | None] = [None] * len(self.chunk)
        for at, value in zip(which, found, strict=True):
            known[at] = value
        return pa.array(known, pa.string())

    def of_envelope(self, key: str) -> pa.Array:
        """Returns the text under *key* of each envelope."""
        which, found = self.chunk.envelopes
        return self.some(which, (rows.text_under(one or {}, key) for one in found))

    def wall(self, clock_ms: Array) -> Array:
        """Converts *clock_ms*, times of the store's clock, to wall-clock times in microseconds."""
        start_us, start_ms = self.snapshot.wall_us, self.snapshot.clock_ms
        end_ms = start_ms + (rows.TIME_END_US - start_us) // 1_000 + 1
        near = np.minimum(clock_ms, end_ms).astype(np.int64)
        return np.maximum(start_us + (near - start_ms) * 1_000, 0)


def _times(us: Array, known: Array | bool = True) -> pa.Array:
    """Returns *us* as times.

    A time that is not *known* or is too late for a datetime becomes null.
    """
    null = ~(known & (us < rows.TIME_END_US))
    return pa.array(us.astype(np.int64).view("M8[us]"), TIME, mask=null)


def _priority(plain: Plain) -> pa.Array:
    head = plain.chunk.record
    unranked = plain.of_run(lambda run: run.kind in UNRANKED)
    here = keys.PRIORITY_TOP - plain.chunk.key["rank"].astype(np.int32)
    there = head["flags"] & records.FLAG_PRIORITY_OF_QUEUE == 0
    return pa.array(np.where(unranked, head["priority"], here), pa.int32(), mask=unranked & ~there)


def _message_id(plain: Plain) -> pa.Array:
    timestamps = pa.array(plain.chunk.timestamp).cast(pa.string())
    return pc.binary_join_element_wise(_origin(plain), timestamps, ".")


def _origin(plain: Plain) -> pa.Array:
    return plain.chunk.origin_texts


def _expires_at(plain: Plain) -> pa.Array:
    expires_ms = plain.chunk.entry["expires_ms"]
    return _times(plain.wall(expires_ms), expires_ms > 0)


def _deliver_at(plain: Plain) -> pa.Array:
    expires_ms, due_ms = plain.chunk.entry["expires_ms"], plain.chunk.entry["due_ms"]
    delayed = plain.of_run(lambda run: run.lane == keys.LANE_DELAYED)
    in_time = (expires_ms == 0) | (due_ms < expires_ms)
    return _times(plain.wall(due_ms), delayed & in_time & (due_ms > 0))


def _correlation_id(plain: Plain) -> pa.Array:
    which, found = plain.chunk.texts(plain.chunk.correlation_at, plain.chunk.group_at)
    return plain.some(which, map(rows.text, found))


def _headers(plain: Plain) -> pa.Array:
    which, found = plain.chunk.envelopes
    if not which:
        return _no_headers(len(plain.chunk))
    pairs: list[list[tuple[str, str | None]]] = [[]] * len(plain.chunk)
    for at, envelope in zip(which, found, strict=True):
        pairs[at] = rows.headers(envelope or {})
    return pa.array(pairs, TEXTS)


@lru_cache(4)
def _no_headers(count: int) -> pa.Array:
    return pa.array([[]] * count, TEXTS)


def _group_id(plain: Plain) -> pa.Array:
    grouped, group_at = plain.chunk.is_grouped, plain.chunk.group_at
    ends = np.where(grouped, group_at + records.GROUP_ID_BYTES, group_at)
    which, found = plain.chunk.texts(group_at, ends)
    return plain.some(which, map(bytes.hex, found))


def _group_number(plain: Plain) -> pa.Array:
    grouped = plain.chunk.is_grouped
    numbers = np.zeros(len(grouped), np.int64)
    numbers[grouped] = plain.chunk.group_number
    return pa.array(numbers, mask=~grouped)


def _target(plain: Plain) -> pa.Array:
    return plain.some(*plain.chunk.targets)


def _body(plain: Plain) -> pa.Array:
    if not plain.options.include_body:
        return pa.nulls(len(plain.chunk), pa.binary())
    long = plain.chunk.record["body_length"] > plain.options.max_body_bytes
    bodies = plain.chunk.bodies
    return pc.if_else(pa.array(long), None, bodies) if long.any() else bodies


def _of_entry(name: str, type_: pa.DataType) -> Callable[[Plain], pa.Array]:
    return lambda plain: pa.array(plain.chunk.entry[name].astype(np.int32), type_)


_COLUMNS: dict[str, Callable[[Plain], pa.Array]] = {
    "queue": lambda plain: plain.by_run(lambda run: run.queue, pa.string()),
    "priority": _priority,
    "arrival": lambda plain: pa.array(plain.chunk.key["arrival"].astype(np.int64)),
    "message_id": _message_id,
    "origin": _origin,
    "created_at": lambda plain: _times(plain.chunk.timestamp),
    "put_at": lambda plain: _times(plain.chunk.entry["put_us"]),
    "expires_at": _expires_at,
    "deliver_at": _deliver_at,
    "persistent": lambda plain: pa.array(~plain.is_volatile),
    "correlation_id": _correlation_id,
    "headers": _headers,
    "reply_to": lambda plain: plain.of_envelope(records.REPLY_TO),
    "content_type": lambda plain: plain.of_envelope(records.CONTENT_TYPE),
    "group_id": _group_id,
    "group_number": _group_number,
    "delivered": _of_entry("delivered", pa.int32()),
    "failed": _of_entry("failed", pa.int32()),
    "state": lambda plain: plain.by_run(lambda run: run.state, pa.string()),
    "target": _target,
    "body": _body,
    "body_bytes": lambda plain: pa.array(plain.chunk.record["body_length"].astype(np.int64)),
    "queue_manager": lambda plain: plain.repeat(plain.snapshot.queue_manager, pa.string()),
    "snapshot_id": lambda plain: plain.repeat(plain.snapshot.id, pa.string()),
    "turn": lambda plain: plain.repeat(plain.snapshot.turn, pa.int64()),
}
