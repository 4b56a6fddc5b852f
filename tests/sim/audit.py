"""The checkers that look at a store and a broker at rest, between two turns."""

from collections import defaultdict
from typing import Any

from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import RequestError
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core import row as rows
from qmgrd.core.counters import Counters
from qmgrd.core.dedup import OriginTable
from qmgrd.core.link import Link
from qmgrd.core.queue import Queue
from qmgrd.store.memory import MemoryStore
from tests.sim.ledger import SERIAL, Ledger, Put, require
from tests.sim.node import Node
from tests.sim.watch import Watch


def rows_of(store: MemoryStore, space: bytes) -> list[tuple[bytes, bytes]]:
    """Return all rows of a key space."""
    return list(store.scan(space, keys.after(space)))


def audit(node: Node, watch: Watch) -> None:
    """Hold what *node* has stored, and what it believes, against each other."""
    jobs = [unpack(row) for _, row in rows.scan(node.store, keys.SPACE_JOB)]
    dropped = {job["queue_id"] for job in jobs if job["kind"] == "drop" and not job["ended_us"]}
    counters_equal_contents(node, dropped)
    uid_index_agrees(node, dropped)
    origin_table_covers(node, dropped)
    bodies_are_referenced(node, watch.ledger.rotten)
    seen = {handle for handle, held in watch.of(node).held.items()}
    stored = {(queue_id, keys.place(key)[1]) for queue_id, key, _ in _messages(node.store)}
    require(seen == stored, "contents_as_watched", f"{node.name}: {seen ^ stored}")
    if node.up:
        within_budget(node)
        nothing_leaks(node)
        for queue in node.turns.broker.catalogue.by_id.values():
            ready_is_found(node, queue)


def _messages(store: MemoryStore) -> list[tuple[int, bytes, entries.Entry]]:
    return [
        (int.from_bytes(key[1:5], "big"), key, entries.decode(value))
        for key, value in rows_of(store, keys.SPACE_MESSAGE)
        if key[5] == keys.LANE_READY
    ]


def counters_equal_contents(node: Node, dropped: set[int]) -> None:
    """What a queue counts is what lies on it, and each message went one way through the table."""
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for queue_id, key, entry in _messages(node.store):
        counts = found[queue_id]
        counts[0] += 1
        counts[1] += entries.record_bytes(entry)
        counts[2] = max(counts[2], keys.place(key)[1])
    known: set[int] = set()
    for key, row in rows.scan(node.store, keys.SPACE_COUNTERS):
        queue_id = int.from_bytes(key[1:], "big")
        known.add(queue_id)
        if queue_id in dropped:
            continue
        c = Counters.decode(row)
        depth, size, last = found[queue_id]
        fact = f"queue {queue_id} of {node.name}: {c}, found {depth} of {size} bytes up to {last}"
        require((c.depth, c.bytes) == (depth, size), "counters_equal_contents", fact)
        balanced = c.puts == c.acked + c.purged + c.depth + c.damaged == c.fast + c.slow
        require(balanced, "counters_equal_contents", fact)
        require(c.next_arrival > last, "counters_equal_contents", fact)
    orphans = set(found) - known - dropped
    orphans = {queue_id for queue_id in orphans if found[queue_id][0]}
    require(not orphans, "counters_equal_contents", f"{node.name}: {orphans} have no counters")


def uid_index_agrees(node: Node, dropped: set[int]) -> None:
    """Each message has its row in the UID index, and each row its message."""
    expected = {
        OriginTable(queue_id).index_key(entries.uid_trailer(entry), entry.target.encode()): key[5:]
        for queue_id, key, entry in _messages(node.store)
        if queue_id not in dropped
    }
    found = {
        key: value
        for key, value in rows_of(node.store, keys.SPACE_UID)
        if int.from_bytes(key[1:5], "big") not in dropped
    }
    odd = [key.hex() for key in found.keys() ^ expected.keys()]
    require(found == expected, "uid_index_agrees", f"{node.name}: {odd}")


def origin_table_covers(node: Node, dropped: set[int]) -> None:
    """No message on a queue has a timestamp above its origin's entry."""
    found = rows.scan(node.store, keys.SPACE_ORIGIN)
    table = {key: int.from_bytes(row, "big") for key, row in found}
    for queue_id, _, entry in _messages(node.store):
        if queue_id in dropped:
            continue
        trailer = entries.uid_trailer(entry)
        highest = table.get(keys.of_queue(keys.SPACE_ORIGIN, queue_id) + trailer[:-8], -1)
        timestamp = int.from_bytes(trailer[-8:], "big")
        fact = f"{node.name}, queue {queue_id}: {timestamp} of {trailer[:-8]!r} over {highest}"
        require(timestamp <= highest, "origin_table_covers", fact)


def bodies_are_referenced(node: Node, rotten: set[tuple[str, int]]) -> None:
    """Each body row belongs to an entry, and each long entry has all of its own."""
    expected: set[bytes] = set()
    for key, value in rows_of(node.store, keys.SPACE_MESSAGE):
        entry = entries.decode(value)
        if entry.in_rows:
            body_id = int.from_bytes(entry.rest[:8], "big")
            count = entries.rows_of(entries.record_bytes(entry))
            expected |= {keys.body(body_id, chunk) for chunk in range(count)}
        record = entries.record(node.store, entry)
        try:
            records.check(record)
        except RequestError as error:
            _, serial = SERIAL.unpack_from(record, records.HEAD_BYTES)
            fact = f"{node.name}: {key.hex()}: {error}"
            require((node.name, serial) in rotten, "bodies_are_referenced", fact)
    found = {key for key, _ in rows_of(node.store, keys.SPACE_BODY)}
    fact = f"{node.name}: {[key.hex() for key in found ^ expected]}"
    require(found == expected, "bodies_are_referenced", fact)


def ready_is_found(node: Node, queue: Queue) -> None:
    """What is on a queue is leased, or stands at or behind the position of its priority."""
    lane = keys.lane(queue.id, keys.LANE_READY)
    count = 0
    for key, _ in node.store.scan(lane, keys.after(lane)):
        priority, arrival = keys.place(key)
        count += 1
        found = arrival in queue.leases or arrival >= queue.heads[priority]
        fact = f"{arrival} of {queue.name} at {node.name} lies before {queue.heads[priority]}"
        require(found, "ready_is_found", fact)
    fact = f"{queue.name} at {node.name}: {count} there, {len(queue.leases)} leased"
    require(count == queue.ready + len(queue.leases), "counters_equal_contents", fact)


def within_budget(node: Node) -> None:
    """Windows, leases and what hangs on connections keep to their limits."""
    broker = node.turns.broker
    for queue in broker.catalogue.by_id.values():
        fact = (
            f"{queue.name} at {node.name}: {len(queue.leases)} leases, depth {queue.counters.depth}"
        )
        require(len(queue.leases) <= queue.bounds.leases_max, "within_budget", fact)
        require(queue.counters.depth <= queue.bounds.depth_max, "within_budget", fact)
    for link in broker.catalogue.links.values():
        _link_within_budget(node, link)
    for session in broker.sessions.values():
        for stream in session.streams.values():
            inbox = stream.inbox
            fact = f"{stream.identity.hex()} at {node.name}: {inbox}"
            ahead = inbox.ahead or {inbox.commit_id + 2}
            require(min(ahead) > inbox.commit_id + 1, "within_budget", fact)
            require(max(ahead) <= inbox.commit_id + inbox.window + 1, "within_budget", fact)


def nothing_leaks(node: Node) -> None:
    """What hangs on connections is gone with them, and rows are counted."""
    broker, intake = node.turns.broker, node.turns.intake
    known = {*node.ports, 0}
    waiting = {number for number, pending in intake._pending.items() if pending.arrivals}
    fact = f"{node.name}: ports {sorted(known)}, waiting {waiting}"
    require(set(intake._pending) <= known | waiting, "nothing_leaks", f"intake, {fact}")
    require(set(broker.sessions) <= known | waiting, "nothing_leaks", f"sessions, {fact}")
    holders = {session.connection for session in broker.streams._holders.values()}
    require(holders <= set(broker.sessions), "nothing_leaks", f"streams, {fact}")
    for queue in broker.catalogue.by_id.values():
        readers = {consumer.connection for consumer in queue.consumers}
        require(readers <= set(broker.sessions), "nothing_leaks", f"consumers, {fact}")
    rows, counted = len(rows_of(node.store, keys.SPACE_PRODUCER)), broker.streams.producer_count
    require(
        rows == counted, "counters_equal_contents", f"{node.name}: {counted} of {rows} producers"
    )


def _link_within_budget(node: Node, link: Link) -> None:
    outbox: Any = link.outbox
    next_id = link.queue.counters.next_arrival
    fact = f"link {link.name} of {node.name}: {outbox}, next id {next_id}"
    require(outbox.commit_id <= outbox.sent_id < next_id, "within_budget", fact)
    require(outbox.sent_id <= outbox.commit_id + outbox.window, "within_budget", fact)


def accounts_balance(ledger: Ledger, watch: Watch) -> None:
    """Whatever was acknowledged arrived once and was consumed, whatever was refused did not."""
    homes: set[tuple[tuple[str, str], bytes]] = set()
    homes |= {(put.home, put.trailer) for put in ledger.puts if put.homes}
    rotten = {serial for _, serial in ledger.rotten}
    for put in ledger.puts:
        if put.home not in ledger.purges:
            # One that brought a UID and met it where it was bound for counts as that other one.
            arrived = put.homes or (put.uid and (put.home, put.trailer) in homes)
            arrived = arrived or put.serial in rotten  # Set aside before it went over its link.
            _account(put, bool(arrived))
    for view in watch.views.values():
        for (queue_id, arrival), held in view.held.items():
            name = view.queues[queue_id][0]
            fact = f"message {held.put.serial}, {arrival} of {name}"
            require(held.put.home in ledger.purges, "all_is_drained", fact)


def _account(put: Put, arrived: bool) -> None:
    fact = f"put {put.serial} of {put.producer} to {put.queue} at {put.where}: {put.answer!r}"
    if put.answer == "acked" or put.entered:
        require(arrived, "acknowledged_is_never_lost", fact)
    if put.answer not in ("", "acked"):
        require(not put.entered and not put.homes, "refused_is_not_stored", fact)
    if put.homes:
        require(put.removed, "all_is_drained", fact)


def settled_stays_settled(ledger: Ledger, watch: Watch) -> None:
    """No message whose ack was answered is there again."""
    for where, queue_id, arrival in ledger.settled:
        held = watch.views[where].held.get((queue_id, arrival))
        purged = held is not None and held.put.home in ledger.purges
        require(held is None or purged, "settled_is_durable", f"{queue_id}:{arrival} of {where}")
