"""The table of events: the notifications for operators from the queue SYSTEM.EVENTS."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from qmgr_tables.options import Options
from qmgr_tables.partition import Share
from qmgr_tables.table import (
    DAMAGE,
    OF_QUEUE,
    QUEUES,
    SNAPSHOT,
    TEXTS,
    TIMES,
    Column,
    Table,
    longs,
    texts,
    times,
)
from qmgr_tables.tables import system_queue
from qmgrd.snapshot.finder import StoredSnapshot

EVENTS = "SYSTEM.EVENTS"
_OWN = ("event", "count", "manager")

COLUMNS = (
    *times(("at", "the time at which the event was put on its queue, at the end of the turn")),
    *texts(("event", "the kind of the event, such as queue full")),
    *longs(("count", "the number of equal events in that turn")),
    *texts(
        (
            "manager",
            "the queue manager where the event happened, which may have sent the event here",
        )
    ),
    Column("facts", TEXTS, "details of the event; numbers and flags as text"),
    *texts(
        ("queue", "the queue that has the event"), ("message_id", "the message id of the event")
    ),
    *longs(("arrival", "the position of the event on that queue")),
    *DAMAGE,
    *SNAPSHOT,
)


def _plan(snapshots: list[StoredSnapshot], options: Options) -> list[Share]:
    """Returns the shares of SYSTEM.EVENTS, or of the selected queues."""
    return system_queue.shares(EVENTS, snapshots, options)


def read(share: Share, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the events of *share*."""
    return system_queue.batches(share, options, schema, _event_columns)


def _event_columns(body: bytes | None) -> dict[str, Any]:
    """Returns the columns from the body of an event."""
    if body is None:
        return {"damage": "the checksum of the record does not match"}
    try:
        facts = json.loads(body)
    except ValueError as error:
        return {"damage": f"the body is not an event: {error}"}
    if type(facts) is not dict:
        return {"damage": "the body is not an event: it is not a map"}
    event, count, manager = (facts.pop(name, None) for name in _OWN)
    return {
        "event": event if type(event) is str else None,
        "count": count if type(count) is int and abs(count) < 1 << 63 else None,
        "manager": manager if type(manager) is str else None,
        "facts": [(name, _text(value)) for name, value in facts.items()],
    }


def _text(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    return json.dumps(value, ensure_ascii=False)


EVENTS_TABLE = Table(
    "events",
    1,
    "one row per event on SYSTEM.EVENTS, or on the selected queues",
    COLUMNS,
    _plan,
    read,
    "at",
    (*QUEUES, *TIMES),
    {**OF_QUEUE, "at": "us", "arrival": "arrival"},
)
