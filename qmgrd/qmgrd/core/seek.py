"""Taking what a consumer selects off a queue: through an index, or by looking at each message once.

A selector has positions of its own: before them is what it does not want, and what others hold or
have taken. What comes to lie there, as it came back or was committed late, is looked at by itself.
So each message is looked at once for each consumer that selects, and once more for each time that
it comes back; a slice of them a turn.

Those who seek the same in an index want the same, so they share a position while any of them is
there: before it all is leased or gone. What comes to lie there lowers it. To step over what is
leased takes no look at its entry.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from qmgr_protocol.messages import DELIVERY
from qmgrd.core import entry as entries
from qmgrd.core import keys, lane
from qmgrd.core.browse import indexed
from qmgrd.core.ids import COUNT_BITS, MARK_SHIFT
from qmgrd.core.kv import Now, Transaction
from qmgrd.core.lease import Consumer, Lease
from qmgrd.core.selection import is_selected, weight
from qmgrd.core.take import DELIVER_MAX_BYTES, is_there, state_of, tail_of

if TYPE_CHECKING:
    from qmgrd.core.queue import Queue

LOOKED_AT_MAX = 500  # messages in one go; fewer of weight


class Found(NamedTuple):
    """What there was for who selects."""

    items: list[bytes]  # of a delivery
    looked_at: int  # in rows: what weighs more counts more
    at_end: bool  # nothing more can be had for now


def seek(queue: "Queue", tx: Transaction, now: Now, consumer: Consumer, count: int) -> Found:
    """Lease up to *count* of what *consumer* selects to it."""
    count = min(count, consumer.credit_messages, queue.bounds.leases_max - len(queue.leases))
    items: list[bytes] = []
    damaged: list[tuple[bytes, bytes]] = []
    size = frame_bytes = looked_at = 0
    at_end = True
    for key, value, behind in _candidates(queue, tx, consumer):
        if len(items) >= count or size >= consumer.credit_bytes or looked_at >= LOOKED_AT_MAX:
            at_end = False
            break
        looked_at += weight(consumer.selector, tx, value)
        priority, arrival = keys.place(key)
        if arrival not in queue.leases:
            sound = _wanted(queue, tx, now, consumer, key, value, damaged)
            if sound is not None:
                more, tail = tail_of(queue, tx, now, sound.entry, arrival)
                frame_bytes += DELIVERY.size + len(sound.record) + len(tail)
                if items and frame_bytes > DELIVER_MAX_BYTES:
                    at_end = False
                    break
                items.append(_lease(queue, now, consumer, key, sound, more) + tail)
                size += len(sound.record)
        if consumer.prefix:
            queue.reached[consumer.prefix] = behind
        else:
            consumer.heads[priority] = max(consumer.heads[priority], arrival + 1)
            consumer.again.pop((keys.PRIORITY_TOP - priority, arrival), None)
    consumer.credit_messages -= len(items)
    consumer.credit_bytes -= size
    queue.counters.delivered += len(items)
    for key, value in damaged:
        lane.set_aside(queue, tx, key, value)
    return Found(items, looked_at, at_end)


def _wanted(
    queue: "Queue", tx: Transaction, now: Now, consumer: Consumer, key: bytes, value: bytes,
    damaged: list[tuple[bytes, bytes]],
) -> entries.Sound | None:  # fmt: skip
    """Return the message under *key* if it can be had, and is selected."""
    sound = entries.open_sound(tx, value)
    if sound is None:
        damaged.append((key, value))
        return None
    if not is_there(queue, sound.entry, keys.place(key)[1], now):
        return None
    wanted = is_selected(consumer.selector, queue, tx, key, sound.entry, sound.record)
    return sound if wanted else None


def _lease(
    queue: "Queue", now: Now, consumer: Consumer, key: bytes, sound: entries.Sound, more: int
) -> bytes:
    """Lease a message; return it as a delivery item, but for what follows the record."""
    entry, record, trailer, checksum = sound
    priority, arrival = keys.place(key)
    number = checksum >> MARK_SHIFT << COUNT_BITS | queue.ids.leases(1)
    lease = Lease(
        number, consumer.lessee, now.ms + consumer.lease_ms, priority, arrival, len(record), key,
        queue.origins.index_key(trailer), is_plain=False,
    )  # fmt: skip
    queue.leases[arrival] = consumer.lessee.leases[arrival] = lease
    state = state_of(entry.delivered, arrival, queue.counters.maybe_before) | more
    head = DELIVERY.pack(
        priority, arrival, number, entry.delivered, entry.failed, state, entry.put_us
    )
    return head + record


def _candidates(
    queue: "Queue", tx: Transaction, consumer: Consumer
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield keys and entries of what *consumer* may want, in the order of delivery.

    And what follows them in the index that it seeks by. Of what is leased there the entry is empty.
    """
    if consumer.prefix.startswith(keys.SPACE_UID):
        for key, value in indexed(queue, tx, consumer.prefix):
            yield key, value, consumer.prefix
    elif consumer.prefix:
        yield from _indexed(queue, tx, consumer.prefix)
    else:
        for key, value in _selectable(queue, tx, consumer):
            yield key, value, b""


def _indexed(
    queue: "Queue", tx: Transaction, prefix: bytes
) -> Iterator[tuple[bytes, bytes, bytes]]:
    for found, _ in tx.scan(queue.reached.get(prefix, prefix), keys.after(prefix)):
        rank, arrival = keys.PLACE.unpack(found[-keys.PLACE.size :])
        key = queue.key(keys.PRIORITY_TOP - rank, arrival)
        value = b"" if arrival in queue.leases else tx.get(key)
        if value is not None:
            yield key, value, found + b"\0"


def _selectable(
    queue: "Queue", tx: Transaction, consumer: Consumer
) -> Iterator[tuple[bytes, bytes]]:
    """Yield what comes anew to who has a selector, and what is behind its positions."""
    for priority in range(keys.PRIORITY_TOP, -1, -1):
        prefix, rank = queue.prefixes[priority], keys.PRIORITY_TOP - priority
        for place in sorted(x for x in consumer.again if x[0] == rank):
            key = queue.key(priority, place[1])
            value = tx.get(key)
            if value is None:
                del consumer.again[place]  # Consumed since.
            else:
                yield key, value
        start = prefix + consumer.heads[priority].to_bytes(8, "big")
        yield from tx.scan(start, keys.after(prefix))
