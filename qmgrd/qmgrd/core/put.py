"""Putting a batch on a queue: each record is checked, identified and appended, or refused alone.

Most records are plain: in no group, not stamped yet, short, and there is room. They go through one
tight loop, which is what a busy daemon spends its time in. Every other one takes :func:`_put_one`,
which does the same step by step and says what is wrong; a test holds the two to the same bytes.
"""

import struct
from typing import TYPE_CHECKING, NamedTuple

from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core.amount import amount
from qmgrd.core.dedup import Verdict
from qmgrd.core.kv import Now, Transaction
from qmgrd.core.stamp import Stamper

if TYPE_CHECKING:
    from qmgrd.core.queue import Queue

ROWS_OF_A_PUT = 2  # the entry and its UID
RUN_MAX_RECORDS = 256  # copied for the tight loop: all that is left each time would be quadratic
# The head of a record, the four bytes from origin_length to flags in one piece.
_HEAD = struct.Struct(">I4sQBBHI")
_PLAIN_MAX_BYTES = entries.INLINE_MAX_BYTES - records.UID_MAX_BYTES
_FRONT = struct.Struct(">IB")
# These four bytes of a record that is not stamped yet and has no flags, for each priority.
_PLAIN = tuple(
    bytes([0, records.VERSION, priority, 0]) for priority in range(records.PRIORITY_MAX + 1)
)


class Put(NamedTuple):
    """What became of the records of one put."""

    refused: list[tuple[int, RequestError]]  # index and why
    stamped: list[list[int]]  # runs: index of the first, its timestamp, how many
    rows: int


def put(
    queue: "Queue", tx: Transaction, now: Now, stamper: Stamper, batch: list[bytes],
    message_max_bytes: int, target: str = "",
) -> Put:  # fmt: skip
    """Append the records of *batch* that can be; tell of the others why not."""
    refused: list[tuple[int, RequestError]] = []
    stamped: list[list[int]] = []
    bound_for = target.encode()
    plain_max = min(_PLAIN_MAX_BYTES, message_max_bytes) if _room(queue, batch) else 0
    stamper.catch_up(now.wall_us)
    index = rows = 0
    while index < len(batch):
        record = batch[index]
        if plain_max and record[4:5] == b"\0":
            run = batch[index : index + RUN_MAX_RECORDS]
            count = _put_plain(queue, tx, now, stamper, run, plain_max, bound_for)
            if count:
                stamped.append([index, stamper.last_us - count + 1, count])
                rows += ROWS_OF_A_PUT * count
                index += count
                continue
        try:
            used, is_new = _put_one(queue, tx, now, stamper, record, message_max_bytes, bound_for)
            rows += used
            if is_new:
                stamped.append([index, stamper.last_us, 1])
        except RequestError as error:
            queue.counters.refused += error.code != ErrorCode.DUPLICATE_MESSAGE
            refused.append((index, error))
        index += 1
    return Put(refused, stamped, rows)


def _put_plain(
    queue: "Queue", tx: Transaction, now: Now, stamper: Stamper, batch: list[bytes],
    plain_max: int, bound_for: bytes,
) -> int:  # fmt: skip
    """Append the plain records that *batch* begins with; return how many they were."""
    unpack, front, write = _HEAD.unpack_from, _FRONT.pack, tx.put
    counters, origin, timestamp = queue.counters, stamper.origin, stamper.last_us
    head = entries.encode_head(now.wall_us, bound_for)
    prefix_of = dict(zip(_PLAIN, queue.prefixes, strict=True)).get
    index_prefix, position_at = queue.origins.index_prefix(bound_for), keys.POSITION_AT
    origin_bytes, arrival = len(origin), counters.next_arrival
    size = 0
    for record in batch:
        length = len(record)
        if not records.HEAD_BYTES <= length <= plain_max:
            break
        checksum, four, expiry_ms, correlation, group, envelope, body = unpack(record)
        rest, prefix = record[records.SUMMED_AT :], prefix_of(four)
        if (
            prefix is None
            or group
            or length != records.HEAD_BYTES + correlation + envelope + body
            or correlation > records.CORRELATION_MAX_BYTES
            or expiry_ms >= records.EXPIRY_END
            or crc32(rest) != checksum
        ):
            break
        timestamp += 1
        trailer = origin + timestamp.to_bytes(8, "big")
        key = prefix + arrival.to_bytes(8, "big")
        arrival += 1
        stamp = front(crc32(trailer, checksum), origin_bytes)
        write(key, b"".join((head, stamp, rest, trailer)))
        write(index_prefix + trailer, key[position_at:])
        size += length
    count = arrival - counters.next_arrival
    if count:
        stamper.last_us = timestamp
        queue.origins.raise_to(tx, origin, timestamp)
        counters.next_arrival = arrival
        counters.depth += count
        counters.bytes += size + count * len(trailer)
        counters.puts += count
        counters.fast += count
    return count


def _room(queue: "Queue", batch: list[bytes]) -> bool:
    """Return whether all of *batch* fits, however long the UIDs that it gets."""
    counters, bounds = queue.counters, queue.bounds
    size = sum(map(len, batch)) + records.UID_MAX_BYTES * len(batch)
    return (
        counters.depth + len(batch) <= bounds.depth_max
        and counters.bytes + size <= bounds.bytes_max
    )


def _put_one(
    queue: "Queue", tx: Transaction, now: Now, stamper: Stamper, record: bytes,
    message_max_bytes: int, bound_for: bytes,
) -> tuple[int, bool]:  # fmt: skip
    """Append *record*; return how many rows that took, and whether it got its UID here.

    Raises:
        RequestError: why it is refused; nothing was written.
    """
    found = records.check(record)
    if len(record) > message_max_bytes:
        raise _too_large(len(record), message_max_bytes)
    trailer, verdict = _identify(queue, tx, now, stamper, record, found, bound_for)
    counters, bounds = queue.counters, queue.bounds
    if counters.depth >= bounds.depth_max:
        raise _full(queue)
    if counters.bytes + len(record) > bounds.bytes_max:
        raise _bytes_full(queue, len(record))
    is_new = not found.origin_length
    if is_new:
        record = records.stamp_encoded(record, trailer)
    counters.fast += verdict is Verdict.FAST
    counters.slow += verdict is Verdict.SLOW
    rows = _append(queue, tx, now, record, trailer, found.priority, bound_for)
    return rows, is_new


def _identify(
    queue: "Queue", tx: Transaction, now: Now, stamper: Stamper, record: bytes, head: records.Head,
    bound_for: bytes,
) -> tuple[bytes, Verdict]:  # fmt: skip
    """Return the encoded UID under which *record* may be put, and how that was found out.

    Raises:
        RequestError: DUPLICATE_MESSAGE, or what is wrong with the UID that it brings.
    """
    if not head.origin_length:
        return stamper.next(now.wall_us), Verdict.FAST  # Above all of this origin, wherever it is.
    records.uid_of(record, head.origin_length)
    trailer = record[-8 - head.origin_length :]
    stamper.observe(trailer, now.wall_us)
    verdict = queue.origins.judge(tx, trailer, bound_for)
    if verdict is Verdict.DUPLICATE:
        queue.counters.duplicates += 1
        uid = f"{trailer[:-8].decode()}.{int.from_bytes(trailer[-8:], 'big')}"
        raise RequestError(
            ErrorCode.DUPLICATE_MESSAGE, f"message {uid} is on queue {queue.name} already"
        )
    return trailer, verdict


def _append(
    queue: "Queue", tx: Transaction, now: Now, record: bytes, trailer: bytes, priority: int,
    bound_for: bytes,
) -> int:  # fmt: skip
    """Write entry and index; return how many rows that took."""
    counters = queue.counters
    arrival = counters.next_arrival
    long = entries.rows_of(len(record))
    if long:
        head = entries.encode_head(now.wall_us, bound_for, entries.IN_ROWS)
        value = head + entries.write_rows(tx, queue.ids.next(), record, trailer)
    else:
        value = entries.encode_head(now.wall_us, bound_for) + record
    key = queue.prefixes[priority] + arrival.to_bytes(8, "big")
    tx.put(key, value)
    tx.put(queue.origins.index_key(trailer, bound_for), key[keys.POSITION_AT :])
    queue.origins.raise_to(tx, trailer[:-8], int.from_bytes(trailer[-8:], "big"))
    counters.next_arrival = arrival + 1
    counters.depth += 1
    counters.bytes += len(record)
    counters.puts += 1
    return ROWS_OF_A_PUT + long


def _full(queue: "Queue") -> RequestError:
    return RequestError(
        ErrorCode.QUEUE_FULL,
        f"queue {queue.name} holds {amount(queue.counters.depth, 'message')}, "
        f"at most {queue.bounds.depth_max}",
        retry_after_ms=1_000,
    )


def _bytes_full(queue: "Queue", size: int) -> RequestError:
    return RequestError(
        ErrorCode.QUEUE_BYTES_FULL,
        f"queue {queue.name} holds {amount(queue.counters.bytes, 'byte')}, {size} more are beyond "
        f"its {queue.bounds.bytes_max}",
        retry_after_ms=1_000,
    )


def _too_large(size: int, limit: int) -> RequestError:
    return RequestError(ErrorCode.MESSAGE_TOO_LARGE, f"message of {size} bytes, at most {limit}")
