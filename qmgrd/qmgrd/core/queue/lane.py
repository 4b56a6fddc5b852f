"""Stores and removes a message in a lane of its queue, together with its index rows.

    lane ready       available and leased messages
    lane grouped     available and leased members of groups
    lane delayed     messages whose delay has not ended
    lane parked      messages that a subscriber returned too often (parked.py)
    lane damaged     messages that failed their checksum, kept for forensics

This module also removes damaged messages. Therefore, it never trusts the content of an entry, and
never changes rows of other messages.
"""

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.queue import Queue

# The number of rows of a plain message: the entry, and its row in the UID index if it has one.
ROWS_OF_A_PUT = 2
# Number of body rows above which they are deleted in slices, so that no turn takes long.
ROWS_AT_ONCE = 300


def add(
    queue: Queue,
    tx: Transaction,
    entry: entries.Entry,
    front: bytes,
    trailer: bytes,
    priority: int,
    arrival: int,
) -> None:
    """Stores *entry* together with its index rows.

    A transmission queue sends a delayed message immediately, because the ids of a link must not
    have gaps. The peer then waits for the rest of the delay.

    Args:
        queue: The queue that receives the message.
        tx: The transaction of the turn.
        entry: The entry. Its ``due_ms`` is the end of the delay, or 0 without a delay.
        front: The first bytes of the record.
        trailer: The encoded UID.
        priority: The priority of the message.
        arrival: The arrival number of the message.
    """
    ready_ms, expires_ms, is_sent = entry.due_ms, entry.expires_ms, queue.is_transmission
    lane, due_ms = keys.LANE_READY, expires_ms
    if ready_ms:
        due_ms = min(ready_ms, expires_ms or ready_ms)
        entry = entry._replace(flags=entry.flags | (entries.DELAYED if is_sent else 0))
    member = None if is_sent else _member(queue, tx, front)
    if ready_ms and not is_sent:
        lane = keys.LANE_DELAYED
    else:
        lane = keys.LANE_READY if member is None else keys.LANE_GROUPED
        queue.lower_position(priority, arrival, lane)
    size = entries.record_bytes(entry)
    queue.counters.enter_lane(lane, size, arrival, is_volatile=entry.volatile)
    rank = keys.PRIORITY_TOP if queue.is_transmission else priority
    key = keys.message(queue.id, lane, rank, arrival)
    if queue.is_publications:
        due_ms = ready_ms  # Only references expire. The publication itself does not.
    tx.put(key, entries.encode(entry._replace(due_ms=due_ms)))
    rows = 2
    if entry.shared or queue.counters.is_unindexed(arrival):
        rows = 1  # The message is found without a row in the UID index.
    else:
        index_key = queue.origins.index_key(trailer, entry.target.encode())
        tx.put(index_key, key[keys.POSITION_AT :])
    if due_ms and not queue.is_publications:
        queue.shared.schedule.add(tx, due_ms, queue.id, lane, rank, arrival)
        rows += 1
    if member is not None:
        queue.groups.enter(
            tx, member, key[keys.POSITION_AT :], is_last=index.is_last(front), put_us=entry.put_us
        )
        rows += 1  # The other rows of the group are written once at the end of the turn.
    if lane != keys.LANE_DELAYED and not is_sent:
        if index_key := index.correlation_key(queue.id, front, rank, arrival):
            tx.put(index_key, b"")
            rows += 1
        queue.wake_seekers(front, trailer, rank, arrival)
    tx.rows_used += rows


def _member(queue: Queue, tx: Transaction, front: bytes) -> Member | None:
    """Returns the message as a member of its group on *queue*, or None if it is not a member."""
    group = index.selected_by(front)[1]
    if group is None:
        return None
    member = Member(*group)
    is_last = index.is_last(front)
    return member if queue.groups.admits(tx, member, is_last=is_last) else None


def wake(queue: Queue, tx: Transaction, key: bytes, entry: entries.Entry) -> None:
    """Makes the delayed message under *key* available.

    The caller has removed its row in the schedule.

    A message that a restart lost is removed instead, so that it is not counted again.
    """
    priority, arrival = keys.place(key)
    if queue.is_lost(entry, arrival):
        lose(queue, tx, key, entries.encode(entry))
        return
    front, trailer = entries.front(tx, entry), entries.uid_trailer(entry)
    queue.record_history(history.AVAILABLE, key, entry)
    tx.delete(key)
    _leave_group(queue, tx, key, front, for_good=False)
    _leave_lane(queue, entry, keys.LANE_DELAYED, arrival)
    add(queue, tx, entry._replace(due_ms=0), front, trailer, priority, arrival)


def remove(
    queue: Queue, tx: Transaction, key: bytes, value: bytes, *, for_good: bool = True
) -> entries.Entry:
    """Removes the message under *key* with all of its rows, even if it is damaged.

    Returns:
        The entry of the message.
    """
    entry = unlink(queue, tx, key, value, for_good=for_good)
    release_record(queue, tx, entry, keys.place(key)[1])
    return entry


def remove_sent(
    queue: Queue, tx: Transaction, rows: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Removes messages of a transmission queue that the peer has, and counts them as acknowledged.

    Args:
        queue: The transmission queue, which keeps no history.
        tx: The transaction of the turn.
        rows: The keys and entries of the messages.

    Returns:
        The rows of messages that need more than this loop does. They are not removed.
    """
    others: list[tuple[bytes, bytes]] = []
    counters, delete, get, position_at = queue.counters, tx.delete, tx.get, keys.POSITION_AT
    unindexed_from, unindexed_until = counters.unindexed_from, counters.unindexed_until
    size = unindexed = indexed = 0
    for key, value in rows:
        parts = entries.plain_parts(value)
        if parts is None:
            others.append((key, value))
            continue
        target, record = parts
        delete(key)
        if unindexed_from <= int.from_bytes(key[keys.ENTRY_ARRIVAL], "big") < unindexed_until:
            unindexed += 1
        else:
            trailer = record[records.TIMESTAMP_AT - record[records.ORIGIN_LENGTH_AT] :]
            index_key = queue.origins.index_key(trailer, target)
            if get(index_key) == key[position_at:]:
                delete(index_key)
                indexed += 1
        size += len(record)
    count = len(rows) - len(others)
    counters.acknowledge_batch(count, size, unindexed=unindexed)
    tx.rows_used += count + indexed
    return others


def lose(queue: Queue, tx: Transaction, key: bytes, value: bytes) -> entries.Entry:
    """Removes a message that a restart lost. The restart has already counted the loss."""
    entry = remove(queue, tx, key, value, for_good=False)
    queue.record_history(history.LOST, key, entry)
    return entry


def release_record(queue: Queue, tx: Transaction, entry: entries.Entry, arrival: int) -> None:
    """Removes the record of an unlinked message. A publication is removed with its last reference.

    Args:
        queue: The queue of the message.
        tx: The transaction of the turn.
        entry: The entry of the message.
        arrival: The arrival number of the message.
    """
    if queue.references is not None:
        queue.references.remove(arrival)
    elif entries.body_rows(entry) <= ROWS_AT_ONCE:
        entries.delete_rows(tx, entry)
    elif entries.has_sound_uid(tx, entry):  # Otherwise, the rows may be those of another message.
        queue.shared.unused_bodies.disown(tx, entries.body_id(entry))


def unlink(
    queue: Queue, tx: Transaction, key: bytes, value: bytes, *, for_good: bool = True
) -> entries.Entry:
    """Removes a message except its record, which may move to another queue.

    Args:
        queue: The queue of the message.
        tx: The transaction of the turn.
        key: The key of the entry.
        value: The value of the entry.
        for_good: Whether the group of the message continues without it. If not, the group has a gap
            at its number.

    Returns:
        The entry of the message.
    """
    entry = entries.decode(value)
    lane, (priority, arrival) = key[keys.POSITION_AT], keys.place(key)
    tx.delete(key)
    rows = 1
    if queue.references is None and not queue.counters.is_unindexed(arrival):
        trailer = entries.uid_trailer(entry)
        index_key = queue.origins.index_key(trailer, entry.target.encode())
        if tx.get(index_key) == key[keys.POSITION_AT :]:
            tx.delete(index_key)
            rows += 1
    for timed in index.timed_keys(queue.id, entry, lane, priority, arrival):
        tx.delete(timed)
        rows += 1
    if lane == keys.LANE_PARKED:
        tx.delete(keys.parked(arrival, queue.id))
        rows += 1
    elif not queue.is_transmission:
        front = entries.front(tx, entry)
        if lane != keys.LANE_DELAYED and (
            selecting := index.correlation_key(queue.id, front, priority, arrival)
        ):
            tx.delete(selecting)
            rows += 1
        _leave_group(queue, tx, key, front, for_good=for_good)
    tx.rows_used += rows
    _leave_lane(queue, entry, lane, arrival)
    return entry


def _leave_group(
    queue: Queue, tx: Transaction, key: bytes, front: bytes, *, for_good: bool
) -> None:
    group = index.selected_by(front)[1]
    if group is not None:
        queue.groups.leave(tx, Member(*group), key[keys.POSITION_AT :], for_good=for_good)


def set_aside(queue: Queue, tx: Transaction, key: bytes, value: bytes) -> None:
    """Moves an entry that failed its checksum to the lane of damaged messages, and counts it.

    A message that a restart lost is only removed, because the restart has already counted the loss.
    """
    priority, arrival = keys.place(key)
    if queue.is_lost(entries.decode(value), arrival):
        lose(queue, tx, key, value)
        return
    entry = unlink(queue, tx, key, value, for_good=False)
    queue.record_history(history.DAMAGED, key, entry)
    tx.put(keys.message(queue.id, keys.LANE_DAMAGED, priority, arrival), value)
    queue.counters.count_damaged()


def postpone(queue: Queue, tx: Transaction, key: bytes, entry: entries.Entry, due_ms: int) -> None:
    """Schedules a message that has no row in the schedule, unless *due_ms* is 0."""
    tx.put(key, entries.encode(entry._replace(due_ms=due_ms)))
    tx.rows_used += 1 + bool(due_ms)
    if due_ms:
        queue.shared.schedule.add(tx, due_ms, queue.id, key[keys.POSITION_AT], *keys.place(key))


def reschedule(queue: Queue, tx: Transaction, key: bytes, entry: entries.Entry) -> None:
    """Schedules a message for its expiry. The expiry may have passed during the lease."""
    if entry.due_ms:
        tx.delete(keys.due(entry.due_ms, queue.id, key[keys.POSITION_AT], *keys.place(key)))
    postpone(queue, tx, key, entry, entry.expires_ms)


def _leave_lane(queue: Queue, entry: entries.Entry, lane: int, arrival: int) -> None:
    size, is_lost = entries.record_bytes(entry), queue.is_lost(entry, arrival)
    queue.counters.leave_lane(lane, size, arrival, is_volatile=entry.volatile, is_lost=is_lost)
