"""The UIDs of a queue as an Arrow batch, thousands at a time."""

from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qmgr_protocol.record import UID_ORIGIN, UID_TIMESTAMP
from qmgr_tables.row import TIME_END_US
from qmgr_tables.table import TIME
from qmgr_tables.tables.origins import LONG_MAX
from qmgr_tables.tables.small_table import unsealed
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import QueueInfo, StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction

_NO_PLACE = b"\xff" * keys.POSITION.size
_PLACES = np.dtype([("lane", "u1"), ("rank", "u1"), ("arrival", ">u8")])


class Uids(NamedTuple):
    """UIDs of one queue, grouped by origin, and the positions of their messages."""

    queue: QueueInfo
    has_target: bool
    uids: list[bytes]  # UIDs as in the index, without the queue id
    places: list[bytes]
    # times at which remembered UIDs are forgotten; None for UIDs with a message
    due_ms: list[int] | None = None


class _Origin(NamedTuple):
    target: str | None
    name: str
    highest: int | None


def batch(
    tx: LmdbTransaction, found: Uids, snapshot: StoredSnapshot, schema: pa.Schema
) -> pa.RecordBatch:
    """Returns *found* as a batch with exactly the columns of *schema*."""
    count = len(found.uids)
    columns: dict[str, Any] = {
        "queue": found.queue.name,
        "queue_manager": snapshot.queue_manager,
        "snapshot_id": snapshot.id,
        "turn": snapshot.turn,
        "state": "here" if found.due_ms is None else "remembered",
        "until": None if found.due_ms is None else _walls(found.due_ms, snapshot),
        **_places(found.places),
        **_uids(tx, found),
    }
    arrays = [_array(columns[field.name], field.type, count) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Any, type_: pa.DataType, count: int) -> pa.Array:
    """Returns a column. A value that is not an array is repeated in all rows."""
    if isinstance(values, pa.Array):
        return values
    return pa.repeat(pa.scalar(values, type_), count) if count else pa.array([], type_)


def _walls(due_ms: list[int], snapshot: StoredSnapshot) -> pa.Array:
    us = snapshot.wall_us + (np.array(due_ms, dtype=np.int64) - snapshot.clock_ms) * 1_000
    return pa.array(us, TIME, mask=(us < 0) | (us >= TIME_END_US))


def _places(places: list[bytes]) -> dict[str, Any]:
    joined = b"".join(places)
    wrong = None
    if any(len(place) != len(_NO_PLACE) for place in places):
        wrong = np.array([len(place) != len(_NO_PLACE) for place in places])
        joined = b"".join(place if len(place) == len(_NO_PLACE) else _NO_PLACE for place in places)
    table = np.frombuffer(joined, _PLACES)
    columns: dict[str, Any] = {
        "priority": pa.array(keys.PRIORITY_TOP - table["rank"].astype(np.int64), mask=wrong),
        "arrival": pa.array(table["arrival"].astype(np.int64), mask=wrong),
        "damage": None,
    }
    if wrong is not None:
        columns["damage"] = pa.array(
            ["the index row has an invalid position" if one else None for one in wrong], pa.string()
        )
    return columns


def _uids(tx: LmdbTransaction, found: Uids) -> dict[str, Any]:
    origins, counts = [], []
    for start, same in groupby(found.uids, itemgetter(UID_ORIGIN)):
        origins.append(_origin(tx, found, start))
        counts.append(sum(1 for _ in same))
    at = pa.array(np.repeat(np.arange(len(origins)), counts))
    names = pa.array([one.name for one in origins], pa.string()).take(at)
    stamps = np.frombuffer(
        b"".join(uid[UID_TIMESTAMP].rjust(8, b"\0") for uid in found.uids), ">u8"
    )
    stamps = stamps.astype(np.uint64)
    texts = pa.array(stamps).cast(pa.string())
    return {
        "target": pa.array([one.target for one in origins], pa.string()).take(at),
        "origin": names,
        "message_id": pc.binary_join_element_wise(names, texts, "."),
        "timestamp": _masked(stamps, stamps > LONG_MAX, pa.int64()),
        "created_at": _masked(stamps, stamps >= TIME_END_US, TIME),
        "highest": pa.array([one.highest for one in origins], pa.int64()).take(at),
    }


def _masked(stamps: Any, mask: Any, type_: pa.DataType) -> pa.Array:
    return pa.array(np.where(mask, 0, stamps).astype(np.int64), type_, mask=mask)


def _origin(tx: LmdbTransaction, found: Uids, start: bytes) -> _Origin:
    """Returns the origin, the target and the highest timestamp for *start*.

    *start* is the part of a UID in the index before the timestamp.
    """
    target = None
    if found.has_target:
        name, start = keys.split_target(start)
        target = _text(name)
    key = keys.of_queue(keys.SPACE_ORIGIN, found.queue.id) + start
    value = tx.get(key)
    row, damage = unsealed(key, value)
    highest = None if damage else int.from_bytes(row, "big")
    return _Origin(target, _text(start), None if highest is None or highest > LONG_MAX else highest)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
