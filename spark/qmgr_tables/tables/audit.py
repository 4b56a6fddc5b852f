"""The table of the audit: the records of SYSTEM.AUDIT, who did what with which result."""

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
from qmgr_tables.tables.small_table import time_us
from qmgrd.snapshot.finder import StoredSnapshot

AUDIT = "SYSTEM.AUDIT"
_TEXTS = (
    (
        "action",
        "a request such as QueueDelete, or Login, Logout, JobEnd, SnapshotEnd, AuditDropped",
    ),
    ("user", "the user; empty without a user"),
    ("method", "how the user proved who it is, such as scram-sha-256"),
    ("address", 'the host at the other end of the connection, or "unix"'),
    ("client", "the name that the client or the other queue manager claims"),
    ("kind", "the kind of the object, such as queue; empty if there is no object"),
    ("object", "the name of the object"),
    ("result", "OK, the name of an error code such as NOT\\_AUTHORIZED, or WOULD\\_REFUSE"),
    ("manager", "the queue manager that made the record, which may have sent it here"),
)
_LONGS = (
    ("connection", "the number of the connection; 0 if the record counts several actions"),
    ("count", "the number of equal actions"),
)

COLUMNS = (
    *times(
        ("at", "the time of the action; for several, the time at which they were counted"),
        ("since", "the time of the first of several equal actions"),
    ),
    *texts(*_TEXTS),
    *longs(*_LONGS),
    Column("detail", TEXTS, "the fields of the request; lists, maps, numbers and flags as JSON"),
    *texts(
        ("queue", "the queue that has the record"), ("message_id", "the message id of the record")
    ),
    *longs(("arrival", "the position of the record on that queue; a gap shows removed records")),
    *DAMAGE,
    *SNAPSHOT,
)


def _plan(snapshots: list[StoredSnapshot], options: Options) -> list[Share]:
    """Returns the shares of SYSTEM.AUDIT, or of the selected queues."""
    return system_queue.shares(AUDIT, snapshots, options)


def read(share: Share, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the records of *share*."""
    return system_queue.batches(share, options, schema, _columns)


def _columns(body: bytes | None) -> dict[str, Any]:
    """Returns the columns from the body of a record."""
    if body is None:
        return {"damage": "the checksum of the record does not match"}
    try:
        facts = json.loads(body)
    except ValueError as error:
        return {"damage": f"the body is not a record of the audit: {error}"}
    if type(facts) is not dict:
        return {"damage": "the body is not a record of the audit: it is not a map"}
    since_us, detail = facts.get("since_us"), facts.get("detail")
    found: dict[str, Any] = {
        name: value for name, _ in _TEXTS if type(value := facts.get(name)) is str
    }
    found |= {
        name: value
        for name, _ in _LONGS
        if type(value := facts.get(name)) is int and abs(value) < 1 << 63
    }
    found["since"] = time_us(since_us) if since_us else None
    found["detail"] = [
        (name, value if type(value) is str else json.dumps(value, ensure_ascii=False))
        for name, value in (detail.items() if type(detail) is dict else ())
    ]
    return found


AUDIT_TABLE = Table(
    "audit",
    1,
    "one row per record of the audit on SYSTEM.AUDIT, or on the selected queues",
    COLUMNS,
    _plan,
    read,
    "at",
    (*QUEUES, *TIMES),
    {**OF_QUEUE, "at": "us", "arrival": "arrival"},
)
