"""The checkers that look at a store and a broker at rest, between two turns."""

from collections import defaultdict
from typing import Any

from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core.counters import Counters
from qmgrd.core.link import Link
from qmgrd.core.queue import Queue
from qmgrd.store.memory import MemoryStore
from tests.sim.ledger import Ledger, require
from tests.sim.node import Node
from tests.sim.watch import Watch


def rows_of(store: MemoryStore, space: bytes) -> list[tuple[bytes, bytes]]:
    """Return all rows of a key space."""
    return list(store.scan(space, keys.after(space)))


def audit(node: Node, watch: Watch) -> None:
    """Hold what *node* has stored, and what it believes, against each other."""
    jobs = [unpack(row) for _, row in rows_of(node.store, keys.SPACE_JOB)]
    dropped = {job["queue_id"] for job in jobs if job["kind"] == "drop"}
    counters_equal_contents(node, dropped)
    uid_index_agrees(node, dropped)
    origin_table_covers(node, dropped)
    bodies_are_referenced(node)
    seen = {handle for handle, held in watch.of(node).held.items()}
    stored = {(queue_id, keys.place(key)[1]) for queue_id, key, _ in _messages(node.store)}
    require(seen == stored, "contents_as_watched", f"{node.name}: {seen ^ stored}")
    if node.up:
        within_budget(node)
        for queue in node.turns.broker.catalogue.by_id.values():
            ready_is_found(node, queue)


def _messages(store: MemoryStore) -> list[tuple[int, bytes, entries.Entry]]:
    return [
        (int.from_bytes(key[1:5], "big"), key, entries.decode(value))
        for key, value in rows_of(store, keys.SPACE_MESSAGE)
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
    for key, row in rows_of(node.store, keys.SPACE_COUNTERS):
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
        keys.of_queue(keys.SPACE_UID, queue_id) + entries.uid_trailer(entry): key[5:]
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
    table = {key: int.from_bytes(row, "big") for key, row in rows_of(node.store, keys.SPACE_ORIGIN)}
    for queue_id, _, entry in _messages(node.store):
        if queue_id in dropped:
            continue
        trailer = entries.uid_trailer(entry)
        highest = table.get(keys.of_queue(keys.SPACE_ORIGIN, queue_id) + trailer[:-8], -1)
        timestamp = int.from_bytes(trailer[-8:], "big")
        fact = f"{node.name}, queue {queue_id}: {timestamp} of {trailer[:-8]!r} over {highest}"
        require(timestamp <= highest, "origin_table_covers", fact)


def bodies_are_referenced(node: Node) -> None:
    """Each body row belongs to an entry, and each long entry has all of its own."""
    expected: set[bytes] = set()
    for _, key, entry in _messages(node.store):
        if entry.kind == entries.IN_ROWS:
            body_id = int.from_bytes(entry.rest[:8], "big")
            count = entries.rows_of(entries.record_bytes(entry))
            expected |= {keys.body(body_id, chunk) for chunk in range(count)}
        record = entries.record(node.store, entry)
        records.check(record)
        require(record, "bodies_are_referenced", f"{node.name}: {key.hex()} has no record")
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
        found = arrival in queue.leases or arrival >= queue._heads[priority]
        fact = f"{arrival} of {queue.name} at {node.name} lies before {queue._heads[priority]}"
        require(found, "ready_is_found", fact)
    fact = f"{queue.name} at {node.name}: {count} there, {len(queue.leases)} leased"
    require(count == queue.ready + len(queue.leases), "counters_equal_contents", fact)


def within_budget(node: Node) -> None:
    """Windows, leases and what hangs on connections keep to their limits."""
    broker = node.turns.broker
    for queue in broker.catalogue.by_id.values():
        fact = f"{queue.name} at {node.name}: {len(queue.leases)} leases, depth {queue.counters.depth}"
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


def _link_within_budget(node: Node, link: Link) -> None:
    outbox: Any = link.outbox
    next_id = link.queue.counters.next_arrival
    fact = f"link {link.name} of {node.name}: {outbox}, next id {next_id}"
    require(outbox.commit_id <= outbox.sent_id < next_id, "within_budget", fact)
    require(outbox.sent_id <= outbox.commit_id + outbox.window, "within_budget", fact)


def accounts_balance(ledger: Ledger, watch: Watch) -> None:
    """Whatever was acknowledged arrived once and was consumed, whatever was refused did not."""
    homes: dict[tuple[tuple[str, str], bytes], int] = defaultdict(int)
    for put in ledger.puts:
        if put.homes:
            homes[put.home, put.trailer] += 1
    for put in ledger.puts:
        fact = f"put {put.serial} of {put.producer} to {put.queue} at {put.where}: {put.answer!r}"
        if put.home in ledger.purges:
            continue
        if put.answer == "acked":
            # One that brought a UID and met it where it was bound for counts as that other one.
            arrived = put.homes or (put.uid and homes[put.home, put.trailer])
            require(arrived, "acknowledged_is_never_lost", fact)
        if put.answer not in ("", "acked"):
            require(not put.entered and not put.homes, "refused_is_not_stored", fact)
        if put.entered:
            there = put.homes or (put.uid and homes[put.home, put.trailer])
            require(there, "acknowledged_is_never_lost", f"{fact}, entered")
        if put.homes:
            require(put.removed, "all_is_drained", fact)
    for view in watch.views.values():
        for (queue_id, arrival), held in view.held.items():
            name = view.queues[queue_id][0]
            odd = held.put.home in ledger.purges
            require(odd, "all_is_drained", f"message {held.put.serial}, {arrival} of {name}")


def settled_stays_settled(ledger: Ledger, watch: Watch) -> None:
    """No message whose ack was answered is there again."""
    for where, queue_id, arrival in ledger.settled:
        held = watch.views[where].held.get((queue_id, arrival))
        purged = held is not None and held.put.home in ledger.purges
        require(held is None or purged, "settled_is_durable", f"{queue_id}:{arrival} of {where}")
