"""How a lease ends: the message is removed for good, or comes back to its old place.

A lease is settled by its own session alone. A handle names place and lease. After the lease it
still proves that its session was handed the message (lease_number.py), so a settle may be sent
again, and a handle never settles another message, as in a store that was restored.
"""

from typing import TYPE_CHECKING

from qmgr_protocol import history
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.messages import HANDLE
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.queue import lane, notes
from qmgrd.core.queue.lease import Lease
from qmgrd.core.queue.lease_number import LeaseNumbers

if TYPE_CHECKING:
    from qmgrd.core.queue.queue import Queue

_LANES = (keys.LANE_READY, keys.LANE_GROUPED, keys.LANE_DELAYED, keys.LANE_PARKED)


def ack_all(
    queue: "Queue", tx: Transaction, now: Now, handles: bytes, numbers: LeaseNumbers
) -> list[tuple[int, int]]:
    """Remove for good what *handles* name; return the index of each that could not, and why.

    Args:
        numbers: of the session that says so.
    """
    leases, delete, exceptions = queue.leases, tx.delete, []
    holds = queue.groups.holds
    member_of, taken_back, last = holds.leased.get, holds.taken_back, b""  # the last one's group
    acked: dict[bytes, list[int]] = {}  # of each group the numbers
    is_forgetful = not queue.bounds.dedup_retention_ms  # else its UID is kept in mind
    holders = queue.holders
    settled: list[Lease] = []
    size = 0
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
                last, out = group_id, holds.out_of(group_id)
                add = acked.setdefault(group_id, []).append
            if out.get(place) == arrival:
                del out[place]
            else:
                holds.take_in(group_id, place, arrival)
            del holds.leased[arrival]
            add(place)
        _, lessee, _, _, _, length, key, index_key, _ = lease
        del leases[arrival]
        lessee.leases.pop(arrival, None)
        delete(key)
        if holders is None:
            delete(index_key)
        else:
            holders.release(arrival)
        settled.append(lease)
        size += length
    _count(queue, tx, settled, size, acked)
    return exceptions


def _count(
    queue: "Queue", tx: Transaction, settled: list[Lease], size: int, acked: dict[bytes, list[int]]
) -> None:
    """Count what was consumed, and keep it in the history, if there is to be one.

    Args:
        acked: of each group the numbers that were.
    """
    if settled and queue.account is not None:
        queue.account.settled(settled)
    counters = queue.counters
    for group_id, numbers in acked.items():
        queue.groups.acknowledge(tx, group_id, numbers)
        counters.grouped -= len(numbers)
    counters.acked += len(settled)
    counters.depth -= len(settled)
    counters.bytes -= min(counters.bytes, size)  # Rot may have miscounted it.


def _ack(
    queue: "Queue",
    tx: Transaction,
    now: Now,
    lease: Lease | None,
    priority: int,
    arrival: int,
    number: int,
    numbers: LeaseNumbers,
) -> int:
    """Remove a message for good; return 0, or the code that says why not.

    If the message is gone, this is an ack that was sent again: success. If its lease is over and
    nobody else holds the message, its number has to prove that this session was handed it. Then it
    is settled now, even while it waits to be tried again or is parked.
    """
    if arrival in queue.groups.holds.taken_back:
        return ErrorCode.LEASE_LOST  # It has its turn behind one that failed.
    if lease is not None:
        if lease.number != number or lease.lessee.is_unit or not lease.lessee.is_of(numbers):
            return ErrorCode.LEASE_LOST
        consume(queue, tx, now, lease)
        return 0
    for lane_ in _LANES:
        key = keys.message(queue.id, lane_, min(priority, keys.PRIORITY_TOP), arrival)
        value = tx.get(key)
        if value is None:
            continue
        entry = entries.decode(value)
        if queue.is_lost(entry, arrival):
            continue  # Gone with a restart, and counted so; a job removes it.
        checksum = entries.checksum_of(entries.record(tx, entry))
        if not numbers.proves(number, queue.id, arrival, checksum):
            return ErrorCode.LEASE_LOST
        _consume(queue, tx, now, key, value, "")
        break
    return 0


def consume(queue: "Queue", tx: Transaction, now: Now, lease: Lease) -> None:
    """Remove for good what is leased."""
    queue.end(lease)
    _consume(queue, tx, now, lease.key, queue.value_of(tx, lease), lease.lessee.client)


def _consume(
    queue: "Queue", tx: Transaction, now: Now, key: bytes, value: bytes, client: str
) -> None:
    entry = lane.remove(queue, tx, key, value)
    queue.happened(history.SETTLED, key, entry, peer=client)
    queue.counters.acked += 1
    retention_ms = queue.bounds.dedup_retention_ms
    if retention_ms:
        queue.remember(tx, now.ms + retention_ms, entries.uid_trailer(entry), *keys.place(key))


def come_back(
    queue: "Queue",
    tx: Transaction,
    lease: Lease,
    *,
    delivered: bool = True,
    failed: bool = False,
    ready_ms: int = 0,
    note: bytes = b"",
) -> list[Lease]:
    """End *lease* and let its message be had again in its old place, its counts raised.

    Returns:
        The leases of the members of its group behind it, which are to come back, too.

    Args:
        ready_ms: store clock of when it can be had; 0 at once.
        note: the note that it has from here on; empty for the one that it has, if any.
    """
    groups, behind = queue.groups.holds.came_back(lease.arrival)
    queue.end(lease)
    value = queue.value_of(tx, lease)
    entry = entries.decode(value)
    changed = entry._replace(
        delivered=entries.raised(entry.delivered, delivered),
        failed=entries.raised(entry.failed, failed),
        flags=entry.flags | (entries.NOTED if note else 0),
    )
    queue.counters.returned += 1
    queue.happened(history.RETURNED, lease.key, changed, peer=lease.lessee.client)
    note = note or (notes.raw(tx, queue.id, lease.arrival) if ready_ms and entry.noted else b"")
    front, trailer = entries.front(tx, entry), entries.uid_trailer(entry)
    if ready_ms:
        lane.unlink(queue, tx, lease.key, value, for_good=False)
        delayed = changed._replace(due_ms=ready_ms)
        lane.add(queue, tx, delayed, front, trailer, lease.priority, lease.arrival)
    else:
        if changed.due_ms == changed.expires_ms:
            tx.put(lease.key, entries.encode(changed))
        else:
            lane.hasten(queue, tx, lease.key, changed)
        queue.lower(lease.priority, lease.arrival, lease.key[keys.POSITION_AT])
        queue.tell_all(front, trailer, lease.priority, lease.arrival)
    if note:
        notes.write(tx, queue.id, lease.arrival, note)
    for group_id in groups:
        queue.groups.touch(group_id)
    return [queue.leases[arrival] for arrival in behind]
