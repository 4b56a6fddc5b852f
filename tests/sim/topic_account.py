"""The invariants of a world of topics, as a ledger of each subscription and publication.

    published, to each subscriber ──▶ came ──▶ consumed, expired, evicted, purged, dead letter
                                 ╰─▶ missed  │  ▲
                                             ▼  │ by an operator
                                           parked ──▶ dropped, by an operator

A subscription gets all publications from number ``first`` on, and those that its topics retained
earlier.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import topic as topics
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import RemoteProtocolError
from qmgrd.core.context.context import Outcome
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.peer import Peer
from tests.sim.durable import Place
from tests.sim.ledger import DEAD_LETTERS, Put, is_watched, require
from tests.sim.node import Node
from tests.sim.store import Change
from tests.sim.view import Handle, Held, View
from tests.sim.watch import Watch

NEVER = 1 << 62
NOBODYS = "/weather"  # This topic may have no subscribers. Then its publications leave no trace.


@dataclass(slots=True)
class Sub:
    """A subscription, from its beginning to its end. Publications are identified by serial."""

    name: str
    row: dict[str, Any]  # the row, as it was last made durable
    expected: set[int] = field(default_factory=set)
    # publications that were retained when the subscription began, and still are
    late: set[int] = field(default_factory=set)
    retained: int = 0  # number of publications that were retained when the subscription began
    came: set[int] = field(default_factory=set)
    # non-persistent publications that were lost in transit
    excused: set[int] = field(default_factory=set)
    # maps a serial to the tick in which the publication was parked
    parked: dict[int, int] = field(default_factory=dict)
    # publications that were republished and are still on the subscription
    again: set[int] = field(default_factory=set)
    gone: dict[int, str] = field(default_factory=dict)
    may_miss: bool = False
    is_new: bool = True
    has_ended: bool = False

    def has_lost(self, view: View, held: Held) -> bool:
        """Returns whether a restart removed a publication. Parked ones survive a restart."""
        serial = held.put.serial
        return view.is_lost(held) and serial not in self.parked and serial not in self.again

    @property
    def manager(self) -> str:
        """The queue manager to which a proxy sends publications."""
        return self.name.partition("@")[2]

    def wants(self, put: Put) -> bool:
        """Returns whether the subscription matches a publication."""
        where, topic = self.row.get("where", ""), put.queue[1:]
        fits = topics.fits(topics.filter_of(self.row["topic"]), topics.levels_of(topic))
        return fits and where in ("", f"kind = '{put.traits.kind}'")


@dataclass(slots=True)
class Decision:
    """An operator's decision: to republish or to drop parked publications."""

    where: str
    is_drop: bool
    subscriptions: list[str]
    trailer: bytes
    until: int = NEVER  # tick of the answer, if one has arrived
    sent: int = 0  # number of sends, because a repeat over a lost connection may take effect late

    def covers(self, where: str, sub: Sub, put: Put) -> bool:
        """Returns whether the decision applies to a publication that was parked at that time."""
        named = not self.subscriptions or sub.name in self.subscriptions
        meant = named and self.trailer in (b"", put.trailer)
        return meant and where == self.where and self.until >= sub.parked[put.serial]


class TopicAccount(Watch):
    """The invariants of all subscriptions and publications."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.subs: dict[str, dict[int, Sub]] = {}  # subscriptions by queue manager and queue id
        self.proxies: dict[str, dict[str, Sub]] = {}  # proxies by queue manager and name
        self.published: dict[str, dict[int, int]] = {}  # maps serials to arrivals, by queue manager
        self.retained: dict[tuple[str, str], int] = {}  # serial, by queue manager and topic
        self.decisions: list[Decision] = []
        self.units: list[tuple[list[Put], list[str]]] = []  # puts of each unit, with the answers
        # True if publications are republished on a schedule, or when a subscriber is healthy
        self.is_scheduled = False
        self.tick = 0  # number of transactions so far
        self._came_at: dict[int, int] = {}  # maps a serial to the tick in which it was published

    def named(self, where: str, name: str) -> Sub | None:
        """Returns the current subscription *name*."""
        return next((sub for sub in self.live(where) if sub.name == name), None)

    def live(self, where: str) -> Iterator[Sub]:
        """Yields the subscriptions of a queue manager, except its proxies."""
        return (sub for sub in self.subs[where].values() if not sub.has_ended)

    def durable(self, node: Node, changes: list[Change]) -> None:
        self.tick += 1
        self.subs.setdefault(node.name, {})
        self.proxies.setdefault(node.name, {})
        self.published.setdefault(node.name, {})
        view = self.of(node)
        for change in changes:
            if change.key[:1] == keys.SPACE_QUEUE:
                self._subscription(node.name, change)
            elif change.key[:1] == keys.SPACE_RETAINED and change.new is None and change.old:
                arrival = int.from_bytes(rows.unseal(change.key, change.old), "big")
                self._replaced(node.name, change.key[1:].decode(), arrival)
            # The subscription was created and removed in the same turn.
            elif change.key[:1] == keys.SPACE_COUNTERS:
                queue_id = int.from_bytes(change.key[1:], "big")
                view.queues.setdefault(queue_id, ("", "subscription"))
        super().durable(node, changes)
        for sub in self.live(node.name):
            if sub.is_new:
                self._begins(node.name, sub)

    # -- subscriptions

    def _subscription(self, where: str, change: Change) -> None:
        name = change.key[1:].decode()
        row = unpack(rows.unseal(change.key, change.new)) if change.new else {}
        if "@" in name and ":" in name:
            self.proxies[where].setdefault(name, Sub(name, row))
            return
        subs, queue_id = self.subs[where], row.get("queue_id", 0)
        for known, sub in subs.items():
            if sub.name == name and known != queue_id:
                sub.has_ended = True
        if row.get("kind") == "subscription":
            sub = subs.setdefault(queue_id, Sub(name, row))
            sub.row = row
            sub.may_miss |= "depth_max" in row or bool(row.get("suspended"))

    def _begins(self, where: str, sub: Sub) -> None:
        """Makes a new subscription expect the publications that its topics retained before."""
        sub.is_new = False
        for (place, _), serial in self.retained.items():
            put = self.ledger.puts[serial]
            if place == where and self.published[where][serial] < sub.row["first"]:
                sub.retained += sub.wants(put)
                if sub.wants(put) and not put.traits.expiry_ms:
                    sub.late.add(serial)

    def _replaced(self, where: str, topic: str, arrival: int) -> None:
        """Records that a topic now retains another publication, or none."""
        serial = self.retained.get((where, topic), -1)
        if serial < 0 or self.published[where][serial] > arrival:
            return
        del self.retained[where, topic]
        for sub in self.live(where):
            if serial not in sub.came:
                sub.late.discard(serial)

    # -- messages

    def _messages(self, node: Node, view: View, changes: list[Change]) -> None:
        before, after = self._places(view, changes)
        arrived = [handle for handle in after if handle not in before]
        left = [handle for handle in before if handle not in after]
        for handle in sorted(arrived, key=lambda handle: (handle[0] < 1 << 31, handle)):
            self._comes(node, view, handle, *after[handle])
        dead = {
            view.held[handle].put.serial
            for handle in arrived
            if view.queues[handle[0]][0] == DEAD_LETTERS
        }
        for handle, place in after.items():
            sub = self.subs[node.name].get(handle[0])
            if sub is not None and not sub.has_ended:
                was = before.get(handle, (keys.LANE_READY, b""))
                self._lies(node.name, sub, view.held[handle].put, was[0], place[1])
        for handle in sorted(left):
            self._leaves(node, view, handle, before[handle], dead)

    def _comes(self, node: Node, view: View, handle: Handle, key: bytes, place: Place) -> None:
        entry, (name, kind) = entries.decode(place[1]), view.queues[handle[0]]
        record = entries.record(node.store, entry)
        require(record, "publication_is_kept", f"{handle[1]} of {name} at {node.name} has none")
        put = self.ledger.of(record, node.name)
        fact = f"publication {put.serial} to {put.queue} on {name} at {node.name}"
        view.held[handle] = Held(
            put,
            entries.uid_trailer(entry),
            entry.target,
            keys.place(key)[0],
            view.crashes,
            view.life,
            False,
            entry.expires_ms,
            0,
            node.outcomes,
        )
        if kind == "publications":
            require(entry.target == put.queue[1:], "delivered_was_accepted", fact)
            self._published(node, put, handle[1], entries.uid_trailer(entry), fact)
        elif name == DEAD_LETTERS:
            pushed = any(sub.may_miss for sub in self.subs[node.name].values())
            require(pushed, "dead_letters_have_a_cause", fact)
            self.happened["dead letters"] += 1
        elif kind == "transmission":
            self.happened["carried"] += 1
        elif (sub := self.subs[node.name].get(handle[0])) is not None and not sub.has_ended:
            require(put.serial not in sub.came, "nothing_is_doubled", fact)
            known = put.serial in sub.expected
            late = put.traits.retained and sub.wants(put) and handle[1] < sub.row["first"]
            require(known or late, "nobody_else_gets_it", fact)
            sub.came.add(put.serial)
            self.happened["references"] += 1
            self.happened["retained given"] += not known

    def _published(self, node: Node, put: Put, arrival: int, trailer: bytes, fact: str) -> None:
        where, published = node.name, self.published[node.name]
        require(put.serial not in published, "nothing_is_doubled", fact)
        came = (
            put.where == where
            or put.queue == NOBODYS
            or any(
                put.serial in self.published[other] and proxy.wants(put)
                for other, proxies in self.proxies.items()
                for proxy in proxies.values()
                if proxy.manager == where
            )
        )
        require(came, "keeps_to_its_way", fact)
        published[put.serial] = arrival
        put.entered, put.trailer = True, trailer
        if put.where == where:
            self._came_at[put.serial] = self.tick
        self.happened["published"] += 1
        for sub in (*self.live(where), *self.proxies[where].values()):
            known = arrival >= sub.row["first"] and sub.wants(put)
            if known and (not sub.manager or sub.manager != put.where):
                sub.expected.add(put.serial)
        if put.traits.retained:
            self._replaced(where, put.queue[1:], arrival)
            self.retained[where, put.queue[1:]] = put.serial

    def _lies(self, where: str, sub: Sub, put: Put, was: int, place: Place) -> None:
        """Checks the new position of a publication on a subscription."""
        entry, serial = entries.decode(place[1]), put.serial
        fact = f"publication {serial} to {put.queue} on {sub.name} at {where}"
        if place[0] == keys.LANE_PARKED:
            if was != keys.LANE_PARKED:
                sub.parked[serial] = self.tick
                sub.again.discard(serial)
                self.happened["parked"] += 1
            return
        is_again = bool(entry.flags & entries.REPUBLISHED)
        if serial in sub.parked or is_again != (serial in sub.again):
            sub.parked.setdefault(serial, self.tick)  # It may have been parked in this turn.
            asked = any(not x.is_drop and x.covers(where, sub, put) for x in self.decisions)
            require(asked or self.is_scheduled, "republished_as_decided", fact)
            fresh = (entry.delivered, entry.failed) == (0, 0)
            require(fresh and is_again, "republished_begins_anew", fact)
            del sub.parked[serial]
            sub.again.add(serial)
            self.happened["republished"] += 1

    def _leaves(self, node: Node, view: View, handle: Handle, was: Place, dead: set[int]) -> None:
        require(handle in view.held, "nothing_is_doubled", f"{handle} left twice at {node.name}")
        held = view.held.pop(handle)
        put, (name, kind) = held.put, view.queues[handle[0]]
        fact = f"publication {put.serial} to {put.queue}, {handle[1]} of {name} at {node.name}"
        if kind == "publications":
            self._is_held_by_nobody(node, view, put, handle[1], fact)
        elif kind == "transmission":
            there = put.serial in self.published.get(name[1:], ())
            require(there or _may_vanish(put), "deleted_is_held_by_the_receiver", fact)
        elif (sub := self.subs[node.name].get(handle[0])) is not None:
            how = self._fate(node, sub, handle, held, was, dead)
            require(how, "acknowledged_is_never_lost", f"{fact}, {was[0]}")
            require(put.serial not in sub.gone, "nothing_is_doubled", fact)
            sub.gone[put.serial] = how
            put.consumed += how == "consumed"
            self.happened[how] += 1
            if how == "consumed" and put.serial in sub.again:
                self.happened["consumed again"] += 1
            sub.parked.pop(put.serial, None)

    def _fate(
        self, node: Node, sub: Sub, handle: Handle, held: Held, was: Place, dead: set[int]
    ) -> str:
        """Returns the reason why a publication left a subscription, or "" if it had no cause."""
        put, where = held.put, node.name
        if sub.has_ended:
            return "ended"
        if (where, *handle) in self.ledger.acks:
            return "consumed"
        if sub.has_lost(self.of(node), held):
            return "lost"
        if 0 < entries.decode(was[1]).expires_ms <= node.now().ms:
            return "expired"
        sub.parked.setdefault(put.serial, self.tick)  # It may have been parked in this turn.
        asked = {x.is_drop for x in self.decisions if x.covers(where, sub, put)}
        if True in asked:
            return "dropped"
        if was[0] == keys.LANE_PARKED and not (asked or self.is_scheduled):
            return ""  # Otherwise, the publication was republished in this turn, and then left.
        if (where, sub.name) in self.ledger.purges:
            return "purged"
        if sub.may_miss:
            return "dead" if put.serial in dead else "pushed out"
        return ""

    def _is_held_by_nobody(self, node: Node, view: View, put: Put, arrival: int, fact: str) -> None:
        kept = self.retained.get((node.name, put.queue[1:])) == put.serial
        require(not kept, "publication_is_kept", f"{fact}: it is retained")
        for queue_id, sub in self.subs[node.name].items():
            is_there = (queue_id, arrival) in view.held and view.held[queue_id, arrival].put is put
            missed = put.serial in sub.expected - sub.came - sub.excused and not sub.may_miss
            odd = is_there or (missed and not sub.has_ended)
            require(not odd, "publication_is_kept", f"{fact}: {sub.name} lacks it")

    # -- departures

    def released(self, node: Node, outcome: Outcome) -> None:
        for note in outcome.notes:
            self.happened[note.event] += 1
        view = self.of(node)
        for _, message in outcome.sends:
            if type(message) is not m.Deliver:
                continue
            sub = self.subs[node.name].get(message.queue_id)
            if sub is None or not is_watched(view.queues[message.queue_id][0]):
                continue
            for item in message.items:
                _, arrival, _, _, _, state, _ = m.DELIVERY.unpack_from(item)
                held = view.held.get((message.queue_id, arrival))
                fact = f"{arrival} of {sub.name} by {node.name}, state {state}"
                there = held is not None and held.put.serial not in sub.parked
                require(there, "delivered_is_on_the_queue", fact)
                assert held is not None
                lost = sub.has_lost(view, held)
                require(not lost, "volatile_is_gone_after_a_restart", fact)
                again = held.put.serial in sub.again
                told = bool(state & m.STATE_REPUBLISHED)
                require(again == told, "republished_is_flagged", fact)
                self.happened["deliveries"] += 1

    def stopped(self, node: Node, *, clean: bool) -> None:
        super().stopped(node, clean=clean)
        for sub in self.subs.get(node.name, {}).values():
            on_the_way = sub.expected - sub.came
            sub.excused |= {x for x in on_the_way if self.ledger.puts[x].traits.volatile}

    def protocol_broken(self, node: Node, peer: Peer, error: RemoteProtocolError) -> None:
        fact = f"{peer.peer_name} to {node.name}: {error}"
        is_hostile = (node.name, peer.number) in self.ledger.hostile
        require(is_hostile, "peers_keep_the_protocol", fact)

    # -- at rest

    def each_got_its_own(self, node: Node) -> None:
        """Checks that each subscription got the publications that it must get.

        Publications that it missed, or that were evicted in the turn of their arrival, are only
        counted.
        """
        if keys.FAN_OUT in node.store.rows:
            return
        for sub in self.live(node.name):
            queue_id = sub.row["queue_id"]
            key = keys.of_queue(keys.SPACE_COUNTERS, queue_id)
            c = Counters.decode(rows.unseal(key, node.store.rows[key]))
            uncounted = c.missed + c.puts - len(sub.came)
            most = len(sub.expected - sub.came) + sub.retained
            lacks = sub.expected - sub.came - sub.excused
            fact = f"{sub.name} at {node.name}: lacks {sorted(lacks)}, {uncounted} uncounted, {c}"
            # The subscription may have missed publications while it had no subscriber.
            unseen = sub.row["topic"] == "#"
            most = NEVER if unseen else most
            require(sub.may_miss or not uncounted, "each_gets_its_own", fact)
            require(len(lacks) <= uncounted <= most, "each_gets_its_own", fact)

    def is_held(self) -> bool:
        """Returns whether any message is stored, apart from retained publications."""
        return any(
            view.queues[queue_id][1] != "publications"
            for view in self.views.values()
            for queue_id, _ in view.held
            if is_watched(view.queues[queue_id][0])
        )

    def balance(self) -> None:
        """Checks all accounts against each other when everything is at rest."""
        for where, view in self.views.items():
            kept = {
                held.put.serial
                for (queue_id, _), held in view.held.items()
                if view.queues[queue_id][1] == "publications"
            }
            retained = {serial for (at, _), serial in self.retained.items() if at == where}
            require(kept == retained, "nothing_is_kept_for_nobody", f"{where}: {kept ^ retained}")
            for sub in self.live(where):
                lacks = sub.came ^ sub.gone.keys()
                require(not lacks, "all_is_drained", f"{sub.name} at {where}: {lacks}")
                lacks = sub.late - sub.came
                fact = f"{sub.name} at {where}: {lacks} were retained"
                require(sub.may_miss or not lacks, "each_gets_its_own", fact)
            for proxy in self.proxies[where].values():
                for serial in proxy.expected - self.published[proxy.manager].keys():
                    fact = f"publication {serial} did not come to {proxy.manager}"
                    put = self.ledger.puts[serial]
                    require(_may_vanish(put), "acknowledged_is_never_lost", fact)
        for puts, answers in self.units:
            ticks = {self._came_at.get(put.serial, 0) for put in puts}
            fact = f"{[put.serial for put in puts]}: {ticks}, {answers}"
            require(len(ticks) <= 1, "unit_is_all_or_nothing", fact)
            require("acked" not in answers or 0 not in ticks, "unit_is_all_or_nothing", fact)


def _may_vanish(put: Put) -> bool:
    """Returns whether a publication may disappear before the end of its route."""
    return bool(put.traits.expiry_ms or put.traits.volatile or put.queue == NOBODYS)
