"""Taking what a consumer selects off a queue: through an index, or by looking at each message once.

A selector has positions of its own: before them is what it does not want, and what others hold or
have taken. What comes to lie there, as it came back or was committed late, is looked at by itself.
So each message is looked at once for each consumer that selects, and once more for each time that
it comes back; a slice of them a turn.
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
    size = looked_at = 0
    at_end = True
    for key, value in _candidates(queue, tx, consumer):
        if len(items) >= count or size >= consumer.credit_bytes or looked_at >= LOOKED_AT_MAX:
            at_end = False
            break
        looked_at += weight(consumer.selector, tx, value)
        priority, arrival = keys.place(key)
        if arrival not in queue.leases:
            sound = _wanted(queue, tx, now, consumer, key, value, damaged)
            if sound is not None:
                more, tail = tail_of(queue, tx, now, sound.entry, arrival)
                if items and size + len(sound.record) > DELIVER_MAX_BYTES:
                    at_end = False
                    break
                items.append(_lease(queue, now, consumer, key, sound, more) + tail)
                size += len(sound.record)
        if not consumer.prefix:
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
) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and entries of what *consumer* may want, in the order of delivery."""
    if consumer.prefix:
        yield from indexed(queue, tx, consumer.prefix)
        return
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
