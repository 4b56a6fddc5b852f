"""The table of events: the notifications for operators, from the queue SYSTEM.EVENTS."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from qmgr_tables.options import Options
from qmgr_tables.partition import Share, plan
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
from qmgr_tables.tables import messages
from qmgrd.snapshot.finder import StoredSnapshot

EVENTS = "SYSTEM.EVENTS"
_OWN = ("event", "count", "manager")
_READ = ("queue", "arrival", "message_id", "put_at", "body", "queue_manager", "snapshot_id", "turn")

COLUMNS = (
    *times(("at", "when it was put on the queue of events: at the end of the turn")),
    *texts(("event", "what happened, such as queue full")),
    *longs(("count", "how often it happened in that turn, with the same facts")),
    *texts(
        (
            "manager",
            "the queue manager where it happened, even if the event was sent here from there",
        )
    ),
    Column("facts", TEXTS, "what it happened to; numbers and flags as text"),
    *texts(
        ("queue", "the queue that holds the event"),
        ("message_id", "the identity of the event itself"),
    ),
    *longs(("arrival", "its position on that queue")),
    *DAMAGE,
    *SNAPSHOT,
)
_MESSAGES = {column.name: column.type for column in messages.COLUMNS}


def _plan(snapshots: list[StoredSnapshot], options: Options) -> list[Share]:
    """Returns the shares of SYSTEM.EVENTS, or of the queues selected instead."""
    if not (options.queues or options.queues_pattern):
        snapshots = [one for one in snapshots if any(q.name == EVENTS for q in one.queues)]
        if not snapshots:
            return []  # No events exist.
        options = options._replace(queues=frozenset([EVENTS]))
    return plan(snapshots, options)


def read(share: Share, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the events of *share*."""
    wanted = pa.schema([(name, _MESSAGES[name]) for name in _READ])
    for found in messages.read(share, options._replace(include_body=True), wanted):
        us = found.column("put_at").cast(pa.int64()).to_pylist()
        rows = found.drop_columns(["put_at"]).to_pylist()
        parsed = [
            {**_event_columns(row.pop("body")), **row, "at": at}
            for row, at in zip(rows, us, strict=True)
        ]
        yield pa.RecordBatch.from_pylist(parsed, schema=schema)


def _event_columns(body: bytes | None) -> dict[str, Any]:
    """Returns the columns of an event's body."""
    if body is None:
        return {"damage": "the checksum of its record is wrong"}
    try:
        facts = json.loads(body)
    except ValueError as error:
        return {"damage": f"not an event: {error}"}
    if type(facts) is not dict:
        return {"damage": "not an event: the body is not a map"}
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
    "one row per event on SYSTEM.EVENTS, or on the queues that you select",
    COLUMNS,
    _plan,
    read,
    "at",
    (*QUEUES, *TIMES),
    {**OF_QUEUE, "at": "us", "arrival": "arrival"},
)
