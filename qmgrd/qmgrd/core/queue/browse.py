"""Reads a queue without leases, one page at a time.

A cursor contains a place, which is a priority and an arrival number. Therefore, a cursor remains
valid when messages are put or consumed between pages, and the queue does not store state for it.
A browse by priority misses new messages with a higher priority than its cursor. A browse in order
of arrival misses no messages, because no message arrives at or below ``Queue.arrived``.
"""

from collections.abc import Iterator
from typing import NamedTuple

from qmgr_protocol.messages import ARRIVAL, DELIVERY, STATE_LEASED
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys, long_record
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.queue import order
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import is_selected, weight
from qmgrd.core.queue.take import is_available, state_of, tail_of
from qmgrd.core.selector.selector import Selector

# Limit of examined messages that do not match, per page. A costly selector lowers the limit.
LOOKED_AT_MAX = 1_000
FRONT_BYTES = 252_000  # the bytes of a cut record before its UID
DELAY_BYTES = 13  # maximum bytes of the index and the time of a delayed message in a frame

Place = tuple[int, int]  # a priority and an arrival number
Cursor = list[int]  # a place and further fields from which a browse continues
# The key and entry of a message, and the cursor after it. An empty entry means that the browse
# skipped messages.
Found = tuple[bytes, bytes, Cursor]


class BrowsePage(NamedTuple):
    """One page of a browse."""

    items: list[bytes]  # delivery items without leases
    next: Cursor | None  # the cursor of the next page; None at the end
    looked_at: int  # the number of examined rows; with a costly selector, a row counts as several
    # The index of each delayed item, and the milliseconds until it is available.
    delays: list[list[int]]
    # The index of each item that is cut, and the number of bytes of its record before the UID.
    cut: list[list[int]]


def browse(
    queue: Queue,
    tx: Transaction,
    now: Now,
    found: Iterator[Found],
    count: int,
    bytes_max: int,
    selector: Selector | None = None,
    whole_max_bytes: int = entries.WHOLE,
    *,
    shows_cut: bool = False,
) -> BrowsePage:
    """Returns a page of up to *count* of the messages *found*, as delivery items.

    The records of a page have at most *bytes_max* bytes in total, unless the first record is
    longer. All items of a page fit in a frame. A record above *whole_max_bytes* is cut, or left out
    unless *shows_cut* is set.
    """
    items: list[bytes] = []
    delays: list[list[int]] = []
    cut: list[list[int]] = []
    size, frame_bytes, looked_at = 0, 0, 0
    cursor: Cursor | None = None
    for key, value, behind_it in found:
        if looked_at - len(items) >= LOOKED_AT_MAX:
            return BrowsePage(items, cursor, looked_at, delays, cut)
        if not value:
            looked_at += 1
            cursor = behind_it
            continue
        priority, arrival = keys.place(key)
        entry = entries.decode(value)
        looked_at += weight(selector, tx, value)
        if not is_available(queue, entry, arrival, now):
            cursor = behind_it
            continue
        if items and frame_bytes + entries.separate_bytes(value) > DELIVER_MAX_BYTES:
            # The record does not fit in the frame, so it is not read.
            return BrowsePage(items, cursor, looked_at, delays, cut)
        held = entries.publication(tx, entry) if entry.shared else entry
        record = entries.outlined(tx, held, whole_max_bytes)
        is_hidden = isinstance(record, LongRecord) and not shows_cut
        if is_hidden or not is_selected(selector, queue, tx, key, entry, record):
            cursor = behind_it
            continue
        record, front_bytes = _shown(tx, entry, record)
        size += len(record)
        item = _item(queue, tx, now, entry, record, priority, arrival)
        is_delayed = key[keys.POSITION_AT] == keys.LANE_DELAYED
        frame_bytes += len(item) + (DELAY_BYTES if is_delayed else 0)
        is_full = size > bytes_max or frame_bytes > DELIVER_MAX_BYTES
        if len(items) == count or (items and is_full):
            return BrowsePage(items, cursor, looked_at, delays, cut)
        if is_delayed:
            delays.append([len(items), max(entry.due_ms - now.ms, 0)])
        cut += [[len(items), front_bytes]] if front_bytes else []
        items.append(item)
        cursor = behind_it
    return BrowsePage(items, None, looked_at, delays, cut)


def by_arrival(queue: Queue, tx: Transaction, after: Place | None) -> Iterator[Found]:
    """Yields keys and entries in order of arrival, after the place *after*."""
    for key, value in order.by_arrival(queue, tx, 0 if after is None else after[1] + 1):
        yield key, value, [*keys.place(key), 0, ARRIVAL]


def placed(found: Iterator[tuple[bytes, bytes]]) -> Iterator[Found]:
    """Yields keys and entries, each with its place as the cursor."""
    for key, value in found:
        yield key, value, list(keys.place(key))


def _shown(tx: Transaction, entry: entries.Entry, record: bytes) -> tuple[bytes, int]:
    """Returns what an item shows of *record*.

    Also returns the number of bytes before the UID if the record is cut, and otherwise 0.
    """
    if not isinstance(record, LongRecord):
        return record, 0
    front = long_record.read(tx, record.body.id, 0, FRONT_BYTES)
    return front + entries.uid_trailer(entry), len(front)


def _item(
    queue: Queue,
    tx: Transaction,
    now: Now,
    entry: entries.Entry,
    record: bytes,
    priority: int,
    arrival: int,
) -> bytes:
    state = state_of(entry.delivered, arrival, queue.counters.maybe_before)
    if arrival in queue.leases:
        state |= STATE_LEASED
    topic = entries.publication(tx, entry).target if entry.shared else ""
    more, tail = tail_of(queue, tx, now, entry, arrival, topic)
    # The item has no lease number, so a browsing client cannot settle messages.
    head = DELIVERY.pack(
        priority, arrival, 0, entry.delivered, entry.failed, state | more, entry.put_us
    )
    return head + record + tail


def behind(
    queue: Queue, tx: Transaction, lane: int, after: Place | None
) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and entries of a lane after the place *after*, in the order of delivery.

    For the ready lane, this function also yields the members of groups.
    """
    priority, arrival = (keys.PRIORITY_TOP, -1) if after is None else after
    priority = min(priority, keys.PRIORITY_TOP)
    if lane == keys.LANE_READY and not queue.is_transmission:
        return order.behind(queue, tx, priority, arrival + 1)
    start = keys.message(queue.id, lane, priority, arrival + 1)
    return tx.scan(start, keys.after(keys.lane(queue.id, lane)))


def indexed(
    queue: Queue, tx: Transaction, prefix: bytes, after: Place | None = None, number: int = 0
) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and entries of the messages under *prefix* of an index.

    Args:
        queue: The queue of the messages.
        tx: The transaction of the turn.
        prefix: The prefix of the index keys.
        after: The place after which the scan starts.
        number: The group number of the message at *after*, because groups are in the order of their
            numbers.
    """
    for place in places(queue, tx, prefix, after, number):
        rank, arrival = keys.PLACE.unpack(place)
        row = queue.find(tx, keys.PRIORITY_TOP - rank, arrival)
        if row is not None:
            yield row


def places(
    queue: Queue, tx: Transaction, prefix: bytes, after: Place | None = None, number: int = 0
) -> Iterator[bytes]:
    """Yields 9 - priority and arrival of the messages under *prefix* of an index."""
    tail = b""
    if after is not None:
        tail = keys.PLACE.pack(keys.PRIORITY_TOP - min(after[0], keys.PRIORITY_TOP), after[1])
    if prefix.startswith(keys.SPACE_GROUP):
        start = prefix if after is None else prefix + number.to_bytes(4, "big") + b"\0"
        for _, position in group_index.under(tx, prefix, start):
            if position[keys.LANE_AT] == keys.LANE_GROUPED:
                yield position[keys.IN_LANE]
    elif prefix.startswith(keys.SPACE_UID):
        position = queue.origins.place(tx, prefix[keys.POSITION_AT :]) or b""
        if (
            position
            and position[keys.LANE_AT] in keys.LANES_READY
            and position[keys.IN_LANE] > tail
        ):
            yield position[keys.IN_LANE]
    else:
        for key, _ in tx.scan(prefix + tail + b"\0" if tail else prefix, keys.after(prefix)):
            yield key[-keys.PLACE.size :]


def number_at(queue: Queue, tx: Transaction, place: Place) -> int:
    """Returns the group number of the message at *place*, or 0 if it has no group."""
    row = queue.find(tx, *place)
    front = b"" if row is None else entries.front(tx, entries.decode(row[1]))
    group = index.selected_by(front)[1]
    return 0 if group is None else group[1]
