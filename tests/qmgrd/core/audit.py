"""Checks that a manager's memory agrees with its store; raises if the two disagree."""

from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout import row as sealed
from qmgrd.core.layout.counters import Counters
from qmgrd.core.queue.queue import Queue
from tests.qmgrd.core.audit_groups import audit_groups
from tests.qmgrd.core.harness import Manager


def audit(manager: Manager) -> None:
    """Checks each queue between two turns."""
    rows = dict(manager.scan(b""))
    bodies = {key for key in rows if key[:1] == keys.SPACE_BODY}
    for queue in manager.turns.broker.catalogue.by_id.values():
        bodies -= _audit_queue(rows, queue, manager.now().ms)
    unowned = {key[keys.REST] for key in rows if key[:1] == keys.SPACE_UNOWNED}
    bodies = {key for key in bodies if key[keys.BODY_ID] not in unowned}
    assert not bodies, f"{len(bodies)} body rows belong to no message"
    _audit_units(manager)


def _audit_units(manager: Manager) -> None:
    """Checks that the units of work match the entries that the queues hold for them."""
    broker = manager.turns.broker
    units = [unit for session in broker.sessions.values() for unit in session.units.values()]
    lessees = {id(lessee) for unit in units for lessee in unit.lessees.values()}
    lessees |= {id(lease.lessee) for lease, _ in broker.settlements._returns.waiting}
    for unit in units:
        assert unit.timer is not None
        assert unit.timer.call is not None, "the member would never expire"
    for queue in broker.catalogue.by_id.values():
        held = [x for unit in units for x in unit.puts if x.queue is queue]
        assert set(queue.uncommitted.arrivals) == {x.index_key for x in held}
        assert queue.uncommitted.messages == len(held)
        assert queue.uncommitted.bytes == sum(len(x.prepared.record) for x in held)
        for lease in queue.leases.values():
            assert not lease.lessee.is_unit or id(lease.lessee) in lessees, "held by no unit"


def _audit_queue(rows: dict[bytes, bytes], queue: Queue, now_ms: int) -> set[bytes]:
    ready = _living(rows, queue, keys.LANE_READY) | _living(rows, queue, keys.LANE_GROUPED)
    delayed = _living(rows, queue, keys.LANE_DELAYED)
    uid_prefix = keys.of_queue(keys.SPACE_UID, queue.id)
    uids = {key: value for key, value in rows.items() if key.startswith(uid_prefix)}
    counters = queue.counters
    parked = _living(rows, queue, keys.LANE_PARKED)
    assert (counters.depth, counters.delayed) == (len(ready), len(delayed))
    assert counters.parked == len(parked)
    gone = counters.acked + counters.purged + counters.damaged + counters.expired
    gone += counters.dead + counters.moved + counters.lost
    assert counters.depth + counters.delayed + counters.parked == counters.puts - gone
    assert counters.puts == counters.fast + counters.slow
    size = 0
    bodies: set[bytes] = set()
    _audit_rows(rows, queue)
    _audit_order(rows, queue)
    audit_groups(rows, queue)
    for key, value in (ready | delayed).items():
        entry = entries.decode(value)
        size += entries.record_bytes(entry)
        assert entry.shared == (queue.references is not None)
        if entry.shared:
            assert keys.publication(keys.place(key)[1]) in rows, "its publication does not exist"
            continue
        trailer = entries.uid_trailer(entry)
        index_key = queue.origins.index_key(trailer, entry.target.encode())
        if counters.is_unindexed(keys.place(key)[1]):
            assert index_key not in uids, "the message needs no row in the UID index"
        else:
            assert uids[index_key] == key[5:], "the UID index refers to another message"
        origin = keys.of_queue(keys.SPACE_ORIGIN, queue.id) + trailer[:-8]
        highest = sealed.unseal(origin, rows[origin])
        assert highest >= trailer[-8:], "the table of origins is below the UID of a message"
        if entry.in_rows:
            body_id = entry.rest[:8]
            bodies |= {key for key in rows if key.startswith(keys.SPACE_BODY + body_id)}
    assert counters.bytes == size
    grouped = {keys.place(key) for key in _lane(rows, queue, keys.LANE_GROUPED)}
    _audit_leases(
        queue,
        {keys.place(key): entries.decode(value) for key, value in ready.items()},
        grouped,
        now_ms,
    )
    key = keys.of_queue(keys.SPACE_COUNTERS, queue.id)
    known = Counters.decode(sealed.unseal(key, rows[key]))
    known.delivered = counters.delivered  # A delivery writes nothing to the store.
    known.maybe_before = counters.maybe_before  # A start also writes nothing.
    # A put that a unit of work holds also writes nothing.
    known.next_arrival = counters.next_arrival
    known.unindexed_from = counters.unindexed_from
    known.unindexed_until = counters.unindexed_until
    assert known == counters
    return bodies


def _lane(rows: dict[bytes, bytes], queue: Queue, lane: int) -> dict[bytes, bytes]:
    prefix = keys.lane(queue.id, lane)
    return {key: value for key, value in rows.items() if key.startswith(prefix)}


def _living(rows: dict[bytes, bytes], queue: Queue, lane: int) -> dict[bytes, bytes]:
    """Returns the entries of a lane, except those lost in a restart and not swept yet."""
    return {
        key: value
        for key, value in _lane(rows, queue, lane).items()
        if not queue.is_lost(entries.decode(value), keys.place(key)[1])
    }


def _audit_rows(rows: dict[bytes, bytes], queue: Queue) -> None:
    """Checks that the rows that refer to messages are exactly those that the messages need."""
    expected: set[bytes] = set()
    for lane in (keys.LANE_READY, keys.LANE_GROUPED, keys.LANE_DELAYED, keys.LANE_PARKED):
        for key, value in _lane(rows, queue, lane).items():
            entry, (priority, arrival) = entries.decode(value), keys.place(key)
            trailer = entries.uid_trailer(entry)
            if not entry.shared and not queue.counters.is_unindexed(arrival):
                expected.add(queue.origins.index_key(trailer, entry.target.encode()))
            timed = index.timed_keys(queue.id, entry, lane, priority, arrival)
            expected.update(
                key for key in timed if key[:1] != keys.SPACE_DUE or not queue.is_publications
            )
            if lane < keys.LANE_PARKED and lane != keys.LANE_DELAYED and not queue.is_transmission:
                front = _front(rows, entry)
                selecting = index.correlation_key(queue.id, front, priority, arrival)
                expected.update([selecting] if selecting else [])
    spaces = (keys.SPACE_UID, keys.SPACE_CORRELATION, keys.SPACE_NOTE)
    prefixes = tuple(keys.of_queue(space, queue.id) for space in spaces)
    found = {key for key in rows if key.startswith(prefixes)}
    due = {key for key in rows if key[:1] == keys.SPACE_DUE}
    for key in due:
        if keys.DUE.unpack(key)[2:4] == (queue.id, keys.LANE_REMEMBERED):
            index_key = queue.origins.index_key(rows[key])
            if rows.get(index_key, b"\xff")[0] == keys.LANE_REMEMBERED:
                found.discard(index_key)
        elif keys.DUE.unpack(key)[2:4] == (queue.id, keys.LANE_GROUP):
            continue  # The sweep will check the row later, whether or not the message still exists.
        elif keys.DUE.unpack(key)[2] == queue.id:
            found.add(key)
    assert found == expected, f"{len(found - expected)} too many, {len(expected - found)} missing"


def _audit_order(rows: dict[bytes, bytes], queue: Queue) -> None:
    """Checks that messages without a row in the UID index are in the order of their UIDs."""
    found: dict[int, bytes] = {}
    for lane in (keys.LANE_READY, keys.LANE_GROUPED, keys.LANE_DELAYED):
        for key, value in _lane(rows, queue, lane).items():
            if queue.counters.is_unindexed(arrival := keys.place(key)[1]):
                found[arrival] = entries.uid_trailer(entries.decode(value))
    assert len(found) == queue.counters.unindexed
    trailers = [found[arrival] for arrival in sorted(found)]
    assert len({trailer[:-8] for trailer in trailers}) <= 1, "UIDs of several origins"
    assert trailers == sorted(set(trailers)), "UIDs are not in the order of arrival"


def _front(rows: dict[bytes, bytes], entry: entries.Entry) -> bytes:
    if entry.shared:
        position = rows[keys.publication_uid(entries.uid_trailer(entry))]
        entry = entries.decode(rows[keys.publication_at(position)])
    return rows[keys.body(_body_id(entry), 0)] if entry.in_rows else entry.rest


def _body_id(entry: entries.Entry) -> int:
    return int.from_bytes(entry.rest[:8], "big")


def _audit_leases(
    queue: Queue,
    places: dict[tuple[int, int], entries.Entry],
    grouped: set[tuple[int, int]],
    now_ms: int,
) -> None:
    for arrival, lease in queue.leases.items():
        assert (lease.priority, arrival) in places, "a lease of a message that does not exist"
        assert lease.lessee.leases[arrival] is lease
    for (priority, arrival), entry in places.items():
        if 0 < entry.expires_ms <= now_ms:
            continue  # The message is skipped until the sweep removes it.
        is_grouped = (priority, arrival) in grouped
        heads = queue.positions.grouped if is_grouped else queue.positions.ready
        stuck = arrival < heads[priority] and arrival not in queue.leases
        if is_grouped and stuck:
            continue  # Members of a stopped group: readers in physical order receive them later.
        assert not stuck, f"message {arrival} is before the position, but not leased"
