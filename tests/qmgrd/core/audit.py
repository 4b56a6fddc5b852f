"""Holds what a manager stores and remembers against each other: raises where they disagree."""

from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core import row as sealed
from qmgrd.core.counters import Counters
from qmgrd.core.queue import Queue
from tests.qmgrd.core.harness import Manager


def audit(manager: Manager) -> None:
    """Check every queue between two turns."""
    rows = dict(manager.scan(b""))
    bodies = {key for key in rows if key[:1] == keys.SPACE_BODY}
    for queue in manager.turns.broker.catalogue.by_id.values():
        bodies -= _audit_queue(rows, queue)
    assert not bodies, f"{len(bodies)} body rows belong to nobody"


def _audit_queue(rows: dict[bytes, bytes], queue: Queue) -> set[bytes]:
    lane = keys.lane(queue.id, keys.LANE_READY)
    index = keys.of_queue(keys.SPACE_UID, queue.id)
    ready = {key: value for key, value in rows.items() if key.startswith(lane)}
    uids = {key: value for key, value in rows.items() if key.startswith(index)}
    counters = queue.counters
    assert counters.depth == len(ready)
    assert counters.depth == counters.puts - counters.acked - counters.purged - counters.damaged
    assert counters.puts == counters.fast + counters.slow
    assert len(uids) == len(ready)
    size = 0
    bodies: set[bytes] = set()
    for key, value in ready.items():
        entry = entries.decode(value)
        trailer = entries.uid_trailer(entry)
        index_key = queue.origins.index_key(trailer, entry.target.encode())
        assert uids[index_key] == key[5:], "the UID index points elsewhere"
        origin = keys.of_queue(keys.SPACE_ORIGIN, queue.id) + trailer[:-8]
        highest = sealed.unseal(origin, rows[origin])
        assert highest >= trailer[-8:], "the table of origins is below a message"
        size += entries.record_bytes(entry)
        if entry.kind == entries.IN_ROWS:
            body_id = entry.rest[:8]
            bodies |= {key for key in rows if key.startswith(keys.SPACE_BODY + body_id)}
    assert counters.bytes == size
    _audit_leases(queue, {keys.place(key) for key in ready})
    key = keys.of_queue(keys.SPACE_COUNTERS, queue.id)
    known = Counters.decode(sealed.unseal(key, rows[key]))
    known.delivered = counters.delivered  # A delivery writes nothing,
    known.maybe_before = counters.maybe_before  # nor does a start.
    assert known == counters
    return bodies


def _audit_leases(queue: Queue, places: set[tuple[int, int]]) -> None:
    for arrival, lease in queue.leases.items():
        assert (lease.priority, arrival) in places, "a lease of a message that is not there"
        assert lease.lessee.leases[arrival] is lease
    for priority, arrival in places:
        stuck = arrival < queue.heads[priority] and arrival not in queue.leases
        assert not stuck, f"message {arrival} lies before the position, leased to nobody"
