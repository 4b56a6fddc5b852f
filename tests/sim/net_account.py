"""The invariants of a net of queue managers: each message is consumed once, at its destination.

A restored store can only cause these losses and duplicates. "Then" is the content of the backup,
"now" is the content before the restore, and "since" are the messages that arrived after the backup:

    lost at most       on a queue now, but not then
    doubled at most    then and since, because the message may have moved on, or be sent again

A message with a time to live may have expired. If a message that arrived over a link is lost, an
event must report the loss. The only exception is a sender that was also restored to a state before
it had the message. In this case, no queue manager knows the message.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgrd.core.context.context import Outcome
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.peer import Peer
from qmgrd.core.queue import notes
from tests.sim.durable import Place
from tests.sim.ledger import DEAD_LETTERS, EVENTS, Ledger, Put, body_at, require
from tests.sim.node import Node
from tests.sim.store import Change
from tests.sim.view import Handle, Held, View
from tests.sim.watch import Watch

NOWHERE = "NOWHERE"  # destination of messages that travel in a circle


@dataclass(slots=True)
class Saved:
    """A backup, which has the rows of a store and the matching view."""

    rows: dict[bytes, bytes]
    view: View
    came: int  # number of messages that had arrived at the time of the backup


class NetAccount(Watch):
    """The invariants of a net.

    ``circle`` has the queue managers that have a route to the queue manager "nowhere". ``ordered``
    and ``fetched`` contain links as pairs of both ends: those that keep the order, and those that
    the peer dials.
    """

    def __init__(self, ledger: Ledger, way: Callable[[str, str], list[str]]) -> None:
        super().__init__(ledger)
        self._way = way
        self.circle: set[str] = set()
        self.ordered: set[tuple[str, str]] = set()
        self.fetched: set[tuple[str, str]] = set()
        self.may_be_lost: set[int] = set()
        self.may_be_doubled: set[int] = set()
        self.put_back_count = 0
        self.restored: set[str] = set()  # queue managers whose store was restored
        self._came: defaultdict[str, list[int]] = defaultdict(list)  # serials by queue manager
        self._at: set[tuple[str, int]] = set()  # queue manager, and a serial that was ever on it
        self._on: set[tuple[str, str, int]] = set()  # the same, and the queue
        # Number of messages that a queue manager reported as possibly lost, by sender
        self._told: Counter[tuple[str, str]] = Counter()
        # upper bound of the messages that were lost there
        self._over_links: defaultdict[str, set[int]] = defaultdict(set)
        # messages that have arrived since the backup
        self._forgotten: defaultdict[str, set[int]] = defaultdict(set)
        self._last: dict[tuple[str, str], int] = {}  # maps producer and target to the last arrival

    def save(self, node: Node) -> Saved:
        """Returns a backup of *node*."""
        return Saved(dict(node.store.rows), _copied(self.of(node)), len(self._came[node.name]))

    def put_back(self, node: Node, saved: Saved) -> None:
        """Restores *node*, which is stopped, from its backup."""
        view = self.of(node)
        now, then = _places(view), _places(saved.view)
        since = self._came[node.name][saved.came :]
        lost = {serial for _, serial in now - then}
        self.may_be_lost |= lost
        self.may_be_doubled |= {serial for _, serial in then} | set(since)
        self._on -= {(node.name, queue, serial) for queue, serial in now - then}
        elsewhere = {
            held.put.serial
            for other in self.views.values()
            if other is not view
            for held in other.held.values()
        }
        self._over_links[node.name] |= {
            serial for serial in lost - elsewhere if self.ledger.puts[serial].where != node.name
        }
        self._forgotten[node.name] |= set(since)
        self.views[node.name] = replace(_copied(saved.view), life=view.life, crashes=view.crashes)
        node.store.rows.clear()
        node.store.rows.update(saved.rows)
        self.put_back_count += 1
        self.restored.add(node.name)
        self.happened["stores restored"] += 1

    def durable(self, node: Node, changes: list[Change]) -> None:
        super().durable(node, changes)
        view = self.of(node)
        for change in changes:
            if change.key[:1] != keys.SPACE_MESSAGE or change.old is not None or not change.new:
                continue
            if view.queues[int.from_bytes(change.key[1:5], "big")][0] == EVENTS:
                record = entries.record(node.store, entries.decode(change.new))
                text = record[body_at(record) :].decode(errors="replace")
                told, _ = json.JSONDecoder().raw_decode(text)  # The UID comes after the event.
                if told["event"] == "link messages lost":
                    self._told[node.name, told["link"]] += told["lost"]

    def balance(self) -> None:
        """Checks the consumed messages against the puts when all work is done."""
        lost = set()
        for put in self.ledger.puts:
            fact = f"message {put.serial} from {put.where} to {put.queue}: {put.consumed} consumed"
            serial, is_there = put.serial, put.consumed or not put.entered
            excused = serial in self.may_be_lost or put.traits.expiry_ms
            require(is_there or excused, "acknowledged_is_never_lost", fact)
            once = put.consumed <= 1 or serial in self.may_be_doubled
            require(once, "nothing_is_doubled", fact)
            if not (is_there or put.traits.expiry_ms):
                lost.add(serial)
        for name, over in self._over_links.items():
            # The sender may also have been restored, and not know that it ever had the message.
            others = (x for other, x in self._forgotten.items() if other != name)
            known = (lost & over).difference(*others)
            by_sender = Counter(self._sender(self.ledger.puts[serial], name) for serial in known)
            for sender, count in by_sender.items():
                told = self._told[name, sender]
                fact = f"{name}: of {sorted(known)} {told} were reported, {count} are of {sender}"
                require(told >= count, "losses_are_told", fact)
        self.happened["lost with a store"] = len(lost)
        doubled = sum(put.consumed > 1 for put in self.ledger.puts)
        self.happened["doubled by a store"] = doubled

    def _sender(self, put: Put, where: str) -> str:
        """Returns the queue manager that sent *put* to *where*."""
        target = where if put.home[0] == NOWHERE else put.home[0]
        way = self._way(put.where, target)
        return way[way.index(where) - 1]

    def is_held(self) -> bool:
        """Returns whether any queue holds a message."""
        return any(view.held for view in self.views.values())

    def held_by_queue(self) -> dict[str, int]:
        """Returns the number of messages on each queue."""
        found = Counter(
            f"{name}:{view.queues[queue_id][0]}"
            for name, view in self.views.items()
            for queue_id, _ in view.held
        )
        return dict(found)

    def has(self, where: str, queue: str) -> bool:
        """Returns whether a queue holds a message."""
        view = self.views[where]
        return any(view.queues[queue_id][0] == queue for queue_id, _ in view.held)

    def _messages(self, node: Node, view: View, changes: list[Change]) -> None:
        """Checks departures, then arrivals. No message moves between the queues of one manager."""
        before, after = self._places(view, changes)
        for handle in before.keys() - after.keys():
            self._leaves(node, view, handle)
        for handle, (key, place) in after.items():
            if handle not in before:
                self._comes(node, view, handle, key, place)

    def _comes(self, node: Node, view: View, handle: Handle, key: bytes, place: Place) -> None:
        lane, value = place
        entry = entries.decode(value)
        put = self.ledger.of(entries.record(node.store, entry), node.name)
        name, kind = view.queues[handle[0]]
        fact = f"message {put.serial} from {put.where} to {put.queue} on {name} at {node.name}"
        require(lane in keys.LANES_READY, "nothing_before_its_time", fact)
        view.held[handle] = Held(
            put,
            entries.uid_trailer(entry),
            entry.target,
            keys.place(key)[0],
            view.crashes,
            view.life,
            False,
            0,
            0,
            node.outcomes,
        )
        again = (node.name, name, put.serial) in self._on
        require(not again or put.serial in self.may_be_doubled, "nothing_is_doubled", fact)
        self._on.add((node.name, name, put.serial))
        self._at.add((node.name, put.serial))
        self._came[node.name].append(put.serial)
        put.entered = True
        self.happened["hops"] += 1
        if kind == "transmission":
            is_way = self._is_way(put.where, put.home[0], node.name, name[1:])
            require(is_way, "keeps_to_its_way", fact)
            return
        put.homes += 1
        if put.home[0] == NOWHERE:
            circled = name == DEAD_LETTERS and node.name in self.circle
            require(circled, "what_goes_in_a_circle_is_a_dead_letter", fact)
            self.happened["circles"] += 1
        else:
            is_refused = (
                name == DEAD_LETTERS and node.name == put.home[0] and _is_refused(node, handle)
            )
            require(is_refused or put.home == (node.name, name), "delivered_was_accepted", fact)
            self.happened["refused to users"] += is_refused
            self._in_order(put.producer, node.name, put.serial, put.where, fact)

    def _is_way(self, source: str, target: str, here: str, to: str) -> bool:
        """Returns whether a message may pass from *here* to *to*."""
        if target == NOWHERE:
            return {here, to} <= self.circle
        return (here, to) in pairwise(self._way(source, target))

    def _in_order(self, producer: str, target: str, serial: int, source: str, fact: str) -> None:
        hops = pairwise(self._way(source, target))
        if self.put_back_count or not all(hop in self.ordered for hop in hops):
            return
        last = self._last.get((producer, target), -1)
        require(serial > last, "order_per_producer", f"{fact}, after {last}")
        self._last[producer, target] = serial

    def _leaves(self, node: Node, view: View, handle: Handle) -> None:
        held = self._take_off(view, handle)
        name, kind = view.queues[handle[0]]
        if kind != "transmission":
            held.put.consumed += 1
            return
        fact = f"message {held.put.serial}, id {handle[1]} of {name} at {node.name}"
        there = (name[1:], held.put.serial) in self._at
        require(there or held.put.traits.expiry_ms, "deleted_is_held_by_the_receiver", fact)

    def released(self, node: Node, outcome: Outcome) -> None:
        for note in outcome.notes:
            self.happened[note.event] += 1
            if note.event == "link refused":
                excused = self.restored & {node.name, note.facts["link"]}
                require(excused, "no_link_is_refused", f"{node.name}: {note.facts}")

    def protocol_broken(self, node: Node, peer: Peer, error: RemoteProtocolError) -> None:
        fact = f"{peer.peer_name} to {node.name}: {error}"
        is_hostile = (node.name, peer.number) in self.ledger.hostile
        require(is_hostile, "peers_keep_the_protocol", fact)


def _is_refused(node: Node, handle: Handle) -> bool:
    """Returns whether a dead letter is a message that the user of its link could not put."""
    code = notes.read(node.store, handle[0], handle[1]).get("code")
    return code == ErrorCode.SENDER_NOT_AUTHORIZED


def _copied(view: View) -> View:
    """Returns a copy of *view*."""
    return replace(
        view,
        queues=dict(view.queues),
        attributes=dict(view.attributes),
        rows=dict(view.rows),
        held={handle: replace(held) for handle, held in view.held.items()},
    )


def _places(view: View) -> set[tuple[str, int]]:
    """Returns the serials on each queue."""
    return {
        (view.queues[queue_id][0], held.put.serial) for (queue_id, _), held in view.held.items()
    }
