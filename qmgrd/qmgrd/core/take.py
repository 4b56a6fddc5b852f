"""Taking messages off a queue for a consumer: the next in order, each under a lease of its own.

A delivery writes nothing, so this is all there is to it: step over what is leased, look whether
the record is sound, remember the lease. One loop, as a busy daemon spends its time in it: a plain
entry is read there and then, any other by :func:`qmgrd.core.entry.open_sound`.
"""

import struct
from typing import TYPE_CHECKING

from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.messages import DELIVERY, STATE_MAYBE_REDELIVERED, STATE_REDELIVERED
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core.ids import COUNT_BITS, MARK_SHIFT
from qmgrd.core.kv import Now, Transaction
from qmgrd.core.lease import Consumer, Lease

if TYPE_CHECKING:
    from qmgrd.core.queue import Queue

DELIVER_MAX_BYTES = 1024 * 1024
_pack_item = DELIVERY.pack
# The head of an entry, and that of the record behind it where there is no target.
_HEADS = struct.Struct(">xBxBHHQ8xIB11xBBHI")
_LEAST_BYTES = _HEADS.size + records.TIMESTAMP.size
_RECORD_AT = entries.HEAD_BYTES
_NO_HEADS = (entries.UNREADABLE,) + (0,) * 10
_SUMMED_AT = _RECORD_AT + records.SUMMED_AT


def take(queue: "Queue", tx: Transaction, now: Now, consumer: Consumer, count: int) -> list[bytes]:
    """Lease up to *count* of the next messages to *consumer*; return them as delivery items.

    Stops at the consumer's credit, at the queue's limit of leases, and before a second message
    that would make a frame of over DELIVER_MAX_BYTES.
    """
    count = min(count, consumer.credit_messages, queue.bounds.leases_max - len(queue.leases))
    items: list[bytes] = []
    damaged: list[tuple[bytes, bytes]] = []
    size, priority = 0, keys.PRIORITY_TOP
    while len(items) < count and size < consumer.credit_bytes and priority >= 0:
        size, priority = _scan(queue, tx, now, consumer, count, priority, items, size, damaged)
    consumer.credit_messages -= len(items)
    consumer.credit_bytes -= size
    queue.counters.delivered += len(items)
    for key, value in damaged:
        queue.set_aside(tx, key, value)
    return items


def _scan(
    queue: "Queue", tx: Transaction, now: Now, consumer: Consumer, count: int, priority: int,
    items: list[bytes], size: int, damaged: list[tuple[bytes, bytes]],
) -> tuple[int, int]:  # fmt: skip
    """Add to *items* what can be had from *priority* on, moving the positions.

    Returns the bytes of all items and the priority to seek next, -1 where there is no more.
    """
    heads, leases, lessee = queue.heads, queue.leases, consumer.lessee
    own, deadline_ms = lessee.leases, now.ms + consumer.lease_ms
    maybe_before, index_prefix = queue.counters.maybe_before, queue.origins.index_prefix()
    place, unpack, new_lease = keys.unpack_place, _HEADS.unpack_from, tuple.__new__
    number = queue.ids.leases(count) - 1
    for key, value in tx.scan(queue.key(priority, heads[priority]), queue.lane_end):
        rank, arrival = place(key)
        found = keys.PRIORITY_TOP - rank
        if found != priority:
            priority = found
            if arrival < heads[found]:
                return size, found  # Behind are leased ones that a seek steps over at once.
        heads[found] = arrival + 1
        if arrival in leases:
            continue
        length = len(value)
        (kind, target, delivered, failed, put_us, checksum, origin, correlation, group, envelope,
         body) = unpack(value) if length > _LEAST_BYTES else _NO_HEADS  # fmt: skip
        if (
            kind or target or group
            or length != _LEAST_BYTES + correlation + envelope + body + origin
            or crc32(value[_SUMMED_AT:]) != checksum
        ):  # fmt: skip
            sound = entries.open_sound(tx, value)
            if sound is None:
                damaged.append((key, value))
                continue
            record, trailer, checksum, delivered, failed, put_us, in_rows = sound
        else:
            record, trailer, in_rows = value[_RECORD_AT:], value[-8 - origin :], False
        length = len(record)
        if items and size + length > DELIVER_MAX_BYTES:
            heads[found] = arrival  # It is the first of the next frame.
            return size, -1
        number += 1
        handle = checksum >> MARK_SHIFT << COUNT_BITS | number
        lease = (handle, lessee, deadline_ms, found, arrival, length, key, index_prefix + trailer,
                 in_rows)  # fmt: skip
        leases[arrival] = own[arrival] = new_lease(Lease, lease)  # As Lease(*lease), only faster.
        state = state_of(delivered, arrival, maybe_before)
        items.append(_pack_item(found, arrival, handle, delivered, failed, state, put_us) + record)
        size += length
        if len(items) == count or size >= consumer.credit_bytes:
            return size, found
    return size, -1


def state_of(delivered: int, arrival: int, maybe_before: int) -> int:
    """Return what a delivery says of those before it."""
    if delivered:
        return STATE_REDELIVERED
    return STATE_MAYBE_REDELIVERED if arrival < maybe_before else 0
