"""Leases the next messages of a queue to a consumer, in order.

A delivery writes nothing to the store. The delivery skips leased messages, checks each record and
remembers each lease. A busy daemon spends much of its time in this single loop. The loop decodes
plain entries directly, and other entries with :func:`qmgrd.core.layout.entry.open_sound`. It skips
messages that have expired or that a restart lost. The schedule and a job remove such messages.
"""

from typing import NamedTuple

from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.messages import (
    DELIVERY,
    REMAINING,
    STATE_EXPIRES,
    STATE_MAYBE_REDELIVERED,
    STATE_NOTED,
    STATE_REDELIVERED,
    STATE_REPUBLISHED,
    STATE_TOPIC,
)
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.queue import lane, notes
from qmgrd.core.queue.lease import Consumer, Lease
from qmgrd.core.queue.lease_number import COUNT_BITS, IN_BLOCK, NO_TAGS
from qmgrd.core.queue.queue import Queue

FULL = -2  # the value returned instead of a priority if the frame is full
_pack_item = DELIVERY.pack
_HEADS = entries.HEADS
_LEAST_BYTES = _HEADS.size + records.TIMESTAMP.size
_RECORD_AT = entries.HEAD_BYTES
_PLAIN = entries.PLAIN
_NO_HEADS = (entries.UNREADABLE,) + (0,) * 12
_SUMMED_AT = _RECORD_AT + records.SUMMED_AT
# The start of a new reference to a publication. The put time follows.
_NEW_REFERENCE = bytes([entries.SHORT, entries.SHARED])


def take(queue: Queue, tx: Transaction, now: Now, consumer: Consumer, count: int) -> list[bytes]:
    """Leases up to *count* of the next messages to *consumer*. Returns their delivery items.

    The consumer's credit and the queue's limit of leases may reduce the number. The delivery also
    ends before a message that would make the frame longer than ``consumer.frame_bytes``, unless
    that message is the first. The heads of items do not count, because *count* heads fit in the
    spare room of a frame.
    """
    count = min(count, consumer.credit_messages, queue.bounds.leases_max - len(queue.leases))
    items: list[bytes] = []
    damaged: list[tuple[bytes, bytes]] = []
    size, _ = scan_ready(
        queue, tx, now, consumer, count, items, 0, damaged, queue.positions.ready_end
    )
    consumer.credit_messages -= len(items)
    consumer.credit_bytes -= size
    queue.counters.count_delivered(len(items))
    for key, value in damaged:
        lane.set_aside(queue, tx, key, value)
    return items


def scan_ready(
    queue: Queue,
    tx: Transaction,
    now: Now,
    consumer: Consumer,
    count: int,
    items: list[bytes],
    size: int,
    damaged: list[tuple[bytes, bytes]],
    stop: bytes,
) -> tuple[int, bool]:
    """Adds the available messages of the ready lane before the key *stop* to *items*.

    The caller counts credit and deliveries, and sets aside the *damaged* messages.

    Returns:
        The bytes of all records, and whether the next message does not fit in the frame.
    """
    priority = keys.PRIORITY_TOP
    is_alone = False  # whether the only message is sent in pieces
    while len(items) < count and size < consumer.credit_bytes and priority >= 0 and not is_alone:
        size, priority = _scan(
            queue, tx, now, consumer, count, priority, items, size, damaged, stop
        )
        is_alone = consumer.long is not None
    consumer.lacks_room = priority == FULL and not items
    return size, priority == FULL


def _scan(
    queue: Queue,
    tx: Transaction,
    now: Now,
    consumer: Consumer,
    count: int,
    priority: int,
    items: list[bytes],
    size: int,
    damaged: list[tuple[bytes, bytes]],
    stop: bytes,
) -> tuple[int, int]:
    """Adds messages, starting at *priority*.

    Returns:
        The bytes of all records, and the next priority to scan, -1 at the end, or FULL.
    """
    heads, leases, lessee = queue.positions.ready, queue.leases, consumer.lessee
    own, until_ms, numbers = lessee.leases, now.ms + consumer.lease_ms, lessee.numbers
    lease_count, tags, tags_last = numbers.next_count(), NO_TAGS, -1
    maybe_before, index = queue.counters.maybe_before, queue.origins.index_prefix()
    room = consumer.frame_bytes + size + DELIVERY.size * len(items) - sum(map(len, items))
    place, unpack, new, add = keys.unpack_place, _HEADS.unpack_from, tuple.__new__, items.append
    for key, value in tx.scan(queue.key(priority, heads[priority]), stop):
        rank, arrival = place(key)
        if (found := keys.PRIORITY_TOP - rank) != priority and arrival < heads[found]:
            # The next scan skips the leased messages of this priority by a seek.
            return size, found
        priority = found
        heads[found] = arrival + 1
        if arrival in leases:
            continue
        length, more, tail = len(value), 0, b""
        (
            version_and_flags,
            target,
            delivered,
            failed,
            put_us,
            expires,
            due_ms,
            checksum,
            origin,
            correlation,
            group,
            envelope,
            body,
        ) = unpack(value) if length > _LEAST_BYTES else _NO_HEADS
        if (
            version_and_flags != _PLAIN
            or target
            or group
            or expires
            or length != _LEAST_BYTES + correlation + envelope + body + origin
            or crc32(value[_SUMMED_AT:]) != checksum
        ):
            if _is_left(value, consumer, items, room - size):
                heads[found] = arrival  # The unread message is the first of the next frame.
                return size, FULL
            if (opened := _open(queue, tx, now, consumer, items, key, value, damaged)) is None:
                continue
            counts, length, record, trailer, checksum, more, tail, is_plain = opened
            delivered, failed, put_us = counts
            room -= len(tail)
        else:
            record, trailer = value[_RECORD_AT:], value[records.TIMESTAMP_AT - origin :]
            is_plain = not (correlation or due_ms)
            length -= _RECORD_AT
        if items and size + length > room:
            heads[found] = arrival  # The message is the first of the next frame.
            return size, FULL
        if (last := arrival | IN_BLOCK) != tags_last:
            tags, tags_last = numbers.tags(queue.id, arrival), last
        number = tags[arrival & IN_BLOCK] ^ (checksum << COUNT_BITS | lease_count)
        lease = (number, lessee, until_ms, found, arrival, length, key, index + trailer, is_plain)
        # This expression is faster than Lease(*lease).
        leases[arrival] = own[arrival] = new(Lease, lease)
        # Most messages have not been delivered before.
        is_new = not delivered and arrival >= maybe_before
        state = more if is_new else state_of(delivered, arrival, maybe_before) | more
        add(_pack_item(found, arrival, number, delivered, failed, state, put_us) + record + tail)
        size += length
        if len(items) == count or size >= consumer.credit_bytes:
            return size, found
    return size, -1


def _is_left(value: bytes, consumer: Consumer, items: list[bytes], room: int) -> bool:
    """Returns whether the separate record of *value* is too long for the frame."""
    is_long = items and len(value) > 1 and value[entries.FLAGS_AT] & entries.IN_ROWS
    return bool((is_long or consumer.is_short) and entries.separate_bytes(value) > room)


class _Opened(NamedTuple):
    counts: tuple[int, int, int]  # the fields delivered, failed and put time
    length: int  # the size of the record
    record: bytes  # empty if the record is sent in pieces
    trailer: bytes
    checksum: int
    more: int  # further flags for the state in the delivery item
    tail: bytes  # the part of the delivery item after the record
    is_plain: bool  # the value of Lease.is_plain


def _open(
    queue: Queue,
    tx: Transaction,
    now: Now,
    consumer: Consumer,
    items: list[bytes],
    key: bytes,
    value: bytes,
    damaged: list[tuple[bytes, bytes]],
) -> _Opened | None:
    """Returns the fields of a message that is not plain, or None if it is not available.

    A message is not available if it is damaged or expired, or if a restart lost it. Damaged
    messages are added to *damaged*.
    """
    arrival = keys.place(key)[1]
    if (
        queue.references is not None
        and value[entries.VERSION_AND_FLAGS] == _NEW_REFERENCE
        and int.from_bytes(value[entries.SIZE_OF_SHORT], "big") <= consumer.whole_max_bytes
    ):
        held = queue.references.open(tx, arrival)
        if held is not None and value.endswith(held.trailer):
            counts = 0, 0, int.from_bytes(value[entries.PUT_TIME], "big")
            return _Opened(
                counts,
                len(held.record),
                held.record,
                held.trailer,
                held.checksum,
                STATE_TOPIC,
                held.topic,
                held.is_plain,
            )
    sound = entries.open_sound(tx, value, consumer.whole_max_bytes)
    if sound is None:
        damaged.append((key, value))
        return None
    entry, record, trailer, checksum, topic = sound
    if not is_available(queue, entry, arrival, now):
        return None
    more, tail = tail_of(queue, tx, now, entry, arrival, topic)
    counts = entry.delivered, entry.failed, entry.put_us
    length = len(record)
    if isinstance(record, LongRecord) and not items:
        consumer.long, record = record, b""
    return _Opened(counts, length, record, trailer, checksum, more, tail, is_plain=False)


def is_available(queue: Queue, entry: entries.Entry, arrival: int, now: Now) -> bool:
    """Returns whether a message has not expired, and was not lost by a restart."""
    return not (
        0 < entry.expires_ms <= now.ms or (entry.volatile and queue.is_lost(entry, arrival))
    )


def state_of(delivered: int, arrival: int, maybe_before: int) -> int:
    """Returns the flag for an earlier delivery of the message, or 0 for the first delivery."""
    if delivered:
        return STATE_REDELIVERED
    return STATE_MAYBE_REDELIVERED if arrival < maybe_before else 0


def tail_of(
    queue: Queue, tx: Transaction, now: Now, entry: entries.Entry, arrival: int, topic: str = ""
) -> tuple[int, bytes]:
    """Returns the part of a delivery item after the record, preceded by the flags for it."""
    if topic:
        return _tail_of_publication(queue, tx, now, entry, arrival, topic)
    note = notes.raw(tx, queue.id, arrival) if entry.noted else b""
    state, tail = (STATE_NOTED, note) if note else (0, b"")
    if entry.expires_ms:
        state |= STATE_EXPIRES
        tail = REMAINING.pack(max(entry.expires_ms - now.ms, 0)) + tail
    return state, tail


def _tail_of_publication(
    queue: Queue, tx: Transaction, now: Now, entry: entries.Entry, arrival: int, topic: str
) -> tuple[int, bytes]:
    state, tail = tail_of(queue, tx, now, entry, arrival)
    state |= STATE_TOPIC | (STATE_REPUBLISHED if entry.flags & entries.REPUBLISHED else 0)
    name = topic.encode()
    return state, bytes([len(name)]) + name + tail
