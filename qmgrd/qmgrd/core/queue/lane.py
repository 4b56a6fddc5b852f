"""Where a message lies on its queue, and all the rows that lead to it: made here, removed here.

    lane ready       what can be got, and what is leased
    lane grouped     the same of members of groups
    lane delayed     what waits for its time
    lane parked      what a subscriber gave back too often (parked.py)
    lane damaged     what failed its checksum: kept for forensics

What rotted is removed, too: so nothing here trusts what an entry says, and no row of another
message is touched.
"""

from typing import TYPE_CHECKING

from qmgr_protocol import history
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.group.hold import Member

if TYPE_CHECKING:
    from qmgrd.core.queue.queue import Queue

ROWS_OF_A_PUT = 2  # the entry and its UID


def add(
    queue: "Queue",
    tx: Transaction,
    entry: entries.Entry,
    front: bytes,
    trailer: bytes,
    priority: int,
    arrival: int,
) -> int:
    """Store *entry* with all rows that lead to it; return how many rows that took.

    Args:
        entry: its ``due_ms`` says when it can be got, 0 = at once. What waits for a link has an id,
            which must not stay behind: there it is the peer that has it wait for the rest.
        front: what its record begins with.
        trailer: its encoded UID.
    """
    counters, size = queue.counters, entries.record_bytes(entry)
    ready_ms, expires_ms, is_sent = entry.due_ms, entry.expires_ms, queue.is_transmission
    lane, due_ms = keys.LANE_READY, expires_ms
    if ready_ms:
        due_ms = min(ready_ms, expires_ms or ready_ms)
        entry = entry._replace(flags=entry.flags | (entries.DELAYED if is_sent else 0))
    member = None if is_sent else _member(queue, tx, front)
    if ready_ms and not is_sent:
        lane = keys.LANE_DELAYED
        counters.delayed += 1
    else:
        lane = keys.LANE_READY if member is None else keys.LANE_GROUPED
        counters.depth += 1
        counters.grouped += member is not None
        queue.lower(priority, arrival, lane)
    counters.bytes += size
    if entry.volatile:
        _count_volatile(queue, lane, size, arrival)
    rank = keys.PRIORITY_TOP if queue.is_transmission else priority
    key = keys.message(queue.id, lane, rank, arrival)
    if queue.is_publications:
        due_ms = ready_ms  # Those who hold it have the schedule's rows.
    tx.put(key, entries.encode(entry._replace(due_ms=due_ms)))
    rows = 1 + _index_uid(queue, tx, entry, trailer, key)
    if due_ms and not queue.is_publications:
        queue.schedule.add(tx, due_ms, queue.id, lane, rank, arrival)
        rows += 1
    if member is not None:
        queue.groups.enter(
            tx, member, key[keys.POSITION_AT :], is_last=index.is_last(front), put_us=entry.put_us
        )
        rows += 1  # What changes of its group is written once, at the end of the turn.
    if lane != keys.LANE_DELAYED and not is_sent:
        rows += _index(queue, tx, front, rank, arrival)
        queue.tell_all(front, trailer, rank, arrival)
    return rows


def _index_uid(
    queue: "Queue", tx: Transaction, entry: entries.Entry, trailer: bytes, key: bytes
) -> int:
    """Have a message be found by its UID; return how many rows that took: of a reference none."""
    if entry.shared:
        return 0
    tx.put(queue.origins.index_key(trailer, entry.target.encode()), key[keys.POSITION_AT :])
    return 1


def _member(queue: "Queue", tx: Transaction, front: bytes) -> Member | None:
    """Return which member of a group a message is that comes to *queue*; None if of none there."""
    group = index.selected_by(front)[1]
    if group is None:
        return None
    member = Member(*group)
    is_last = index.is_last(front)
    return member if queue.groups.admits(tx, member, is_last=is_last) else None


def _index(queue: "Queue", tx: Transaction, front: bytes, priority: int, arrival: int) -> int:
    """Have a message that can be got found by its correlation id; return how many rows."""
    key = index.correlation_key(queue.id, front, priority, arrival)
    if not key:
        return 0
    tx.put(key, b"")
    return 1


def wake(queue: "Queue", tx: Transaction, key: bytes, entry: entries.Entry) -> None:
    """Let the delayed message under *key*, whose row in the schedule is gone, be got.

    One that is gone with a restart is removed: it would be counted once more.
    """
    priority, arrival = keys.place(key)
    if queue.is_lost(entry, arrival):
        lose(queue, tx, key, entries.encode(entry))
        return
    front, trailer = entries.front(tx, entry), entries.uid_trailer(entry)
    queue.happened(history.AVAILABLE, key, entry)
    tx.delete(key)
    _leave_group(queue, tx, key, front, for_good=False)
    _uncount(queue, entry, keys.LANE_DELAYED, arrival)
    add(queue, tx, entry._replace(due_ms=0), front, trailer, priority, arrival)


def remove(
    queue: "Queue", tx: Transaction, key: bytes, value: bytes, *, for_good: bool = True
) -> entries.Entry:
    """Remove the message under *key*, sound or not, with all of its rows; return its entry."""
    entry = unlink(queue, tx, key, value, for_good=for_good)
    let_go(queue, tx, entry, keys.place(key)[1])
    return entry


def lose(queue: "Queue", tx: Transaction, key: bytes, value: bytes) -> entries.Entry:
    """Remove what is gone with a restart; it was counted then."""
    entry = remove(queue, tx, key, value, for_good=False)
    queue.happened(history.LOST, key, entry)
    return entry


def let_go(queue: "Queue", tx: Transaction, entry: entries.Entry, arrival: int) -> None:
    """Remove the record of a message that is unlinked; one that is shared with its last holder."""
    if queue.holders is not None:
        queue.holders.release(arrival)
    else:
        entries.delete_rows(tx, entry)


def unlink(
    queue: "Queue", tx: Transaction, key: bytes, value: bytes, *, for_good: bool = True
) -> entries.Entry:
    """As :func:`remove`, but for the body rows, which go elsewhere.

    Args:
        for_good: whether its group goes on behind it; else it leaves a gap there.
    """
    entry = entries.decode(value)
    lane, (priority, arrival) = key[keys.POSITION_AT], keys.place(key)
    tx.delete(key)
    if queue.holders is None:
        trailer = entries.uid_trailer(entry)
        index_key = queue.origins.index_key(trailer, entry.target.encode())
        if tx.get(index_key) == key[keys.POSITION_AT :]:
            tx.delete(index_key)
    for timed in index.timed_keys(queue.id, entry, lane, priority, arrival):
        tx.delete(timed)
    if lane == keys.LANE_PARKED:
        tx.delete(keys.parked(arrival, queue.id))
    elif not queue.is_transmission:
        front = entries.front(tx, entry)
        if lane != keys.LANE_DELAYED and (
            selecting := index.correlation_key(queue.id, front, priority, arrival)
        ):
            tx.delete(selecting)
        _leave_group(queue, tx, key, front, for_good=for_good)
    _uncount(queue, entry, lane, arrival)
    return entry


def _leave_group(
    queue: "Queue", tx: Transaction, key: bytes, front: bytes, *, for_good: bool
) -> None:
    group = index.selected_by(front)[1]
    if group is not None:
        queue.groups.leave(tx, Member(*group), key[keys.POSITION_AT :], for_good=for_good)


def set_aside(queue: "Queue", tx: Transaction, key: bytes, value: bytes) -> None:
    """Move an entry that failed its checksum where nobody gets it, and count it.

    What is gone with a restart was counted then, and is just removed.
    """
    priority, arrival = keys.place(key)
    if queue.is_lost(entries.decode(value), arrival):
        lose(queue, tx, key, value)
        return
    entry = unlink(queue, tx, key, value, for_good=False)
    queue.happened(history.DAMAGED, key, entry)
    tx.put(keys.message(queue.id, keys.LANE_DAMAGED, priority, arrival), value)
    queue.counters.damaged += 1


def postpone(
    queue: "Queue", tx: Transaction, key: bytes, entry: entries.Entry, due_ms: int
) -> None:
    """Have a message, whose row in the schedule is gone, looked at again at *due_ms*; 0: never."""
    tx.put(key, entries.encode(entry._replace(due_ms=due_ms)))
    if due_ms:
        queue.schedule.add(tx, due_ms, queue.id, key[keys.POSITION_AT], *keys.place(key))


def hasten(queue: "Queue", tx: Transaction, key: bytes, entry: entries.Entry) -> None:
    """Have a message whose time was over while somebody held it be looked at when it was over."""
    if entry.due_ms:
        tx.delete(keys.due(entry.due_ms, queue.id, key[keys.POSITION_AT], *keys.place(key)))
    postpone(queue, tx, key, entry, entry.expires_ms)


def _count_volatile(queue: "Queue", lane: int, size: int, arrival: int) -> None:
    counters = queue.counters
    if not counters.volatile and not counters.volatile_delayed:
        counters.volatile_from = arrival
    counters.volatile_from = min(counters.volatile_from, arrival)
    counters.volatile += lane != keys.LANE_DELAYED
    counters.volatile_delayed += lane == keys.LANE_DELAYED
    counters.volatile_bytes += size


def _uncount(queue: "Queue", entry: entries.Entry, lane: int, arrival: int) -> None:
    counters, size = queue.counters, entries.record_bytes(entry)
    if lane == keys.LANE_PARKED:
        counters.parked -= 1
        return
    counters.grouped -= lane == keys.LANE_GROUPED
    if entry.volatile:
        if queue.is_lost(entry, arrival):
            return  # Gone with a restart, and not counted since.
        counters.volatile -= lane != keys.LANE_DELAYED
        counters.volatile_delayed -= lane == keys.LANE_DELAYED
        counters.volatile_bytes -= min(counters.volatile_bytes, size)
    counters.depth -= lane != keys.LANE_DELAYED
    counters.delayed -= lane == keys.LANE_DELAYED
    counters.bytes -= min(counters.bytes, size)  # Rot may have miscounted it.
