"""The checkers that look on while it runs, at the two places where nothing can be hidden:

    durable    what a transaction changed, in the instant it is on disk
    released   what leaves a queue manager, behind the commit it stems from

They know the layout of the stored rows and the messages of the protocol, and nothing of how the
core comes to them. The names of the laws are those of RELIABILITY.md, section 8, and our own.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core import row as rows
from qmgrd.core.context import Outcome
from qmgrd.core.link_inbox import LinkInbox
from qmgrd.core.peer import Peer
from qmgrd.core.producer import Producer
from tests.sim.ledger import Ledger, Put, require
from tests.sim.node import Node
from tests.sim.store import Change

Handle = tuple[int, int]  # queue id and arrival
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.LINK_FENCED)
# Why a link is refused rightly: its address is that of another one, as an operator said.
LED_ASTRAY = re.compile(r"^PEER_WRONG: the queue manager at (\w+):\d+ is \1, not ")
ORDERLY = (*FENCED, ErrorCode.SHUTTING_DOWN, ErrorCode.CANCELLED)


@dataclass(slots=True)
class Held:
    """A message on a queue, as last made durable."""

    put: Put
    trailer: bytes
    target: str
    crashes: int  # of this queue manager, when it arrived


@dataclass(slots=True)
class Handed:
    """The last delivery of a message that left the queue manager."""

    lease: int
    connection: int
    deadline_ms: int  # store clock
    life: int  # of the process: leases die with it


@dataclass(slots=True)
class View:
    """What is known of one queue manager from outside."""

    queues: dict[int, tuple[str, str]] = field(default_factory=dict)  # id: name, kind
    inhibits: dict[int, frozenset[str]] = field(default_factory=dict)  # by queue id, as durable
    altered: set[str] = field(default_factory=set)  # queues, in the last transaction
    held: dict[Handle, Held] = field(default_factory=dict)
    uids: set[tuple[int, str, bytes]] = field(default_factory=set)  # on a queue now
    ever: set[tuple[str, bytes]] = field(default_factory=set)  # on a queue of that name, ever
    rows: dict[bytes, bytes] = field(default_factory=dict)  # windows, as last made durable
    told: dict[bytes, int] = field(default_factory=dict)  # stream: highest commit id that left
    handed: dict[Handle, Handed] = field(default_factory=dict)
    fresh: dict[tuple[int, int], int] = field(default_factory=dict)  # queue, priority: arrival
    order: dict[tuple[int, int, str], int] = field(default_factory=dict)  # and producer: serial
    life: int = 0
    crashes: int = 0
    fenced: set[int] = field(default_factory=set)
    clock: tuple[int, int, int] = (0, 0, 0)  # store clock ms, last stamp us, turn number


class Watch:
    """All views, and the laws. ``unordered`` are the queues that keep no order of producers."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.views: dict[str, View] = {}
        self.sent: dict[tuple[bytes, int], tuple[str, bytes]] = {}  # stream, id: target, UID
        self.gone: set[tuple[bytes, int]] = set()  # stream, id: set aside before it was sent
        self.unordered: set[tuple[str, str]] = set()
        self.deliveries = 0
        self.redeliveries = 0
        self.commits = 0
        self.refusals: dict[str, int] = {}
        self.blocked = 0

    def of(self, node: Node) -> View:
        """Return the view of *node*."""
        return self.views.setdefault(node.name, View())

    # What becomes durable

    def durable(self, node: Node, changes: list[Change]) -> None:
        """Judge a transaction."""
        view = self.of(node)
        rows_of_queues = [x.key for x in changes if x.key[:1] == keys.SPACE_QUEUE]
        view.altered = {key[1:].decode() for key in rows_of_queues}
        for change in changes:
            space = change.key[:1]
            if space == keys.SPACE_MESSAGE:
                self._message(node, view, change)
            elif space in (keys.SPACE_PRODUCER, keys.SPACE_LINK_INBOX):
                if change.new is None:
                    view.rows.pop(change.key, None)
                else:
                    view.rows[change.key] = rows.unseal(change.key, change.new)
            elif change.key == keys.CLOCK and change.new is not None:
                self._clock(node, view, change)
            elif space == keys.SPACE_QUEUE and change.new is not None:
                row = unpack(rows.unseal(change.key, change.new))
                view.queues[row["queue_id"]] = (change.key[1:].decode(), row["kind"])
                set_ = (key for key in ("put_inhibit", "get_inhibit") if row.get(key))
                view.inhibits[row["queue_id"]] = frozenset(set_)

    def _allows(self, view: View, queue_id: int, inhibit: str, fact: str) -> None:
        """Hold an inhibit to its word, but in the turn that may have lifted it meanwhile."""
        inhibited = inhibit in view.inhibits.get(queue_id, ())
        was_altered = view.queues[queue_id][0] in view.altered
        require(was_altered or not inhibited, "inhibited_is_held_back", fact)

    def _clock(self, node: Node, view: View, change: Change) -> None:
        assert change.new is not None
        row = keys.CLOCK_ROW.unpack(rows.unseal(change.key, change.new))
        store_ms, _, stamp_us, turn, _ = row
        before_ms, before_us, before = view.clock
        fact = f"{node.name}: {row} after {view.clock}"
        require(store_ms >= before_ms and stamp_us >= before_us, "clocks_never_go_back", fact)
        is_first = change.old is None  # A new store begins with turn 0.
        require(turn == before + (not is_first), "turns_are_counted", fact)
        view.clock = (store_ms, stamp_us, turn)

    def _message(self, node: Node, view: View, change: Change) -> None:
        queue_id, (_, arrival) = int.from_bytes(change.key[1:5], "big"), keys.place(change.key)
        if change.key[5] != keys.LANE_READY:
            return  # Set aside: the row that it leaves is judged.
        if change.old is None and change.new is not None:
            self._added(node, view, (queue_id, arrival), change.new)
        elif change.old is not None and change.new is None:
            self._removed(node, view, (queue_id, arrival))

    def _added(self, node: Node, view: View, handle: Handle, value: bytes) -> None:
        entry = entries.decode(value)
        record = entries.record(node.store, entry)
        put, trailer = self.ledger.of(record), entries.uid_trailer(entry)
        name, kind = view.queues[handle[0]]
        fact = f"message {put.serial} of {put.producer} on {name} at {node.name}"
        self._allows(view, handle[0], "put_inhibit", fact)
        uid = (handle[0], entry.target, trailer)
        require(uid not in view.uids, "one_message_of_a_uid_on_a_queue", fact)
        view.held[handle] = Held(put, trailer, entry.target, view.crashes)
        view.uids.add(uid)
        view.ever.add((name, trailer))
        if put.where == node.name:
            require(not put.entered, "nothing_is_doubled", fact)
            put.entered, put.trailer = True, trailer
        if kind == "transmission":
            stream = node.store_id + handle[0].to_bytes(8, "big")
            self.sent[stream, handle[1]] = (entry.target, trailer)
        else:
            require(put.home == (node.name, name), "delivered_was_accepted", fact)
            put.homes += 1
            require(put.homes == 1, "nothing_is_doubled", fact)

    def _removed(self, node: Node, view: View, handle: Handle) -> None:
        held = view.held.pop(handle)
        view.uids.discard((handle[0], held.target, held.trailer))
        name, kind = view.queues[handle[0]]
        fact = f"message {held.put.serial}, id {handle[1]} of {name} at {node.name}"
        if kind == "transmission":
            there = self.views[name[1:]].ever
            purged = (name[1:], held.target) in self.ledger.purges
            known = purged or (held.target, held.trailer) in there
            if not known and (node.name, held.put.serial) in self.ledger.rotten:
                self.gone.add((node.store_id + handle[0].to_bytes(8, "big"), handle[1]))
                return
            require(known, "deleted_is_held_by_the_receiver", fact)
            return
        held.put.removed = True
        if (node.name, held.put.serial) in self.ledger.rotten:
            return  # Perhaps set aside.
        if (node.name, name) not in self.ledger.purges:
            self._settled(node, view, handle, fact)

    def _settled(self, node: Node, view: View, handle: Handle, fact: str) -> None:
        """Only an ack removes a message: of its last lease, or after that was over."""
        leases = self.ledger.acks.get((node.name, *handle))
        require(leases, "removed_was_acknowledged", fact)
        handed = view.handed.get(handle)
        assert leases is not None
        if handed is None or handed.lease in leases:
            return
        require(self._is_over(node, view, handle, handed), "settled_by_its_holder", fact)

    def _is_over(self, node: Node, view: View, handle: Handle, handed: Handed) -> bool:
        """Return whether a lease has ended in a way that anybody could see."""
        port = node.ports.get(handed.connection)
        return (
            handed.life != view.life
            or handed.deadline_ms <= node.now().ms
            or port is None
            or port.peer.goaway is not None
            or (node.name, *handle, handed.lease) in self.ledger.releases
        )

    def stopped(self, node: Node, *, clean: bool) -> None:
        """Take note that a process, and with it all leases, is gone."""
        view = self.of(node)
        view.life += 1
        view.crashes += not clean

    # What leaves

    def released(self, node: Node, outcome: Outcome) -> None:
        """Judge what leaves *node*."""
        view = self.of(node)
        for connection, goaway in outcome.closes:
            if goaway.code in FENCED:
                view.fenced.add(connection)
            late = goaway.code == ErrorCode.STREAM_UNKNOWN and connection in view.fenced
            fact = f"{node.name} closes {connection}: {goaway.text}"
            known = late or goaway.code in ORDERLY
            require(known or goaway.code >= 700, "peers_keep_the_protocol", fact)
        for note in outcome.notes:
            refused = note.event == "link refused" and not LED_ASTRAY.search(note.facts["why"])
            require(not refused, "no_link_is_refused", f"{node.name}: {note.facts}")
        gone = {connection for connection, _ in outcome.closes}
        for connection, message in outcome.sends:
            kind = type(message)
            if kind is m.Deliver:
                self._deliver(node, view, connection, message, gone)
            elif kind is m.Blocked:
                self.blocked += 1
            elif kind is m.Committed:
                self._commit(node, view, connection, message.stream, message.commit_id)
            elif kind is m.Ok and type(message.value) is list and len(message.value) >= 4:
                self._commit(node, view, connection, message.value[0], message.value[1])

    def _commit(self, node: Node, view: View, connection: int, number: int, commit_id: int) -> None:
        session = node.turns.broker.sessions.get(connection)
        stream: Any = session and session.streams.get(number)
        if stream is None:
            return
        row = view.rows.get(stream.key)
        stored = 0
        if row is not None:
            stored = unpack(row)[1 if isinstance(stream, LinkInbox) else 0]
        fact = f"{commit_id} leaves {node.name} on {stream.identity.hex()}, {stored} is stored"
        require(commit_id <= stored, "acked_is_durable", fact)
        told = view.told.get(stream.identity, 0)
        require(commit_id >= told, "commit_id_grows", f"{fact}, {told} was told")
        view.told[stream.identity] = commit_id
        self.commits += isinstance(stream, LinkInbox)
        for seq_id in range(told + 1, commit_id + 1):
            self._is_held(node, view, stream, seq_id, fact)

    def _is_held(
        self, node: Node, view: View, stream: Producer | LinkInbox, seq_id: int, fact: str
    ) -> None:
        if isinstance(stream, LinkInbox):
            target, trailer = self.sent[stream.identity, seq_id]
            held = (target, trailer) in view.ever or (node.name, target) in self.ledger.purges
            held = held or (stream.identity, seq_id) in self.gone
        else:
            put = self.ledger.by_stream[stream.identity, seq_id]
            held = self.ledger.entered(put) or seq_id in stream.refused
            held = held or put.answer not in ("", "acked")
        require(held, "committed_is_held", f"id {seq_id}: {fact}")

    def _deliver(
        self, node: Node, view: View, connection: int, deliver: m.Deliver, gone: set[int]
    ) -> None:
        queue = node.turns.broker.catalogue.by_id.get(deliver.queue_id)
        self._allows(view, deliver.queue_id, "get_inhibit", f"a delivery of {node.name}")
        for item in deliver.items:
            priority, arrival, lease, _, _, state, _ = m.DELIVERY.unpack_from(item)
            handle = (deliver.queue_id, arrival)
            held = view.held.get(handle)
            fact = f"{handle} by {node.name}, state {state}"
            require(held is not None, "delivered_is_on_the_queue", fact)
            assert held is not None
            sound = (node.name, held.put.serial) not in self.ledger.rotten
            require(sound, "damaged_is_not_delivered", fact)
            self.deliveries += 1
            before = view.handed.get(handle)
            if before is None:
                self._first_time(view, handle, priority, held, state, fact)
            else:
                self._again(node, view, handle, before, state, fact, gone)
            known = queue and queue.leases.get(arrival)
            deadline_ms = known.deadline_ms if known else 0
            view.handed[handle] = Handed(lease, connection, deadline_ms, view.life)

    def _first_time(
        self, view: View, handle: Handle, priority: int, held: Held, state: int, fact: str
    ) -> None:
        require(not state & m.STATE_REDELIVERED, "redelivered_was_delivered", fact)
        if state & m.STATE_MAYBE_REDELIVERED:
            require(view.crashes > held.crashes, "maybe_has_a_crash", fact)
        queue_id, arrival = handle
        last = view.fresh.get((queue_id, priority), 0)
        require(arrival > last, "order_of_arrival", f"{fact} after {last}")
        view.fresh[queue_id, priority] = arrival
        if held.put.home in self.unordered:
            return
        key = (queue_id, priority, held.put.producer)
        last = view.order.get(key, -1)
        serial = held.put.serial
        require(serial > last, "order_per_producer", f"{fact}: {serial} after {last}")
        view.order[key] = serial

    def _again(
        self, node: Node, view: View, handle: Handle, before: Handed, state: int, fact: str,
        gone: set[int],
    ) -> None:  # fmt: skip
        self.redeliveries += 1
        over = before.connection in gone or self._is_over(node, view, handle, before)
        require(over, "delivered_again_has_a_cause", f"{fact}, lease {before.lease} is open")
        flags = m.STATE_REDELIVERED | m.STATE_MAYBE_REDELIVERED
        if before.life == view.life:
            flags = m.STATE_REDELIVERED
        require(state & flags, "delivered_again_is_flagged", fact)

    def protocol_broken(self, node: Node, peer: Peer, error: RemoteProtocolError) -> None:
        """Nobody in the simulator breaks the protocol on purpose."""
        fact = f"{peer.peer_name} to {node.name}: {error}"
        require(False, "peers_keep_the_protocol", fact)
