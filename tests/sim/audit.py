"""Checks that examine a store and a broker at rest, that is, between two turns."""

from collections import Counter, defaultdict
from typing import Any

from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import RequestError
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.link.inbox import InboundPath
from qmgrd.core.link.link import Link
from qmgrd.core.queue.queue import Queue
from tests.memory_store import MemoryStore
from tests.qmgrd.core.audit_groups import audit_groups
from tests.sim.audit_publications import parked_is_on_the_list, publications_are_held
from tests.sim.audit_rows import Stored, origin_table_covers, rows_lead_to_messages, rows_of
from tests.sim.ledger import (
    HOSTILE,
    SERIAL,
    Ledger,
    Put,
    Violated,
    body_at,
    described,
    is_watched,
    require,
)
from tests.sim.node import Node
from tests.sim.watch import Watch

COUNTED = (
    "depth",
    "bytes",
    "delayed",
    "parked",
    "grouped",
    "volatile",
    "volatile_delayed",
    "volatile_bytes",
)


def audit(node: Node, watch: Watch) -> None:
    """Checks the stored data of *node* against its state in memory."""
    jobs = [unpack(row) for _, row in rows.scan(node.store, keys.SPACE_JOB)]
    dropped = {job["queue_id"] for job in jobs if job["kind"] == "drop" and not job["ended_us"]}
    born: dict[int, int] = {}
    for job in jobs:
        if job["kind"] == "sweep" and not job["ended_us"]:
            born[job["queue_id"]] = max(job["before"], born.get(job["queue_id"], 0))
    stored = _messages(node.store, born)
    kept = [one for one in stored if one.queue_id not in dropped]
    counters_equal_contents(node, stored, dropped)
    rows_lead_to_messages(node, kept, dropped)
    origin_table_covers(node, stored, dropped)
    bodies_are_referenced(node, watch.ledger.rotten)
    contents_as_watched(node, watch, stored)
    publications_are_held(node, stored)
    parked_is_on_the_list(node, stored)
    if node.up:
        within_budget(node)
        nothing_leaks(node)
        groups_agree(node, dropped)
        for queue in node.turns.broker.catalogue.by_id.values():
            ready_is_found(node, queue, born.get(queue.id, 0))


def contents_as_watched(node: Node, watch: Watch, stored: list[Stored]) -> None:
    """Checks that the stored messages are exactly those that arrived and did not leave."""
    view = watch.of(node)
    seen = view.held.keys()
    found = {
        (one.queue_id, one.arrival) for one in stored if is_watched(view.queues[one.queue_id][0])
    }
    require(seen == found, "contents_as_watched", f"{node.name}: {seen ^ found}")


def _messages(store: MemoryStore, born: dict[int, int]) -> list[Stored]:
    found = []
    for key, value in rows_of(store, keys.SPACE_MESSAGE):
        if key[keys.POSITION_AT] == keys.LANE_DAMAGED:
            continue
        entry, queue_id = entries.decode(value), int.from_bytes(key[1:5], "big")
        is_lost = entry.volatile and keys.place(key)[1] < born.get(queue_id, 0)
        found.append(Stored(queue_id, key, entry, is_lost))
    return found


def counters_equal_contents(node: Node, stored: list[Stored], dropped: set[int]) -> None:
    """Checks that the counters of a queue match its messages, each of which must count once."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for one in stored:
        counts, size = found[one.queue_id], entries.record_bytes(one.entry)
        counts["last"] = max(counts["last"], one.arrival)
        counts["grouped"] += one.key[keys.POSITION_AT] == keys.LANE_GROUPED
        if one.is_lost:
            continue
        if one.is_parked:
            counts["parked"] += 1
            continue
        lane = "delayed" if one.is_delayed else "depth"
        counts[lane] += 1
        counts["bytes"] += size
        if one.entry.volatile:
            counts["volatile_delayed" if one.is_delayed else "volatile"] += 1
            counts["volatile_bytes"] += size
    known: set[int] = set()
    for key, row in rows.scan(node.store, keys.SPACE_COUNTERS):
        queue_id = int.from_bytes(key[1:], "big")
        known.add(queue_id)
        if queue_id in dropped:
            continue
        c, counts = Counters.decode(row), found[queue_id]
        fact = f"queue {queue_id} of {node.name}: {c}, found {dict(counts)}"
        same = all(getattr(c, name) == counts[name] for name in COUNTED)
        require(same, "counters_equal_contents", fact)
        gone = c.acked + c.purged + c.damaged + c.expired + c.dead + c.moved + c.lost
        balanced = c.puts == gone + c.depth + c.delayed + c.parked == c.fast + c.slow
        require(balanced, "counters_equal_contents", fact)
        require(c.next_arrival > counts["last"], "counters_equal_contents", fact)
    orphans = {x for x in set(found) - known - dropped if found[x]["depth"] + found[x]["delayed"]}
    require(not orphans, "counters_equal_contents", f"{node.name}: {orphans} have no counters")


def bodies_are_referenced(node: Node, rotten: set[tuple[str, int]]) -> None:
    """Checks that each body row belongs to an entry, and each long entry has all body rows."""
    expected: set[bytes] = set()
    for key, value in rows_of(node.store, keys.SPACE_MESSAGE):
        entry = entries.decode(value)
        if entry.in_rows:
            body_id = int.from_bytes(entry.rest[:8], "big")
            count = entries.rows_of(entries.record_bytes(entry))
            expected |= {keys.body(body_id, chunk) for chunk in range(count)}
        record = entries.record(node.store, entry)
        there = record or not entry.shared
        require(
            there, "publications_are_held", f"{node.name}: {key.hex()} belongs to no publication"
        )
        try:
            records.check(record)
        except RequestError as error:
            _, serial = SERIAL.unpack_from(record, body_at(record))
            fact = f"{node.name}: {key.hex()}: {error}"
            require((node.name, serial) in rotten, "bodies_are_referenced", fact)
    unowned = {key[keys.REST] for key, _ in rows_of(node.store, keys.SPACE_UNOWNED)}
    found = {
        key for key, _ in rows_of(node.store, keys.SPACE_BODY) if key[keys.BODY_ID] not in unowned
    }
    fact = f"{node.name}: {[key.hex() for key in found ^ expected]}"
    require(found == expected, "bodies_are_referenced", fact)


def ready_is_found(node: Node, queue: Queue, born: int) -> None:
    """Checks that each message is leased, or is not before the read position of its priority."""
    count = 0
    for lane, heads in (
        (keys.LANE_READY, queue.positions.ready),
        (keys.LANE_GROUPED, queue.positions.grouped),
    ):
        prefix = keys.lane(queue.id, lane)
        for key, value in node.store.scan(prefix, keys.after(prefix)):
            priority, arrival = keys.place(key)
            entry = entries.decode(value)
            if arrival < born and entry.volatile:
                continue  # The message was lost at a restart, but is not swept yet.
            count += 1
            found = arrival in queue.leases or arrival >= heads[priority]
            # The message is not available, but is due.
            found = found or 0 < entry.expires_ms <= node.now().ms
            found = found or _is_stopped(node, queue, entry)
            fact = f"{arrival} of {queue.name} at {node.name} is before {heads[priority]}"
            require(found, "ready_is_found", fact)
    fact = f"{queue.name} at {node.name}: {count} found, {len(queue.leases)} leased"
    require(count == queue.ready + len(queue.leases), "counters_equal_contents", fact)


def _is_stopped(node: Node, queue: Queue, entry: entries.Entry) -> bool:
    """Returns whether a message is in a stopped group, which is searched when the group resumes."""
    group = index.selected_by(entries.front(node.store, entry))[1]
    row = group and queue.groups.row(node.store, group[0])
    return bool(row and row.is_stopped)


def groups_agree(node: Node, dropped: set[int]) -> None:
    """Checks that stored groups, and the known holders of groups, match the messages."""
    found: dict[int, dict[bytes, bytes]] = defaultdict(dict)
    for space in (
        keys.SPACE_MESSAGE,
        keys.SPACE_GROUP,
        keys.SPACE_GROUP_ROW,
        keys.SPACE_CHAIN,
        keys.SPACE_COMPLETE,
    ):
        for key, value in rows_of(node.store, space):
            found[int.from_bytes(key[1:5], "big")][key] = _own(node.store, key, value)
    bodies = dict(rows_of(node.store, keys.SPACE_BODY))
    for queue in node.turns.broker.catalogue.by_id.values():
        if queue.id in dropped:
            continue
        try:
            audit_groups(found[queue.id] | bodies, queue)
        except AssertionError as error:
            raise Violated("groups_agree", f"{queue.name} at {node.name}: {error}") from error


def _own(store: MemoryStore, key: bytes, value: bytes) -> bytes:
    """Returns the *value* of a row. A reference is resolved as if its record were inline."""
    entry = entries.decode(value) if key[:1] == keys.SPACE_MESSAGE else None
    if entry is None or not entry.shared:
        return value
    own = entry._replace(flags=entry.flags & ~entries.SHARED, rest=entries.record(store, entry))
    return entries.encode(own)


def within_budget(node: Node) -> None:
    """Checks that windows, leases and the state of each connection stay within their limits."""
    broker = node.turns.broker
    for queue in broker.catalogue.by_id.values():
        fact = (
            f"{queue.name} at {node.name}: {len(queue.leases)} leases, depth {queue.counters.depth}"
        )
        require(len(queue.leases) <= queue.bounds.leases_max, "within_budget", fact)
        if queue.references is not None or queue.name.startswith(HOSTILE):
            continue  # The limit may have been lowered; the refusals are counted.
        others = queue.messages if queue.bounds.overflow == "refuse" else queue.uncommitted.messages
        require(others <= queue.bounds.depth_max, "within_budget", fact)
        depth = queue.messages - queue.uncommitted.messages  # Held messages make room later.
        require(depth <= queue.bounds.depth_max, "within_budget", fact)
    for link in broker.catalogue.links.values():
        _link_within_budget(node, link)
    for session in broker.sessions.values():
        for found in session.streams.values():
            stream = found.stream if isinstance(found, InboundPath) else found
            inbox = stream.inbox
            fact = f"{stream.key.hex()} at {node.name}: {inbox}"
            ahead = inbox.ahead or {inbox.commit_id + 2}
            require(min(ahead) > inbox.commit_id + 1, "within_budget", fact)
            require(max(ahead) <= inbox.commit_id + inbox.window + 1, "within_budget", fact)


def nothing_leaks(node: Node) -> None:
    """Checks that the state of a connection is freed when it ends, and counts rows."""
    broker, intake = node.turns.broker, node.turns.intake
    known = {*node.ports, 0}
    waiting = {number for number, pending in intake._pending.items() if pending.arrivals}
    fact = f"{node.name}: ports {sorted(known)}, waiting {waiting}"
    require(set(intake._pending) <= known | waiting, "nothing_leaks", f"intake, {fact}")
    require(set(broker.sessions) <= known | waiting, "nothing_leaks", f"sessions, {fact}")
    holders = {session.connection for session in broker.streams._holders.values()}
    require(holders <= set(broker.sessions), "nothing_leaks", f"streams, {fact}")
    for stream in broker.streams.links.open_streams.values():
        inflows = stream.paths.values()
        known_here = all(
            inbound_path.session.streams.get(inbound_path.number) is inbound_path
            for inbound_path in inflows
        )
        connections = {inbound_path.session.connection for inbound_path in inflows}
        are_open = inflows and known_here and connections <= set(broker.sessions)
        require(bool(are_open), "nothing_leaks", f"paths of {stream.peer}, {fact}")
    held = Counter(
        put.queue.id
        for session in broker.sessions.values()
        for unit in session.units.values()
        for put in unit.puts
    )
    for queue in broker.catalogue.by_id.values():
        count = held[queue.id]
        same = (queue.uncommitted.messages, len(queue.uncommitted.arrivals)) == (count, count)
        require(same, "nothing_leaks", f"{queue.name} holds {queue.uncommitted.messages}, {fact}")
        readers = {consumer.connection for consumer in queue.waiting}
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
    """Checks that each acknowledged message was consumed once, or left for a known reason.

    No other message may have been consumed.
    """
    homes: set[tuple[tuple[str, str], bytes]] = set()
    homes |= {(put.home, put.trailer) for put in ledger.puts if put.homes}
    rotten = {serial for _, serial in ledger.rotten}
    for put in ledger.puts:
        if not ledger.forgets(put.home):
            # If the UID of a put already existed at its target, the put counts as the existing
            # message.
            arrived = put.homes or (put.uid and (put.home, put.trailer) in homes)
            # The message was set aside before it crossed its link.
            arrived = arrived or put.serial in rotten
            _account(put, bool(arrived or put.strayed))
    for name, view in watch.views.items():
        for (queue_id, arrival), held in view.held.items():
            queue = view.queues[queue_id][0]
            fact = f"message {held.put.serial}, {arrival} of {queue}"
            require((name, queue) in ledger.purges, "all_is_drained", fact)


def _account(put: Put, arrived: bool) -> None:
    fact = f"{described(put)}: {put.answer!r}, {put.fate!r}, consumed {put.consumed} times"
    if put.answer == "acked" or put.entered:
        require(arrived, "acknowledged_is_never_lost", fact)
    if put.answer not in ("", "acked"):
        require(not put.entered and not put.homes, "refused_is_not_stored", fact)
    if put.homes:
        require(put.removed, "all_is_drained", fact)
        ends = put.consumed + bool(put.fate)
        require(ends, "acknowledged_is_never_lost", fact)
        require(ends == 1, "nothing_is_doubled", fact)


def units_balance(ledger: Ledger) -> None:
    """Checks that each committed unit took effect completely, and other units had no effect."""
    for unit in ledger.units:
        put = [one.serial for one in unit.puts if one.entered]
        fact = f"{described(unit)}: {unit.answer!r}, {put} exist"
        if unit.answer == "acked":
            require(ledger.entered(unit), "unit_is_all_or_nothing", fact)
        elif unit.answer:
            require(not unit.entered and not put, "unit_is_all_or_nothing", fact)
        else:
            some = unit.entered or not put
            require(some, "unit_is_all_or_nothing", fact)


def settled_stays_settled(ledger: Ledger, watch: Watch) -> None:
    """Checks that no message that was successfully acknowledged exists again."""
    for where, queue_id, arrival in ledger.settled:
        held = watch.views[where].held.get((queue_id, arrival))
        purged = (where, watch.views[where].queues[queue_id][0]) in ledger.purges
        require(held is None or purged, "settled_is_durable", f"{queue_id}:{arrival} of {where}")
