"""The puts that a unit of work holds until its commit appends them."""

from collections.abc import Iterable
from typing import NamedTuple

from qmgr_protocol import record as records
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue import lane
from qmgrd.core.queue.plain import kind_of
from qmgrd.core.queue.put import Prepared, append
from qmgrd.core.queue.queue import Queue


class HeldPut(NamedTuple):
    """A put that waits for the commit."""

    queue: Queue
    prepared: Prepared
    # The arrival number of the message. The number is 0 if the commit assigns it, because the ids
    # of a link must not have gaps.
    arrival: int
    index_key: bytes  # the key in the UID index, which no other put may use


def append_held(queue: Queue, tx: Transaction, held: Iterable[HeldPut]) -> None:
    """Stores the puts to *queue* in *held*, which a unit of work held until its commit."""
    write, prefixes, has_seekers = tx.put, queue.positions.prefixes, bool(queue.waiting.seeking)
    count = size = unindexed = 0
    counters, trailer = queue.counters, b""
    for _, prepared, place, index_key in held:
        arrival = place or _arrival_at_commit(queue, tx, prepared)
        head, record = prepared.head, prepared.record
        if not head:
            append(queue, tx, prepared, arrival)
            continue
        key = prefixes[prepared.priority] + arrival.to_bytes(8, "big")
        write(key, head + record)
        # Counted at once, because the next arrival number may depend on it.
        if counters.count_unindexed(arrival):
            unindexed += 1
        else:
            write(index_key, key[keys.POSITION_AT :])
        if correlation := record[records.CORRELATION_LENGTH_AT]:
            correlation_id = record[records.HEAD_BYTES : records.HEAD_BYTES + correlation]
            queue.index_correlation(tx, correlation_id, key)
        trailer = prepared.trailer
        if queue.account is not None:
            _note_held(queue, key, head + record)
        queue.lower_position(prepared.priority, arrival)
        if has_seekers:
            queue.wake_uid_seekers(trailer)
        count += 1
        size += len(record)
    if count:
        queue.origins.raise_to(
            tx, trailer[records.UID_ORIGIN], int.from_bytes(trailer[records.UID_TIMESTAMP], "big")
        )
        counters.put_batch(count, size)
    tx.rows_used += lane.ROWS_OF_A_PUT * count - unindexed


def _arrival_at_commit(queue: Queue, tx: Transaction, prepared: Prepared) -> int:
    """Returns an arrival number for a put whose UID was assigned before the commit.

    Meanwhile, the queue may have received a higher UID.
    """
    is_above = prepared.is_new and queue.origins.is_above(tx, prepared.trailer)
    return queue.next_arrival(is_new=is_above)


def _note_held(queue: Queue, key: bytes, value: bytes) -> None:
    entry = entries.decode(value)
    queue.record_history(kind_of(queue), key, entry, target=entry.target)
