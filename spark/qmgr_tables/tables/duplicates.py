"""The table of UIDs: the messages that a queue would refuse as duplicates, read in bulk.

    UID index   queue id, origin, timestamp ──▶ position       the message exists
    messages    queue id, position ──▶ origin, timestamp       the message exists, without a row in
                                                               the UID index
    schedule    due, queue id, lane 14, position ──▶ origin, ts only the UID is remembered

The index is divided by samples. Samples at even distances on the queue give parts with about the
same number of UIDs. Each task takes the same samples. Therefore, planning does not open any file.
Messages without a row in the index (core/queue/ordered.py) are divided by arrival number.
The schedule is divided by time. A row counts only if the index refers to the same position.
"""

from collections.abc import Iterator
from itertools import groupby, islice
from typing import NamedTuple

import pyarrow as pa

from qmgr_tables.image import damaged, image
from qmgr_tables.options import Options
from qmgr_tables.table import DAMAGE, OF_QUEUE, QUEUES, SNAPSHOT, Table, longs, texts, times
from qmgr_tables.tables.small_table import unsealed
from qmgr_tables.tables.uid_batch import Uids, batch
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.counters import Counters
from qmgrd.snapshot.finder import QueueInfo, StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction, ReadFailed

BATCH_ROWS = 10_000
# maximum number of samples for each part of a queue, and in total, because each task takes all
# samples
SAMPLES_EACH, SAMPLES_MAX = 8, 4_000
# Minimum number of UIDs in a part; samples for smaller parts would cost more than they save.
PART_MIN = 50
PARTS_MAX = SAMPLES_MAX  # maximum number of parts of a queue
# Minimum sizes of a remembered UID and of a message in a data file, to estimate their number.
REMEMBERED_BYTES, MESSAGE_BYTES = 100, 200
RETENTION_MAX_MS = 3_650 * 86_400_000  # maximum of dedup_retention_ms

COLUMNS = (
    *texts(
        (
            "queue",
            "the queue that would refuse a message with this UID; subscriptions have no UIDs",
        ),
        (
            "target",
            "on a transmission queue: the destination queue; each may have the same UID once",
        ),
        ("message_id", "the UID: ORIGIN.TIMESTAMP"),
        ("origin", "the creator of the message"),
    ),
    *longs(
        (
            "timestamp",
            "the number of the UID at its origin, usually microseconds; null from 2^63 on",
        )
    ),
    *times(("created_at", "the timestamp as a time; null from the year 10000 on")),
    *texts(
        ("state", "here (the message is on the queue) or remembered (the message was consumed)")
    ),
    *longs(
        ("priority", "the priority of the message"),
        ("arrival", "the position of the message within its priority"),
    ),
    *times(
        ("until", "the time at which a remembered UID is forgotten, by the queue manager's clock")
    ),
    *longs(("highest", "the highest timestamp of the origin on this queue: see the table origins")),
    *DAMAGE,
    *SNAPSHOT,
)


class Slice(NamedTuple):
    """One part of the UIDs of some queues, either UIDs with a message or remembered UIDs."""

    snapshot: StoredSnapshot  # snapshot to read; its list of queues is empty
    queues: tuple[QueueInfo, ...]
    remembered: bool
    part: int = 0
    parts: int = 1


def plan(snapshots: list[StoredSnapshot], options: Options) -> list[Slice]:
    """Returns slices that cover each UID once."""
    return [found for snapshot in snapshots for found in _slices(snapshot, options)]


def _slices(snapshot: StoredSnapshot, options: Options) -> Iterator[Slice]:
    of, rows = snapshot._replace(queues=()), max(options.rows_per_partition, PART_MIN)
    few: list[QueueInfo] = []
    held = messages = 0
    for queue in snapshot.queues:
        messages += (count := sum(found.messages for found in queue.ranges))
        if not options.wants(queue.name) or queue.kind == "subscription":
            continue
        parts = min(-(-count // rows), PARTS_MAX)
        if parts > 1:
            yield from (Slice(of, (queue,), False, part, parts) for part in range(parts))
            continue
        if few and held + count > rows:
            yield Slice(of, tuple(few), False)
            few, held = [], 0
        few.append(queue)
        held += count
    if few:
        yield Slice(of, tuple(few), False)
    known = tuple(
        queue._replace(ranges=(), lost=())
        for queue in snapshot.queues
        if options.wants(queue.name) and queue.kind != "subscription"
    )
    most = max(snapshot.data_bytes - messages * MESSAGE_BYTES, 0) // REMEMBERED_BYTES
    parts = min(max(-(-most // (4 * rows)), 1), PARTS_MAX)  # Most stores have no remembered UIDs.
    yield from (Slice(of, known, True, part, parts) for part in range(parts) if known)


def read(share: Slice, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the UIDs of *share*."""
    try:
        with image(share.snapshot).transaction() as tx:
            found = _remembered(tx, share) if share.remembered else _here(tx, share)
            for uids in found:
                yield batch(tx, uids, share.snapshot, schema)
    except ReadFailed as error:
        raise damaged(share.snapshot, error) from error


# -- UIDs with a message


def _here(tx: LmdbTransaction, share: Slice) -> Iterator[Uids]:
    for queue in share.queues:
        prefix = keys.of_queue(keys.SPACE_UID, queue.id)
        has_target = queue.kind == "transmission"
        first, stop = _cuts(tx, queue, has_target, share.part, share.parts)
        rows = tx.scan(prefix + first, prefix + stop if stop else keys.after(prefix))
        while chunk := list(islice(rows, BATCH_ROWS)):
            if _REMEMBERED in {position[keys.LANE] for _, position in chunk}:
                chunk = [row for row in chunk if row[1][keys.LANE] != _REMEMBERED]
            if queue.lost:
                chunk = [row for row in chunk if not _is_lost(tx, queue, row[1])]
            suffixes = [key[len(prefix) :] for key, _ in chunk]
            yield Uids(queue, has_target, suffixes, [position for _, position in chunk])
        found = _in_order(tx, queue, has_target, share)
        while pairs := list(islice(found, BATCH_ROWS)):
            pairs = [pair for pair in pairs if not queue.lost or not _is_lost(tx, queue, pair[1])]
            yield Uids(queue, has_target, [uid for uid, _ in pairs], [at for _, at in pairs])


def _in_order(
    tx: LmdbTransaction, queue: QueueInfo, has_target: bool, share: Slice
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the UIDs, as in the index, and the positions of messages that have no row there."""
    counters = _counters(tx, queue)
    for found in queue.ranges:
        if found.lane not in keys.LANES_OF_UIDS:
            continue
        first = max(found.first_arrival, counters.unindexed_from)
        length = max(min(found.last_arrival + 1, counters.unindexed_until) - first, 0)
        start, stop = (
            keys.message(queue.id, found.lane, found.priority, first + length * part // share.parts)
            for part in (share.part, share.part + 1)
        )
        for key, value in tx.scan(start, stop):
            entry = entries.decode(value)
            if entry.flags != entries.UNREADABLE:
                yield _uid(entry, has_target), key[keys.POSITION_AT :]


def _counters(tx: LmdbTransaction, queue: QueueInfo) -> Counters:
    """Returns the counters of *queue*, or zeros if they are damaged."""
    key = keys.of_queue(keys.SPACE_COUNTERS, queue.id)
    row, damage = unsealed(key, tx.get(key))
    return Counters() if damage else Counters.decode(row)


def _uid(entry: entries.Entry, has_target: bool) -> bytes:
    """Returns the UID of *entry* as in the index."""
    target = entry.target.encode() if has_target else b""
    return bytes([len(target)]) * has_target + target + entries.uid_trailer(entry)


_REMEMBERED = bytes([keys.LANE_REMEMBERED])


def _is_lost(tx: LmdbTransaction, queue: QueueInfo, position: bytes) -> bool:
    arrival = keys.arrival_of(position)
    if not any(first <= arrival < before for first, before in queue.lost):
        return False
    value = tx.get(keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position)
    return value is not None and entries.decode(value).volatile


def _cuts(
    tx: LmdbTransaction, queue: QueueInfo, has_target: bool, part: int, parts: int
) -> tuple[bytes, bytes]:
    """Returns the start and the end of the part in the order of UIDs. b"" means no bound."""
    if parts == 1:
        return b"", b""
    samples = sorted(_samples(tx, queue, has_target, min(parts * SAMPLES_EACH, SAMPLES_MAX)))
    if not samples:  # No sample can be read. Therefore, the first part has all UIDs.
        return (_LAST, b"") if part else (b"", b"")
    first, stop = (samples[len(samples) * at // parts] for at in (part, min(part + 1, parts - 1)))
    return first if part else b"", stop if part + 1 < parts else b""


_LAST = b"\xff" * 200  # a key that sorts after every UID


def _samples(
    tx: LmdbTransaction, queue: QueueInfo, has_target: bool, count: int
) -> Iterator[bytes]:
    """Yields the UIDs of up to *count* messages in the index, at even distances on *queue*."""
    counters = _counters(tx, queue)
    messages = max(sum(found.messages for found in queue.ranges), 1)
    for found in queue.ranges:
        samples = -(-count * found.messages // messages)
        length = found.last_arrival + 1 - found.first_arrival
        stop = keys.message(queue.id, found.lane, found.priority, found.last_arrival + 1)
        for sample in range(samples):
            arrival = found.first_arrival + length * sample // samples
            start = keys.message(queue.id, found.lane, found.priority, arrival)
            for key, value in islice(tx.scan(start, stop), 1):
                if not counters.is_unindexed(keys.place(key)[1]):
                    yield _uid(entries.decode(value), has_target)


# -- remembered UIDs


def _remembered(tx: LmdbTransaction, share: Slice) -> Iterator[Uids]:
    queues = {queue.id.to_bytes(4, "big"): queue for queue in share.queues}
    first, stop = _times(tx, share)
    due = (
        (key, uid)
        for key, uid in tx.scan(first, stop)
        if key[keys.DUE_LANE_AT] == keys.LANE_REMEMBERED and key[keys.DUE_QUEUE_ID] in queues
    )
    while chunk := list(islice(due, BATCH_ROWS)):
        chunk.sort(key=_queue_and_uid)
        for queue_id, rows in groupby(chunk, lambda row: row[0][keys.DUE_QUEUE_ID]):
            queue = queues[queue_id]
            prefix = keys.of_queue(keys.SPACE_UID, queue.id)
            kept = [row for row in rows if tx.get(prefix + row[1]) == row[0][keys.DUE_LANE_AT :]]
            yield Uids(
                queue,
                False,
                [uid for _, uid in kept],
                [key[keys.DUE_LANE_AT :] for key, _ in kept],
                [int.from_bytes(key[keys.DUE_MS], "big") for key, _ in kept],
            )


def _queue_and_uid(row: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    return row[0][keys.DUE_QUEUE_ID], row[1]


def _times(tx: LmdbTransaction, share: Slice) -> tuple[bytes, bytes]:
    """Returns the keys of the schedule that enclose the part.

    All parts cover periods of equal length.
    """
    space = keys.SPACE_DUE
    head = next(tx.scan(space, keys.after(space)), None)
    first = 0 if head is None else int.from_bytes(head[0][keys.DUE_MS], "big")
    # A row that is due after this limit is not a remembered UID.
    last = _last_due(tx, first, share.snapshot.clock_ms + RETENTION_MAX_MS)
    at = [first + (last + 1 - first) * part // share.parts for part in (share.part, share.part + 1)]
    start = space + (at[0] if share.part else 0).to_bytes(8, "big")
    if share.part + 1 == share.parts:
        return start, keys.after(space)
    return start, space + at[1].to_bytes(8, "big")


def _last_due(tx: LmdbTransaction, low: int, high: int) -> int:
    """Returns approximately the last due time up to *high*."""
    space = keys.SPACE_DUE
    stop = space + (max(high, low) + 1).to_bytes(8, "big")
    while low < high:
        middle = (low + high + 1) // 2
        if next(tx.scan(space + middle.to_bytes(8, "big"), stop), None) is None:
            high = middle - 1
        else:
            low = middle
    return low


DUPLICATES = Table(
    "duplicates",
    1,
    "one row per UID in a queue's table of UIDs",
    COLUMNS,
    plan,
    read,
    takes=QUEUES,
    pushed=OF_QUEUE,
)
