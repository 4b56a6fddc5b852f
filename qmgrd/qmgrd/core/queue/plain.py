"""Appends plain records in tight loops, in which a busy daemon spends most of its time.

A plain record is short, and has no group, delay or expiry. One loop appends records without a UID,
which are stamped here. The other appends records that have UIDs of one origin in ascending order,
as a link or another producer sends them. All other records are appended step by step (put.py).
"""

from collections.abc import Iterator

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import RequestError
from qmgr_protocol.name import is_name
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue.put_errors import duplicate_error
from qmgrd.core.queue.queue import Queue

_PLAIN_MAX_BYTES = entries.INLINE_MAX_BYTES - records.UID_MAX_BYTES
# Offset of the correlation id in the part of a record that the checksum covers.
_REST_CORRELATION_AT = records.HEAD_BYTES - records.SUMMED_AT
_CHECKED = slice(records.ORIGIN_LENGTH_AT, records.HEAD_BYTES)  # the head without the checksum
_NEVER = bytes(8)


def kind_of(queue: Queue) -> int:
    """Returns the kind of the history event for a put on *queue*."""
    return history.PUBLISHED if queue.is_publications else history.PUT


def plain_max_bytes(queue: Queue, batch: list[bytes], message_max_bytes: int) -> int:
    """Returns the maximum size of a plain record, or 0 if the tight loops cannot be used.

    The tight loops require that the whole batch fits in the queue, and that the queue does not
    limit the expiry.
    """
    if queue.bounds.expiry_max_ms or not queue.has_room(len(batch), bytes_max(batch)):
        return 0
    return min(_PLAIN_MAX_BYTES, message_max_bytes)


def looks_plain(queue: Queue, record: bytes) -> bool:
    """Returns whether a tight loop may start with *record*, which may be malformed."""
    return (
        record[records.ORIGIN_LENGTH_TO_FLAGS] in queue.positions.plain_prefixes
        and record[records.EXPIRY] == _NEVER
        and record[records.GROUP_FLAGS] == b"\0"
    )


def looks_plain_with_uid(queue: Queue, stamper: Stamper, record: bytes) -> bool:
    """Returns whether :func:`put_plain_with_uids` may start with *record*, which may be malformed.

    UIDs of this queue manager, which may raise later timestamps, are put step by step. So are all
    UIDs while a consumer seeks a message, or an open unit of work holds one.
    """
    if len(record) < records.HEAD_BYTES or queue.uncommitted.arrivals or queue.waiting.seeking:
        return False
    origin_length = record[records.ORIGIN_LENGTH_AT]
    origin = record[records.TIMESTAMP_AT - origin_length : records.TIMESTAMP_AT]
    return (
        b"\0" + record[records.VERSION_TO_FLAGS] in queue.positions.plain_prefixes
        and record[records.EXPIRY] == _NEVER
        and record[records.GROUP_FLAGS] == b"\0"
        and origin != stamper.origin
        and is_name(origin.decode(errors="replace"))
    )


def bytes_max(batch: list[bytes]) -> int:
    """Returns the maximum size of *batch* after UIDs are assigned to its records."""
    return sum(map(len, batch)) + records.UID_MAX_BYTES * len(batch)


def put_plain(
    queue: Queue,
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    batch: list[bytes],
    plain_max: int,
    bound_for: bytes,
) -> int:
    """Appends the first plain records of *batch*. Returns their number."""
    rows: list[tuple[bytes, bytes]] = []
    uids: list[tuple[bytes, bytes]] = []
    counters, add_row, add_uid = queue.counters, rows.append, uids.append
    head = entries.encode_head(now.wall_us, bound_for)
    index_prefix, position_at = queue.origins.index_prefix(bound_for), keys.POSITION_AT
    arrival, is_indexed = counters.next_arrival, not queue.needs_no_rows
    size = 0
    for prefix, stamp, rest, trailer, correlation in plain_records(
        queue, stamper, batch, plain_max
    ):
        key = prefix + arrival.to_bytes(8, "big")
        arrival += 1
        add_row((key, b"".join((head, stamp, rest, trailer))))
        if is_indexed:
            add_uid((index_prefix + trailer, key[position_at:]))
        if correlation:
            queue.index_correlation(
                tx, rest[_REST_CORRELATION_AT : _REST_CORRELATION_AT + correlation], key
            )
        size += len(rest)
    count = arrival - counters.next_arrival
    if count:
        tx.put_all(rows)
        if is_indexed:
            tx.put_all(uids)
        else:
            counters.include_next()
        tx.rows_used += count + len(uids)
        stamper.last_us += count
        queue.origins.raise_to(tx, stamper.origin, stamper.last_us)
        counters.skip_arrivals(arrival)
        size += count * (records.SUMMED_AT + len(trailer))
        counters.put_batch(count, size, unindexed=count - len(uids))
        if queue.account is not None:
            queue.account.put(
                kind_of(queue),
                rows,
                arrival - count,
                stamper.origin,
                range(stamper.last_us - count + 1, stamper.last_us + 1),
                len(head),
                bound_for.decode(),
            )
    return count


def plain_records(
    queue: Queue, stamper: Stamper, batch: list[bytes], plain_max: int
) -> Iterator[tuple[bytes, bytes, bytes, bytes, int]]:
    """Assigns UIDs to the first plain records of *batch*.

    Yields:
        The prefix of the key before the arrival, three parts of the stamped record (the start with
        the checksum, the middle, the UID), and the length of the correlation id.
    """
    unpack, stamp = records.JOINED_HEAD.unpack_from, records.CHECK.pack
    prefixes, origin, timestamp = queue.positions.plain_prefixes, stamper.origin, stamper.last_us
    origin_bytes, known, known_length = len(origin), b"", -1
    prefix, correlation = b"", 0
    for record in batch:
        length = len(record)
        # Most records of a batch differ in nothing that is checked here, except the checksum.
        if record[_CHECKED] != known or length != known_length:
            if not records.HEAD_BYTES <= length <= plain_max:
                return
            _, four, expiry_ms, correlation, group, envelope, body = unpack(record)
            if (
                four not in prefixes
                or group
                or length != records.HEAD_BYTES + correlation + envelope + body
                or correlation > records.CORRELATION_MAX_BYTES
                or expiry_ms
            ):
                return
            known, known_length, prefix = record[_CHECKED], length, prefixes[four]
        rest = record[records.SUMMED_AT :]
        checksum = crc32(rest)
        if record[records.CHECKSUM] != checksum.to_bytes(4, "big"):
            return
        timestamp += 1
        trailer = origin + timestamp.to_bytes(8, "big")
        yield prefix, stamp(crc32(trailer, checksum), origin_bytes), rest, trailer, correlation


def put_plain_with_uids(
    queue: Queue,
    tx: Transaction,
    now: Now,
    batch: list[bytes],
    plain_max: int,
    bound_for: bytes,
    refused: list[tuple[int, RequestError]],
    index: int,
) -> int:
    """Appends the first plain records of *batch* with ascending UIDs of one origin.

    The first record must pass :func:`looks_plain_with_uid`. Returns the number of these records,
    including duplicates.

    Args:
        queue: The queue that receives the records.
        tx: The transaction of the turn.
        now: The time of the turn.
        batch: The records.
        plain_max: The maximum size of a plain record.
        bound_for: The destination queue of the records on a transmission queue.
        refused: A list that receives the index and error of each duplicate.
        index: The index of the first record.
    """
    rows: list[tuple[bytes, bytes]] = []
    uids: list[tuple[bytes, bytes]] = []
    timestamps: list[int] = []
    counters, origins, add_row, add_uid = queue.counters, queue.origins, rows.append, uids.append
    head, arrival = entries.encode_head(now.wall_us, bound_for), counters.next_arrival
    index_prefix, position_at = origins.index_prefix(bound_for), keys.POSITION_AT
    size = slow = done = 0
    origin_length = batch[0][records.ORIGIN_LENGTH_AT]
    origin = batch[0][records.TIMESTAMP_AT - origin_length : records.TIMESTAMP_AT]
    highest = origins.highest(tx, origin)
    for prefix, record, trailer, correlation in _ascending(queue, batch, origin, plain_max):
        timestamp = int.from_bytes(trailer[records.UID_TIMESTAMP], "big")
        done += 1
        if timestamp <= highest:
            if origins.exists(tx, trailer, bound_for):
                counters.count_duplicate()
                error = duplicate_error(queue, tx, trailer, bound_for)
                refused.append((index + done - 1, error))
                continue
            slow += 1
        key = prefix + arrival.to_bytes(8, "big")
        arrival += 1
        add_row((key, head + record))
        add_uid((index_prefix + trailer, key[position_at:]))
        timestamps.append(timestamp)
        if correlation:
            at = records.HEAD_BYTES
            queue.index_correlation(tx, record[at : at + correlation], key)
        size += len(record)
    count = len(rows)
    if count:
        tx.put_all(rows)
        tx.put_all(uids)
        tx.rows_used += 2 * count
        origins.raise_to(tx, origin, timestamps[-1])
        counters.exclude(counters.next_arrival, count)
        counters.skip_arrivals(arrival)
        counters.put_batch(count, size, slow=slow)
        if queue.account is not None:
            queue.account.put(
                kind_of(queue),
                rows,
                arrival - count,
                origin,
                timestamps,
                len(head),
                bound_for.decode(),
            )
    return done


def _ascending(
    queue: Queue, batch: list[bytes], origin: bytes, plain_max: int
) -> Iterator[tuple[bytes, bytes, bytes, int]]:
    """Checks the first plain records of *batch* that have ascending UIDs of *origin*.

    Yields:
        The prefix of the key before the arrival, the record, its encoded UID, and the length of the
        correlation id.
    """
    unpack, prefixes = records.JOINED_HEAD.unpack_from, queue.positions.plain_prefixes
    uid_length = len(origin) + records.TIMESTAMP.size
    four, known, known_length = b"", b"", -1
    prefix, correlation = b"", 0
    # Encoded UIDs of one origin have the order of their timestamps.
    before, top = b"", origin + records.TIMESTAMP.pack(records.TIMESTAMP_MAX)
    for record in batch:
        length = len(record)
        if record[_CHECKED] != known or length != known_length:
            if not records.HEAD_BYTES + uid_length <= length <= plain_max:
                return
            _, four, expiry_ms, correlation, group, envelope, body = unpack(record)
            unstamped = b"\0" + four[1:]
            if (
                four[0] != len(origin)
                or unstamped not in prefixes
                or group
                or length != records.HEAD_BYTES + correlation + envelope + body + uid_length
                or correlation > records.CORRELATION_MAX_BYTES
                or expiry_ms
            ):
                return
            known, known_length, prefix = record[_CHECKED], length, prefixes[unstamped]
        trailer = record[-uid_length:]
        if not before < trailer <= top:
            return
        if record[records.CHECKSUM] != crc32(record[records.SUMMED_AT :]).to_bytes(4, "big"):
            return
        before = trailer
        yield prefix, record, trailer, correlation
