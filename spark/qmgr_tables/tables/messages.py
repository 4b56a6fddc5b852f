"""The table of messages: one row per message, read in Arrow batches of about BATCH_BYTES."""

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import pyarrow as pa

from qmgr_tables import row as rows
from qmgr_tables.chunk import Array, Pair, plain
from qmgr_tables.columns import Plain
from qmgr_tables.image import damaged, image
from qmgr_tables.options import Options
from qmgr_tables.partition import Run, Share, plan
from qmgr_tables.table import OF_QUEUE, QUEUES, STATES, TEXTS, TIME, TIMES, Column, Table
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction, ReadFailed

# The calls for a batch take 0.4 ms regardless of its size. A larger batch would exceed the
# processor's cache.
BATCH_ROWS = 4_096
# Maximum number of rows of plain messages (at most 4,000 bytes each) in a long batch.
HALF_ROWS = 2_048
# Size of a batch of other messages; Spark's own batches only have a limit of rows.
BATCH_BYTES = 4 << 20
LONG_BYTES = 8 << 20
ROW_BYTES = 200  # approximate size of a row without its body and headers

COLUMNS = (
    Column(
        "queue",
        pa.string(),
        "the queue of the message; @NYC is the transmission queue of the link to NYC",
    ),
    Column(
        "priority",
        pa.int32(),
        "0 to 9; 9 is delivered first; null if the destination queue determines the priority",
    ),
    Column("arrival", pa.int64(), "the position on the queue within the priority"),
    Column(
        "message_id", pa.string(), "the message id: ORIGIN.TIMESTAMP; null if the record is damaged"
    ),
    Column("origin", pa.string(), "the creator of the message"),
    Column(
        "created_at",
        TIME,
        "the time of creation by the creator's clock, which is the timestamp in message_id; null "
        "from the year 10000 on, for origins that use other numbers",
    ),
    Column("put_at", TIME, "the time of the put on this queue, by the queue manager's clock"),
    Column(
        "expires_at",
        TIME,
        "the time of expiry; null if the message does not expire. expires_at and deliver_at are "
        "times of the queue manager's own clock, converted to wall-clock time as of the snapshot",
    ),
    Column(
        "deliver_at",
        TIME,
        "the time at which a delayed message becomes available; also null if it expires first",
    ),
    Column("persistent", pa.bool_(), "whether the message survives a restart"),
    Column(
        "correlation_id",
        pa.string(),
        "the correlation id as text, with bytes that are not UTF-8 as \\xNN; null if not set",
    ),
    Column(
        "headers",
        TEXTS,
        "the producer's headers; numbers and flags as text, lists and maps as JSON",
    ),
    Column("reply_to", pa.string(), "the queue for replies"),
    Column("content_type", pa.string(), "the type of the body, as the producer states it"),
    Column("group_id", pa.string(), "the id of the message group, in hexadecimal"),
    Column("group_number", pa.int64(), "the number of the message in its group"),
    Column("delivered", pa.int32(), "the number of returns after a delivery"),
    Column(
        "failed",
        pa.int32(),
        "the number of these returns because of a release or the end of a lease",
    ),
    Column(
        "state",
        pa.string(),
        "ready, delayed (not yet available), transmission (waiting for a link), parked (the "
        "subscriber failed on it), publication (stored once for all subscriptions) or damaged "
        "(the checksum does not match)",
    ),
    Column(
        "dead_code",
        pa.string(),
        "the reason why the message is a dead letter, such as MESSAGE_EXPIRED; all dead_ columns "
        "are null for other messages",
    ),
    Column(
        "dead_reason",
        pa.string(),
        "the reason that the consumer gave when it rejected the message, in one word",
    ),
    Column("dead_text", pa.string(), "the text of the consumer that rejected the message"),
    Column("dead_queue", pa.string(), "the queue where the message became a dead letter"),
    Column("dead_manager", pa.string(), "the queue manager of that queue"),
    Column(
        "dead_at",
        TIME,
        "the time at which the message became a dead letter, by the clock of dead_manager",
    ),
    Column("dead_delivered", pa.int32(), "the number of returns after a delivery on dead_queue"),
    Column(
        "dead_failed",
        pa.int32(),
        "the number of these returns because of a release or the end of a lease",
    ),
    Column("dead_retries", pa.int32(), "the number of earlier retries"),
    Column(
        "target",
        pa.string(),
        "on a transmission queue: the destination queue; for a publication: its topic",
    ),
    Column(
        "body",
        pa.binary(),
        "the body; null if omitted by includePayload or maxBodyBytes, or if the record is damaged",
    ),
    Column("body_bytes", pa.int64(), "the size of the body, even if the body is omitted"),
    Column("queue_manager", pa.string(), "the queue manager of the snapshot"),
    Column("snapshot_id", pa.string(), "the id of the snapshot"),
    Column("turn", pa.int64(), "the turn of the queue manager that the snapshot shows"),
)


def read(share: Share, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the messages of *share*, at most BATCH_ROWS and about LONG_BYTES at a time."""
    snapshot = share.snapshot
    try:
        with image(snapshot).transaction() as tx:
            for pairs, runs in _chunks(tx, share.runs):
                for batch in batches(tx, pairs, runs, snapshot, options, schema):
                    yield from _halves(batch)
    except ReadFailed as error:
        raise damaged(snapshot, error) from error


def _chunks(
    tx: LmdbTransaction, runs: Iterable[Run]
) -> Iterator[tuple[list[Pair], list[tuple[Run, int]]]]:
    """Yields lists of at most BATCH_ROWS entries, and their runs with the number of entries."""
    pairs: list[Pair] = []
    counts: list[tuple[Run, int]] = []
    for run in runs:
        scan = tx.scan(*bounds(run))
        while found := [*islice(scan, BATCH_ROWS - len(pairs))]:
            pairs += found
            counts.append((run, len(found)))
            if len(pairs) == BATCH_ROWS:
                yield pairs, counts
                pairs, counts = [], []
    if pairs:
        yield pairs, counts


def _halves(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields *batch*, in two halves if it is long.

    *batch* must not have more than BATCH_ROWS rows.
    """
    rows = HALF_ROWS if batch.nbytes > LONG_BYTES else BATCH_ROWS
    for first in range(0, len(batch), rows):
        yield batch.slice(first, rows)


def bounds(run: Run) -> tuple[bytes, bytes]:
    """Returns the first key of *run*, and the first key after it."""
    return (
        keys.message(run.queue_id, run.lane, run.priority, run.first),
        keys.message(run.queue_id, run.lane, run.priority, run.stop),
    )


def batches(
    tx: LmdbTransaction,
    pairs: list[Pair],
    counts: list[tuple[Run, int]],
    snapshot: StoredSnapshot,
    options: Options,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yields *pairs* as rows of *schema*. Plain messages are read together, all others one by one.

    Args:
        counts: The runs of the pairs, with the number of pairs in each run.
    """
    runs, many = zip(*counts, strict=True)
    run_of = np.repeat(np.arange(len(runs)), many)
    chunk, where = plain(pairs)
    sound = Plain(chunk, runs, run_of[where], snapshot, options)
    # Some of these messages may be lost.
    is_lost = sound.is_volatile & sound.of_run(lambda run: bool(run.lost))
    is_wanted = sound.of_run(lambda run: options.wants_state(run.state)) & ~is_lost
    is_wanted &= sound.is_of_time
    batch = sound.batch(schema)
    places = where[is_wanted]
    if len(places) < len(where):
        batch = batch.filter(pa.array(is_wanted))
    is_other = np.ones(len(pairs), bool)
    is_other[where[~is_lost]] = False
    begin, size, held = 0, 0, {}
    for at in np.flatnonzero(is_other).tolist():
        row = rows.read(tx, *pairs[at], runs[run_of[at]], snapshot, options)
        if row is None or not options.wants_row(row.state, row.put_at):
            continue
        held[at] = row
        size += bytes_of(row)
        if size >= BATCH_BYTES:
            first, stop = np.searchsorted(places, (begin, at))
            yield _merged(batch.slice(first, stop - first), places[first:stop], held)
            begin, size, held = at + 1, 0, {}
    first = np.searchsorted(places, begin)
    if held or first < len(places):
        yield _merged(batch.slice(first), places[first:], held)


def _merged(batch: pa.RecordBatch, places: Array, held: dict[int, rows.Row]) -> pa.RecordBatch:
    """Returns *batch*, whose rows are at *places*, merged with the rows of *held*."""
    if not held:
        return batch
    others = batch_of(held.values(), batch.schema)
    order = np.argsort(np.concatenate([places, [*held]]))
    return pa.concat_batches([batch, others]).take(pa.array(order))


def batch_of(found: Iterable[rows.Row], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows *found* as a batch."""
    columns = dict(zip(rows.Row._fields, zip(*found, strict=True), strict=True))
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def bytes_of(row: rows.Row) -> int:
    """Returns the approximate size of *row*."""
    headers = sum(len(key) + len(value or "") for key, value in row.headers or ())
    return ROW_BYTES + len(row.body or b"") + headers


MESSAGES = Table(
    "messages",
    1,
    "one row per message",
    COLUMNS,
    plan,
    read,
    "put_at",
    (*QUEUES, *STATES, *TIMES),
    {**OF_QUEUE, "state": "states", "put_at": "us", "arrival": "arrival"},
)
