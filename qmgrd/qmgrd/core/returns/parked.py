"""Parks publications that a subscriber returned too often, until they are republished to it.

    subscription A ── parked lane ── publication 7 ─┐
    subscription B ── parked lane ── publication 7 ─┴──▶ one stored publication (publications.py)
                                                     ▲
    index of parked ones:     (7, A) (7, B) ─────────┘   the republish queue, with a list for each

The republish queue is that index. It contains a publication once while any subscriber is on its
list, and each subscriber once per publication. Parking or republishing moves one entry, in one
transaction with the index. Therefore, a subscriber either has a copy or is on the list. (US
9,654,433; using the index as the list, and sharing the record between copies, are our design.)
"""

from collections.abc import Iterator
from heapq import merge
from typing import Any, NamedTuple

from qmgr_protocol import history
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue import lane, notes
from qmgrd.core.queue.queue import Queue

PLACE = "the republish queue"
# Fields of the note that are kept when a publication is republished.
_KEPT = ("attempts", "retries", "left_ms")


def park(
    context: Context, queue: Queue, key: bytes, value: bytes, entry: entries.Entry, note: notes.Note
) -> None:
    """Parks the message under *key*, and adds the subscription to the list of its publication."""
    tx, (priority, arrival) = context.tx, keys.place(key)
    lane.unlink(queue, tx, key, value)
    flags = (entry.flags | entries.NOTED) & ~(entries.VOLATILE | entries.REPUBLISHED)
    parked = entry._replace(
        flags=flags,
        due_ms=entry.expires_ms,
        failed=note.get("failed", entry.failed),
        delivered=note.get("delivered", entry.delivered),
    )
    tx.put(keys.message(queue.id, keys.LANE_PARKED, priority, arrival), entries.encode(parked))
    if parked.due_ms:
        queue.shared.schedule.add(tx, parked.due_ms, queue.id, keys.LANE_PARKED, priority, arrival)
    note |= {"turn": context.turn_number}
    notes.write(tx, queue.id, arrival, notes.encode(note))
    tx.put(keys.parked(arrival, queue.id), bytes([keys.PRIORITY_TOP - priority]))
    queue.counters.count_parked()
    # The rows of the entry, its note, the index and the schedule are counted.
    context.count_read(3 + bool(parked.due_ms), 0)
    queue.record_history(history.PARKED, key, parked, code=note.get("code", 0))
    context.mark_changed(queue)


def send(context: Context, queue: Queue, key: bytes, value: bytes) -> bool:
    """Republishes the parked message under *key*. Returns False if the subscription has no room.

    The message returns to its original position. It is marked as republished, and its counters
    start at zero.
    """
    tx, entry, (priority, arrival) = context.tx, entries.decode(value), keys.place(key)
    if not queue.has_room(1, entries.record_bytes(entry)):
        return False
    before = notes.read(tx, queue.id, arrival)
    note = {name: before[name] for name in _KEPT if name in before}
    note["retries"] = notes.retries(before) + 1
    front, trailer = entries.front(tx, entry), entries.uid_trailer(entry)
    lane.unlink(queue, tx, key, value)
    flags = (entry.flags | entries.REPUBLISHED | entries.NOTED) & ~entries.AWAITED
    again = entry._replace(flags=flags, delivered=0, failed=0, due_ms=0)
    lane.add(queue, tx, again, front, trailer, priority, arrival)
    notes.write(tx, queue.id, arrival, notes.encode(note))
    context.count_read(1, 0)
    queue.record_history(history.REPUBLISHED, key, again)
    context.mark_changed(queue)
    return True


def await_(context: Context, key: bytes, value: bytes) -> None:
    """Marks the parked message under *key* for republishing when its subscriber returns."""
    entry = entries.decode(value)
    if not entry.flags & entries.AWAITED:
        context.tx.put(key, entries.encode(entry._replace(flags=entry.flags | entries.AWAITED)))
        context.wrote = True


def drop(context: Context, queue: Queue, key: bytes, value: bytes) -> None:
    """Removes the parked message under *key*."""
    entry = lane.remove(queue, context.tx, key, value)
    queue.record_history(history.REMOVED, key, entry)
    queue.counters.count_purged()
    context.mark_changed(queue)


class Parked(NamedTuple):
    """A row of the index: the publication, the subscription, and the key of its entry there."""

    row: bytes
    arrival: int
    queue_id: int
    key: bytes


def index(tx: Transaction, start: bytes, stop: bytes) -> Iterator[Parked]:
    """Yields the parked messages from the row *start* of the index up to *stop*."""
    for row, rank in tx.scan(start, stop):
        _, arrival, queue_id = keys.PARKED.unpack(row)
        priority = keys.PRIORITY_TOP - rank[0] if rank and rank[0] <= keys.PRIORITY_TOP else 0
        key = keys.message(queue_id, keys.LANE_PARKED, priority, arrival)
        yield Parked(row, arrival, queue_id, key)


def of_subscription(tx: Transaction, queue_id: int, arrival: int) -> Iterator[Parked]:
    """Yields the parked messages of a subscription in order, starting at the number *arrival*."""
    lanes = [
        tx.scan(
            keys.message(queue_id, keys.LANE_PARKED, priority, arrival),
            keys.after(keys.entry_prefix(queue_id, priority, keys.LANE_PARKED)),
        )
        for priority in range(keys.PRIORITY_TOP + 1)
    ]
    for key, _ in merge(*lanes, key=lambda row: keys.place(row[0])[1]):
        arrival = keys.place(key)[1]
        yield Parked(keys.parked(arrival, queue_id), arrival, queue_id, key)


def facts_of(note: notes.Note, topic: str, subscription: str) -> dict[str, Any]:
    """Returns the selectable properties of a parked message, in addition to its usual ones."""
    return notes.facts_of(note) | {"topic": topic, "subscription": subscription}
