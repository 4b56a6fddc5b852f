"""The table of messages: one row a message, read in Arrow batches of about BATCH_BYTES."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from qmgr_tables import row as rows
from qmgr_tables.image import image
from qmgr_tables.options import Options
from qmgr_tables.partition import Run, Share, plan
from qmgr_tables.table import (
    OF_QUEUE,
    QUEUES,
    STATES,
    TEXTS,
    TIME,
    TIMES,
    Column,
    Table,
)
from qmgrd.core import keys
from qmgrd.ops.snapshots import DATA, SnapshotUnreadable
from qmgrd.store.lmdb_store import ReadFailed

BATCH_BYTES = 4 << 20  # Spark's own batches count rows: ten thousand long messages exhaust a task.
BATCH_ROWS = 10_000
KEY_BYTES = len(keys.message(0, 0, 0, 0))
ROW_BYTES = 200  # about what a row takes beside its body and its headers

COLUMNS = (
    Column(
        "queue",
        pa.string(),
        "where it lies; @NYC is the transmission queue of the link to NYC",
    ),
    Column(
        "priority",
        pa.int32(),
        "0 to 9, 9 first: by which it has its turn; null where the queue that it is "
        "bound for is to say it",
    ),
    Column("arrival", pa.int64(), "its place on the queue within its priority"),
    Column(
        "message_id",
        pa.string(),
        "ORIGIN.TIMESTAMP, its identity; null where the record is damaged",
    ),
    Column("origin", pa.string(), "who created it"),
    Column(
        "created_at",
        TIME,
        "when, by the creator's clock: the timestamp in message_id; null from the year "
        "10000 on, for origins that count something else",
    ),
    Column("put_at", TIME, "when it was put on this queue, by the queue manager's clock"),
    Column(
        "expires_at",
        TIME,
        "when its life ends; null if it has no end. This and deliver_at run by the "
        "queue manager's own clock, shown as wall clock as of the snapshot",
    ),
    Column(
        "deliver_at",
        TIME,
        "when it can be got, of one that is delayed; null too if it expires before that",
    ),
    Column("persistent", pa.bool_(), "whether it outlives a restart"),
    Column(
        "correlation_id",
        pa.string(),
        "as text: bytes that are not UTF-8 stand as \\xNN; null if it has none",
    ),
    Column(
        "headers",
        TEXTS,
        "the producer's headers; numbers and flags as text, lists and maps as JSON",
    ),
    Column("reply_to", pa.string(), "the queue that answers are wanted on"),
    Column("content_type", pa.string(), "what the producer says the body is"),
    Column("group_id", pa.string(), "of its message group, in hexadecimal"),
    Column("group_number", pa.int64(), "its number in that group"),
    Column("delivered", pa.int32(), "how often it came back after a delivery"),
    Column("failed", pa.int32(), "how often of these it was released or its lease ended"),
    Column(
        "state",
        pa.string(),
        "ready, delayed (its time has not come), transmission (it waits on a link), "
        "parked (its subscriber failed on it), publication (what subscriptions hold, "
        "once) or damaged (its checksum is wrong)",
    ),
    Column(
        "dead_code",
        pa.string(),
        "why it is a dead letter, as in MESSAGE_EXPIRED; this and what follows is null "
        "of what is none",
    ),
    Column("dead_reason", pa.string(), "a word of the consumer that rejected it"),
    Column("dead_text", pa.string(), "and what it said"),
    Column("dead_queue", pa.string(), "where it comes from"),
    Column("dead_manager", pa.string(), "and of which queue manager"),
    Column("dead_at", TIME, "when it became a dead letter, by that queue manager's clock"),
    Column("dead_delivered", pa.int32(), "how often it came back there"),
    Column("dead_failed", pa.int32(), "how often of these it was released or its lease ended"),
    Column("dead_retries", pa.int32(), "how often it was sent back already"),
    Column(
        "target",
        pa.string(),
        "the queue it is bound for, on a transmission queue; of a publication its topic",
    ),
    Column(
        "body",
        pa.binary(),
        "null where it is left out: includePayload, maxBodyBytes, a damaged record",
    ),
    Column("body_bytes", pa.int64(), "its size, also where it is left out"),
    Column("queue_manager", pa.string(), "whose snapshot it is"),
    Column("snapshot_id", pa.string(), "which one"),
    Column("turn", pa.int64(), "the turn of that queue manager that the snapshot shows"),
)


def read(share: Share, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the messages of *share*, about BATCH_BYTES at a time."""
    make = _maker(schema)
    held: list[rows.Row] = []
    size = 0
    for row in _rows(share, options):
        held.append(row)
        size += ROW_BYTES + len(row.body or b"") + _header_bytes(row)
        if size >= BATCH_BYTES or len(held) == BATCH_ROWS:
            yield make(held)
            held, size = [], 0
    if held:
        yield make(held)


def _rows(share: Share, options: Options) -> Iterator[rows.Row]:
    snapshot = share.snapshot
    try:
        with image(snapshot).transaction() as tx:
            for run in share.runs:
                for key, value in tx.scan(*_bounds(run)):
                    if len(key) != KEY_BYTES:
                        raise ReadFailed(f"a key of {len(key)} bytes, not {KEY_BYTES}")
                    row = rows.read(tx, key, value, run, snapshot, options)
                    if row is not None and options.wants_row(row.state, row.put_at):
                        yield row
    except ReadFailed as error:
        raise SnapshotUnreadable(
            f"{snapshot.directory}/{DATA}: damaged: {error}; copy or take the snapshot anew"
        ) from error


def _bounds(run: Run) -> tuple[bytes, bytes]:
    return (
        keys.message(run.queue_id, run.lane, run.priority, run.first),
        keys.message(run.queue_id, run.lane, run.priority, run.stop),
    )


def _header_bytes(row: rows.Row) -> int:
    return sum(len(key) + len(value or "") for key, value in row.headers or ())


def _maker(schema: pa.Schema) -> Any:
    """Return what makes a batch of rows: each with the very schema that is asked for."""
    names = [column.name for column in COLUMNS]
    places = [names.index(name) for name in schema.names]

    def make(held: Iterable[rows.Row]) -> pa.RecordBatch:
        columns = list(zip(*held, strict=True))
        arrays = [
            pa.array(columns[place], type=field.type)
            for place, field in zip(places, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return make


MESSAGES = Table(
    "messages", 1, "one row a message", COLUMNS, plan, read, "put_at", (*QUEUES, *STATES, *TIMES),
    {**OF_QUEUE, "state": "states", "put_at": "us", "arrival": "arrival"},
)  # fmt: skip
