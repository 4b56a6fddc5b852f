"""Leases the messages that a consumer selects, either through an index or by a scan.

A consumer with a selector has separate positions. Messages before these positions do not match, or
are leased or removed. If a message returns or is committed before a position, the consumer examines
it separately. Therefore, each selecting consumer examines each message once, and again after each
return. Each turn examines a slice of the messages.

Consumers that seek the same index key share a position as long as one of them waits. All messages
before this position are leased or removed. A message that arrives before the position lowers it. A
scan skips leased messages without reading their entries.
"""

from collections.abc import Iterator
from typing import NamedTuple

from qmgr_protocol.messages import DELIVERY
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.queue import lane, order
from qmgrd.core.queue.browse import indexed
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.lease import Consumer, Lease
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import is_selected, weight
from qmgrd.core.queue.take import is_available, state_of, tail_of

# Maximum number of messages examined per call; a costly selector lowers the limit.
LOOKED_AT_MAX = 500


class SeekResult(NamedTuple):
    """The result of one search for messages."""

    items: list[bytes]  # delivery items
    looked_at: int  # the number of examined rows; with a costly selector, a row counts as several
    at_end: bool  # whether no further message is available now


def seek(queue: Queue, tx: Transaction, now: Now, consumer: Consumer, count: int) -> SeekResult:
    """Leases up to *count* messages that *consumer* selects."""
    count = min(count, consumer.credit_messages, queue.bounds.leases_max - len(queue.leases))
    items: list[bytes] = []
    damaged: list[tuple[bytes, bytes]] = []
    size = frame_bytes = looked_at = 0
    at_end = True
    for key, value, behind in candidates(queue, tx, consumer):
        if len(items) >= count or size >= consumer.credit_bytes or looked_at >= LOOKED_AT_MAX:
            at_end = False
            break
        looked_at += weight(consumer.selector, tx, value)
        arrival = keys.place(key)[1]
        if arrival not in queue.leases:
            if items or consumer.is_short:
                long_bytes = frame_bytes + entries.separate_bytes(value)
                if long_bytes > consumer.frame_bytes:
                    at_end, consumer.lacks_room = False, not items
                    break
            sound = _wanted(queue, tx, now, consumer, key, value, damaged)
            if sound is not None:
                more, tail = tail_of(queue, tx, now, sound.entry, arrival, sound.topic)
                frame_bytes += DELIVERY.size + len(sound.record) + len(tail)
                if frame_bytes > consumer.frame_bytes and (items or consumer.is_short):
                    at_end = False
                    consumer.lacks_room = not items
                    break
                items.append(lease(queue, now, consumer, key, sound, more) + tail)
                _note_single_lease(queue, key, sound.record)
                size += len(sound.record)
        move_past(queue, consumer, key, behind)
    consumer.credit_messages -= len(items)
    consumer.credit_bytes -= size
    queue.counters.count_delivered(len(items))
    for key, value in dict(damaged).items():  # The same message may have been examined twice.
        lane.set_aside(queue, tx, key, value)
    return SeekResult(items, looked_at + 1, at_end)


def move_past(queue: Queue, consumer: Consumer, key: bytes, behind: bytes) -> None:
    """Moves the position of *consumer* past the message under *key*."""
    priority, arrival = keys.place(key)
    if consumer.seeks:
        queue.waiting.reached[consumer.prefix] = behind
        return
    place = keys.PRIORITY_TOP - priority, arrival
    if consumer.has_own_position and place in consumer.again:
        # The position does not move, because messages between this one and the position may be
        # unexamined.
        del consumer.again[place]
        return
    if consumer.prefix:
        consumer.reached = behind or consumer.reached
        return
    heads = consumer.heads
    if not consumer.has_own_position:
        is_grouped = key[keys.POSITION_AT] == keys.LANE_GROUPED
        heads = queue.positions.grouped if is_grouped else queue.positions.ready
    heads[priority] = max(heads[priority], arrival + 1)


def _wanted(
    queue: Queue,
    tx: Transaction,
    now: Now,
    consumer: Consumer,
    key: bytes,
    value: bytes,
    damaged: list[tuple[bytes, bytes]],
) -> entries.Sound | None:
    """Returns the message under *key* if *consumer* selects it and it is available, else None."""
    sound = entries.open_sound(tx, value, consumer.whole_max_bytes)
    if sound is None:
        damaged.append((key, value))
        return None
    if not is_available(queue, sound.entry, keys.place(key)[1], now):
        return None
    group = index.selected_by(sound.record)[1]
    if key[keys.POSITION_AT] == keys.LANE_GROUPED and group is not None:
        if _is_stopped(queue, tx, group[0]):
            priority, arrival = keys.place(key)
            queue.positions.stopped[priority] = min(queue.positions.stopped[priority], arrival)
            return None
        if consumer.all_available and not queue.groups.is_complete(tx, group[0]):
            return None
    return sound if consumer.seeks or fits(queue, tx, consumer, key, sound) else None


def _is_stopped(queue: Queue, tx: Transaction, group_id: bytes) -> bool:
    """Returns whether the delivery of a group is stopped."""
    row = queue.groups.row(tx, group_id)
    return row is not None and row.is_stopped


def fits(
    queue: Queue, tx: Transaction, consumer: Consumer, key: bytes, sound: entries.Sound
) -> bool:
    """Returns whether *consumer* selects the message under *key*."""
    prefix = consumer.prefix
    if not prefix:
        return is_selected(consumer.selector, queue, tx, key, sound.entry, sound.record)
    if prefix.startswith(keys.SPACE_UID):
        return queue.origins.index_key(sound.trailer) == prefix
    if prefix.startswith(keys.SPACE_GROUP):
        group = index.selected_by(sound.record)[1]
        return group is not None and keys.group(queue.id, *group).startswith(prefix)
    return index.correlation_key(queue.id, sound.record, *keys.place(key)).startswith(prefix)


def lease(
    queue: Queue, now: Now, consumer: Consumer, key: bytes, sound: entries.Sound, more: int
) -> bytes:
    """Leases a message. Returns its delivery item without the part after the record.

    Args:
        queue: The queue of the message.
        now: The time of the turn.
        consumer: The consumer that receives the message.
        key: The key of the entry.
        sound: The parts of the message.
        more: Further flags for the state in the delivery item.
    """
    entry, record, trailer, checksum, _ = sound
    priority, arrival = keys.place(key)
    number = consumer.lessee.numbers.next(queue.id, arrival, checksum)
    leased = Lease(
        number,
        consumer.lessee,
        now.ms + consumer.lease_ms,
        priority,
        arrival,
        len(record),
        key,
        queue.origins.index_key(trailer),
        is_plain=False,
    )
    queue.leases[arrival] = consumer.lessee.leases[arrival] = leased
    state = state_of(entry.delivered, arrival, queue.counters.maybe_before) | more
    head = DELIVERY.pack(
        priority, arrival, number, entry.delivered, entry.failed, state, entry.put_us
    )
    if isinstance(record, LongRecord):
        consumer.long, record = record, b""  # It follows in pieces.
    return head + record


def _note_single_lease(queue: Queue, key: bytes, record: bytes) -> None:
    """Records that a group member was leased by itself in physical order."""
    group = index.selected_by(record)[1]
    if key[keys.POSITION_AT] == keys.LANE_GROUPED and group is not None:
        queue.groups.held_groups.lease_singly(Member(*group), keys.place(key)[1])


def candidates(
    queue: Queue, tx: Transaction, consumer: Consumer
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yields the messages that *consumer* may select, in the order of delivery.

    Yields:
        The key of the message, its entry, and the index key from which the scan continues. For a
        leased message in an index, the entry is empty.
    """
    if consumer.prefix.startswith(keys.SPACE_UID):
        for key, value in indexed(queue, tx, consumer.prefix):
            yield key, value, consumer.prefix
    elif consumer.seeks:
        yield from _indexed(
            queue, tx, consumer.prefix, queue.waiting.reached.get(consumer.prefix, b"")
        )
    elif consumer.prefix:
        for rank in range(keys.PRIORITY_TOP + 1):
            for key, value in _again(queue, tx, consumer, rank):
                yield key, value, b""
        yield from _indexed(queue, tx, consumer.prefix, consumer.reached)
    else:
        choosy = consumer.has_own_position
        for key, value in _selectable(queue, tx, consumer) if choosy else _everything(queue, tx):
            yield key, value, b""


def _indexed(
    queue: Queue, tx: Transaction, prefix: bytes, reached: bytes
) -> Iterator[tuple[bytes, bytes, bytes]]:
    is_group = prefix.startswith(keys.SPACE_GROUP)
    if is_group:
        rows = group_index.under(tx, prefix, reached)
    else:
        rows = tx.scan(max(prefix, reached), keys.after(prefix))
    for found, position in rows:
        if is_group and position[keys.LANE_AT] != keys.LANE_GROUPED:
            continue
        place = position[keys.IN_LANE] if is_group else found[-keys.PLACE.size :]
        rank, arrival = keys.PLACE.unpack(place)
        if arrival in queue.leases:
            yield queue.leases[arrival].key, b"", found + b"\0"
        elif (row := queue.find(tx, keys.PRIORITY_TOP - rank, arrival)) is not None:
            yield *row, found + b"\0"


def _everything(queue: Queue, tx: Transaction) -> Iterator[tuple[bytes, bytes]]:
    """Yields the messages of both lanes, starting at the positions of the queue."""
    for priority in range(keys.PRIORITY_TOP, -1, -1):
        yield from order.of_priority(
            queue, tx, priority, queue.positions.ready[priority], queue.positions.grouped[priority]
        )


def _selectable(queue: Queue, tx: Transaction, consumer: Consumer) -> Iterator[tuple[bytes, bytes]]:
    """Yields the messages to examine again, then those from the positions of *consumer* on."""
    for priority in range(keys.PRIORITY_TOP, -1, -1):
        yield from _again(queue, tx, consumer, keys.PRIORITY_TOP - priority)
        head = consumer.heads[priority]
        yield from order.of_priority(queue, tx, priority, head, head)


def _again(
    queue: Queue, tx: Transaction, consumer: Consumer, rank: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yields messages to examine again with the priority 9 - *rank*."""
    for arrival in sorted(arrival for rank_, arrival in consumer.again if rank_ == rank):
        row = queue.find(tx, keys.PRIORITY_TOP - rank, arrival)
        if row is None:
            del consumer.again[rank, arrival]  # The message was consumed in the meantime.
        else:
            yield row
