"""Moves or copies a message to another queue of the same queue manager, in one turn.

The record does not change. A move also keeps the body rows, so only the entry and its key change.
On the other queue, the message is a new arrival whose counters are zero. The message keeps its UID,
so a queue that already has the message does not receive it twice.
"""

from enum import Enum
from typing import NamedTuple

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue import lane, notes
from qmgrd.core.queue.dedup import UidVerdict
from qmgrd.core.queue.queue import Queue


class Destination(NamedTuple):
    """The destination of a message."""

    queue: Queue
    target: str = ""  # the queue behind the link, if ``queue`` is a transmission queue


class Copied(Enum):
    """The result of a copy."""

    NEW = "new"
    DUPLICATE = "duplicate"  # the message already exists at the destination
    HELD = "held"  # a unit of work will put the message there, or the destination has no room


def transfer(
    context: Context,
    source: Queue,
    key: bytes,
    value: bytes,
    place: Destination,
    *,
    expires_ms: int,
    note: bytes,
    for_good: bool = True,
) -> bool:
    """Moves the message under *key* of *source*. Returns whether *place* accepted the message.

    The caller counts the reason and ends the lease. A group continues at *place* from its position
    at *source*. *for_good* has the same meaning as for :func:`lane.unlink`.
    """
    tx, queue = context.tx, place.queue
    entry = entries.decode(value)
    verdict = _judge(context, place, entry)
    if verdict is UidVerdict.DUPLICATE and _is_remembered(context, place, entry):
        # The message was consumed at the destination. Treating it as a duplicate would lose it.
        verdict = UidVerdict.SLOW if queue.has_room(1, entries.record_bytes(entry)) else None
    if verdict is UidVerdict.DUPLICATE:
        queue.counters.count_duplicate()
        lane.remove(source, tx, key, value, for_good=for_good)
        context.mark_changed(source)
        context.mark_changed(queue)
        return True
    if verdict is None:
        return False
    front, (priority, arrival) = entries.front(tx, entry), keys.place(key)
    _inherit(tx, source, queue, front)
    moved = entry._replace(expires_ms=expires_ms)
    if entry.shared:
        moved = _on_its_own(context, queue, moved, entries.record(tx, entry))
    lane.unlink(source, tx, key, value, for_good=for_good)
    if entry.shared:
        lane.release_record(source, tx, entry, arrival)
    context.mark_changed(source)
    _arrive(context, place, moved, front, priority, verdict, note)
    return True


def _on_its_own(
    context: Context, queue: Queue, entry: entries.Entry, record: bytes
) -> entries.Entry:
    """Returns *entry* for *queue*, with a separate copy of *record*."""
    flags, rest = entry.flags & ~(entries.SHARED | entries.IN_ROWS), record
    if entries.rows_of(len(record)) or entry.in_rows:
        flags |= entries.IN_ROWS
        rest = entries.write_rows(
            context.tx, queue.shared.ids.next(), record, entries.uid_trailer(entry)
        )
    return entry._replace(flags=flags & ~entries.REPUBLISHED, rest=rest)


def _inherit(tx: Transaction, source: Queue, queue: Queue, front: bytes) -> None:
    """Continues the group of a message on *queue* from its position at *source*."""
    group = index.selected_by(front)[1]
    if group is None or source.is_transmission or queue.is_transmission:
        return
    row = source.groups.row(tx, group[0])
    # Otherwise, the message has no group at *source*.
    if row is not None and not row.has_left(group[1]):
        queue.groups.inherit(tx, group[0], row)


def copy(
    context: Context,
    source: Queue,
    key: bytes,
    value: bytes,
    place: Destination,
    *,
    expires_ms: int,
    note: bytes,
) -> Copied:
    """Copies the message under *key* of *source* to *place*.

    A group continues at *place* from its position at *source*.

    Raises:
        RequestError: STORE_FULL.
    """
    tx, queue = context.tx, place.queue
    entry = entries.decode(value)
    verdict = _judge(context, place, entry)
    if verdict is None:
        return Copied.HELD
    if verdict is UidVerdict.DUPLICATE:
        return Copied.DUPLICATE
    record = entries.record(tx, entry)
    context.reserve([record])
    _inherit(tx, source, queue, record)
    copied = _on_its_own(context, queue, entry._replace(expires_ms=expires_ms), record)
    _arrive(context, place, copied, record, keys.place(key)[0], verdict, note)
    return Copied.NEW


def _judge(context: Context, place: Destination, entry: entries.Entry) -> UidVerdict | None:
    """Returns whether the message exists at *place*, or None if it cannot be put there now."""
    queue, bound_for = place.queue, place.target.encode()
    trailer = entries.uid_trailer(entry)
    if queue.is_uncommitted(trailer, bound_for):
        return None
    verdict = queue.origins.check_uid(context.tx, trailer, bound_for)
    if verdict is UidVerdict.DUPLICATE or queue.has_room(1, entries.record_bytes(entry)):
        return verdict
    return None


def _is_remembered(context: Context, place: Destination, entry: entries.Entry) -> bool:
    """Returns whether *place* only remembers the UID of the message after its consumption."""
    trailer, bound_for = entries.uid_trailer(entry), place.target.encode()
    return place.queue.origins.place(context.tx, trailer, bound_for) is None


def _arrive(
    context: Context,
    place: Destination,
    entry: entries.Entry,
    front: bytes,
    priority: int,
    verdict: UidVerdict,
    note: bytes,
) -> None:
    """Stores *entry* as a new arrival at *place*."""
    tx, queue, trailer = context.tx, place.queue, entries.uid_trailer(entry)
    arrival = queue.next_arrival()
    flags = entry.flags & ~entries.NOTED | (entries.NOTED if note else 0)
    arrived = entry._replace(flags=flags, delivered=0, failed=0, due_ms=0, target=place.target)
    lane.add(queue, tx, arrived, front, trailer, priority, arrival)
    queue.record_arrival(history.PUT, priority, arrival, arrived, place.target)
    if note:
        notes.write(tx, queue.id, arrival, note)
    queue.origins.raise_to(
        tx, trailer[records.UID_ORIGIN], int.from_bytes(trailer[records.UID_TIMESTAMP], "big")
    )
    queue.counters.count_put(is_fast=verdict is UidVerdict.FAST)
    context.mark_changed(queue)
