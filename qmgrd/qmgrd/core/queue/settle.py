"""Ends leases: removes the message, or returns it to its original position.

Only the session of a lease can settle it. A handle contains the place of the message and the lease
number. After the end of the lease, the handle still proves that its session received the message
(lease_number.py). Therefore, a client may safely send a settle twice. A handle never settles a
different message, not even in a restored store.
"""

from qmgr_protocol import history
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.messages import HANDLE
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.queue import lane, notes
from qmgrd.core.queue.lease import Lease
from qmgrd.core.queue.lease_number import LeaseNumbers
from qmgrd.core.queue.queue import Queue

_LANES = (keys.LANE_READY, keys.LANE_GROUPED, keys.LANE_DELAYED, keys.LANE_PARKED)


def ack_all(
    queue: Queue, tx: Transaction, now: Now, handles: bytes, numbers: LeaseNumbers
) -> list[tuple[int, int]]:
    """Removes the messages of *handles*. Returns the index and code of each failure.

    Args:
        queue: The queue of the messages.
        tx: The transaction of the turn.
        now: The time of the turn.
        handles: The encoded handles.
        numbers: The lease numbers of the session that acknowledges.
    """
    leases, delete, exceptions = queue.leases, tx.delete, []
    held_groups = queue.groups.held_groups
    # In this loop, ``last`` is the group of the previous message.
    member_of, taken_back, last = held_groups.leased.get, held_groups.taken_back, b""
    acked: dict[bytes, list[int]] = {}  # numbers of acknowledged members by group
    is_forgetful = not queue.bounds.dedup_retention_ms  # whether UIDs are not remembered
    references, counters = queue.references, queue.counters
    unindexed_from, unindexed_until = counters.unindexed_from, counters.unindexed_until
    settled: list[Lease] = []
    size = unindexed = 0
    for at, (priority, arrival, number) in enumerate(HANDLE.iter_unpack(handles)):
        lease = leases.get(arrival)
        if (
            lease is None
            or lease.number != number
            or lease.lessee.numbers is not numbers
            or not (lease.is_plain and is_forgetful)
        ):
            if code := _ack(queue, tx, now, lease, priority, arrival, number, numbers):
                exceptions.append((at, int(code)))
            continue
        if (member := member_of(arrival)) is not None:
            if arrival in taken_back:
                exceptions.append((at, int(ErrorCode.LEASE_LOST)))
                continue
            group_id, place = member
            if group_id != last:
                last, out = group_id, held_groups.leased_members(group_id)
                add = acked.setdefault(group_id, []).append
            if out.get(place) == arrival:
                del out[place]
            else:
                held_groups.remove_member(group_id, place, arrival)
            del held_groups.leased[arrival]
            add(place)
        _, lessee, _, _, _, length, key, index_key, _ = lease
        del leases[arrival]
        lessee.leases.pop(arrival, None)
        delete(key)
        if unindexed_from <= arrival < unindexed_until:
            unindexed += 1
        elif references is None:
            delete(index_key)
        else:
            references.remove(arrival)
        settled.append(lease)
        size += length
    _count(queue, tx, settled, size, unindexed, acked)
    tx.rows_used += len(exceptions)
    return exceptions


def _count(
    queue: Queue,
    tx: Transaction,
    settled: list[Lease],
    size: int,
    unindexed: int,
    acked: dict[bytes, list[int]],
) -> None:
    """Counts the consumed messages, and records them in the history.

    Args:
        queue: The queue of the messages.
        tx: The transaction of the turn.
        settled: The former leases of the messages.
        size: The total size of their records.
        unindexed: The number of messages that had no row in the UID index.
        acked: The numbers of consumed members by group.
    """
    if settled and queue.account is not None:
        queue.account.settled(settled[0].lessee.client, settled)
    grouped = 0
    for group_id, numbers in acked.items():
        queue.groups.acknowledge(tx, group_id, numbers)
        grouped += len(numbers)
    queue.counters.acknowledge_batch(len(settled), size, grouped=grouped, unindexed=unindexed)
    rows = lane.ROWS_OF_A_PUT * len(settled) - unindexed
    tx.rows_used += rows + size // entries.VALUE_MAX_BYTES


def _ack(
    queue: Queue,
    tx: Transaction,
    now: Now,
    lease: Lease | None,
    priority: int,
    arrival: int,
    number: int,
    numbers: LeaseNumbers,
) -> int:
    """Removes a message. Returns 0, or the code of an error.

    If the message does not exist, the client has repeated an ack, which succeeds again. If the
    message exists without a lease, the number must prove that this session received the message.
    Such a message is removed even if it is delayed or parked.
    """
    if arrival in queue.groups.held_groups.taken_back:
        # An earlier member of the group failed. This member will be delivered again after that one.
        return ErrorCode.LEASE_LOST
    if lease is not None:
        if lease.number != number or lease.lessee.is_unit or not lease.lessee.is_of(numbers):
            return ErrorCode.LEASE_LOST
        consume(queue, tx, now, lease)
        return 0
    tx.rows_used += 1
    for lane_ in _LANES:
        key = keys.message(queue.id, lane_, min(priority, keys.PRIORITY_TOP), arrival)
        value = tx.get(key)
        if value is None:
            continue
        entry = entries.decode(value)
        if queue.is_lost(entry, arrival):
            # A restart has lost the message and counted the loss. A job removes the message.
            continue
        checksum = entries.checksum_of(entries.front(tx, entry))
        if not numbers.proves(number, queue.id, arrival, checksum):
            return ErrorCode.LEASE_LOST
        _consume(queue, tx, now, key, value, "")
        break
    return 0


def consume(queue: Queue, tx: Transaction, now: Now, lease: Lease) -> None:
    """Removes a leased message."""
    queue.end(lease)
    _consume(queue, tx, now, lease.key, queue.value_of(tx, lease), lease.lessee.client)


def _consume(
    queue: Queue, tx: Transaction, now: Now, key: bytes, value: bytes, client: str
) -> None:
    entry = lane.remove(queue, tx, key, value)
    queue.record_history(history.SETTLED, key, entry, peer=client)
    queue.counters.count_acked()
    retention_ms = queue.bounds.dedup_retention_ms
    if retention_ms:
        queue.remember(tx, now.ms + retention_ms, entries.uid_trailer(entry), *keys.place(key))


def return_to_queue(
    queue: Queue,
    tx: Transaction,
    lease: Lease,
    *,
    delivered: bool = True,
    failed: bool = False,
    ready_ms: int = 0,
    note: bytes = b"",
) -> list[Lease]:
    """Ends *lease* and returns its message to its original position, with its counters raised.

    Args:
        queue: The queue of the message.
        tx: The transaction of the turn.
        lease: The lease to end.
        delivered: Whether the number of deliveries rises by 1.
        failed: Whether the number of failures rises by 1.
        ready_ms: The store clock time from which the message is available again; 0 means
            immediately.
        note: The new note of the message; b"" keeps the present note.

    Returns:
        The leases of later members of the group. The caller must also return these messages.
    """
    groups, behind = queue.groups.held_groups.returned(lease.arrival)
    queue.end(lease)
    value = queue.value_of(tx, lease)
    entry = entries.decode(value)
    changed = entry._replace(
        delivered=entries.raised_count(entry.delivered, delivered),
        failed=entries.raised_count(entry.failed, failed),
        flags=entry.flags | (entries.NOTED if note else 0),
    )
    queue.counters.count_returned()
    queue.record_history(history.RETURNED, lease.key, changed, peer=lease.lessee.client)
    note = note or (notes.raw(tx, queue.id, lease.arrival) if ready_ms and entry.noted else b"")
    front, trailer = entries.front(tx, entry), entries.uid_trailer(entry)
    if ready_ms:
        lane.unlink(queue, tx, lease.key, value, for_good=False)
        delayed = changed._replace(due_ms=ready_ms)
        lane.add(queue, tx, delayed, front, trailer, lease.priority, lease.arrival)
    else:
        if changed.due_ms == changed.expires_ms:
            tx.put(lease.key, entries.encode(changed))
            tx.rows_used += 1
        else:
            lane.reschedule(queue, tx, lease.key, changed)
        queue.lower_position(lease.priority, lease.arrival, lease.key[keys.POSITION_AT])
        queue.wake_seekers(front, trailer, lease.priority, lease.arrival)
    if note:
        notes.write(tx, queue.id, lease.arrival, note)
    for group_id in groups:
        queue.groups.mark_changed(group_id)
    return [queue.leases[arrival] for arrival in behind]
