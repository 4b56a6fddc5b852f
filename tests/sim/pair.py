"""Two queue managers with a link, EWR to NYC, for tests that control each step."""

from random import Random
from typing import Any

from qmgr_client.message import Message, Outgoing, PutResult, encode
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.events import (
    Delivered,
    ProducerLost,
    PutDone,
    RequestDone,
    RequestFailed,
    SettleDone,
)
from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import RemoteProtocolError, RequestError
from qmgr_protocol.record import Uid
from qmgr_protocol.states import Side
from qmgrd.core.context.context import Outcome
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.link.link import Link
from qmgrd.core.peer import Peer
from qmgrd.core.queue.queue import Queue
from tests.sim.client import Asker
from tests.sim.lab import Lab
from tests.sim.node import Node, PeerPort
from tests.sim.store import Change
from tests.sim.watch import Watch
from tests.sim.wire import Wire

EDGE, HUB = "EWR", "NYC"
REMOTE = f"FLIGHTS@{HUB}"


class Blind(Watch):
    """A watch without invariants. Tests may restore stores or break rules, and check for errors."""

    def durable(self, node: Node, changes: list[Change]) -> None:
        del node, changes

    def released(self, node: Node, outcome: Outcome) -> None:
        del node, outcome

    def protocol_broken(self, node: Node, peer: Peer, error: RemoteProtocolError) -> None:
        del node, peer, error


class Caller:
    """The production client, driven by a test. ``results`` maps tickets to results."""

    def __init__(self, lab: Lab, node: Node, name: str) -> None:
        self.lab = lab
        self.node = node
        self.core = ClientCore(name, name.encode().ljust(16, b".")[:16])
        self.lives = 0
        self.wire: Wire | None = None
        self.results: dict[int, Any] = {}
        self.messages: list[Message] = []

    def opened(self, wire: Wire) -> None:
        self.wire = wire
        self.core.connected(self.lab.now_ms)
        self.flush()

    def received(self, data: bytes) -> None:
        self.core.receive(data, self.lab.now_ms)
        self.flush()

    def lost(self, why: str) -> None:
        self.wire = None
        self.core.connection_lost()

    def flush(self) -> None:
        """Sends pending bytes, and handles the events that occurred."""
        while self.wire is not None and (data := self.core.data_to_send(self.lab.now_ms)):
            self.wire.send(self, data)
        for event in self.core.events():
            if isinstance(event, PutDone):
                self.results[event.ticket] = event.result
            elif isinstance(event, SettleDone | RequestFailed):
                self.results[event.ticket] = event.error
            elif isinstance(event, RequestDone):
                self.results[event.ticket] = event.value
            elif isinstance(event, ProducerLost):
                self.lives += 1
                self.core.renew_producer(b"%016d" % self.lives)
                self.flush()
            elif isinstance(event, Delivered):
                while message := self.core.next_message(event.ticket, self.lab.now_ms):
                    self.messages.append(message)

    def settle_down(self) -> None:
        """Connects if necessary, and runs everything that can happen while no time passes."""
        if self.wire is None:
            self.lab.connect(self, self.node)
        self.flush()
        self.lab.settle()

    def put(
        self, queue: str, bodies: list[bytes], uids: list[Uid] | None = None
    ) -> list[PutResult | RequestError]:
        """Puts *bodies*, and returns the results."""
        given: list[Uid | None] = [*uids] if uids else [None] * len(bodies)
        tickets = [
            self.core.put(queue, encode(Outgoing(body, uid=uid)), uid)
            for body, uid in zip(bodies, given, strict=True)
        ]
        self.settle_down()
        return [self.results[ticket] for ticket in tickets]

    def request(self, kind: type[Any], *fields: Any) -> Any:
        """Returns the answer to a request with *fields*."""
        ticket = self.core.request(self.lab.now_ms, kind, *fields)
        self.settle_down()
        return self.results[ticket]

    def get(self, queue: str, count: int = 1_000) -> list[bytes]:
        """Gets messages and acks them, and returns their bodies."""
        found = self.request(m.Get, queue, count, 0, 0, 1 << 30)
        for message in found:
            self.core.settle(message, m.ACK)
        self.settle_down()
        return [message.body for message in found]


class Stranger:
    """A scripted listener that a link dials. A test defines its answers."""

    def __init__(self, name: str = HUB, store_id: bytes = b"N" * 16) -> None:
        self.welcome = m.Welcome(m.VERSION, name, store_id, 1)
        self.heard: list[Any] = []
        self.opens: Any = [1, 0, [], None, 1000, 1, 0, b""]  # the value of the reply to a LinkOpen
        self.wire: Wire | None = None

    def opened(self, wire: Wire) -> None:
        self.wire = wire
        self.connection = Connection(Side.LISTENER)

    def received(self, data: bytes) -> None:
        for message, _ in self.connection.receive(data, 0):
            self.heard.append(message)
            if type(message) is m.Hello:
                self.say(self.welcome)
            elif type(message) is m.LinkOpen:
                self.say(m.Ok(message.request_id, self.opens))

    def lost(self, why: str) -> None:
        self.wire = None

    def say(self, message: Any) -> None:
        """Sends *message*."""
        assert self.wire is not None
        self.wire.send(self, self.connection.send(message))

    def heard_of(self, kind: type[Any]) -> list[Any]:
        """Returns the received messages of one kind."""
        return [message for message in self.heard if type(message) is kind]


class Sender:
    """A scripted sender of a link, JFK, which uses the numbers that a test gives."""

    def __init__(self, pair: "Pair", *, opens: bool = True) -> None:
        self.pair = pair
        self.stream = 0
        self.said: list[Any] = []  # messages received from the hub
        self.dial()
        if opens:
            self.open()

    def dial(self) -> None:
        """Connects and sends a hello."""
        self.connection = Connection(Side.DIALLER)
        self.pair.connect(self, self.pair.hub)
        store_id = b"E" * 16
        self.say(m.Hello(m.MAGIC, m.VERSION, m.VERSION, "queue-manager", "JFK", [], store_id, 1))

    def open(self) -> None:
        """Opens the stream."""
        self.say(m.LinkOpen(1, b"E" * 16 + b"\0" * 8, 1, 100))
        for opened in [message for message in self.said if type(message) is m.Ok]:
            self.stream = opened.value[0]

    def put(self, *ids: int) -> None:
        """Sends messages with consecutive ids, which are in their bodies."""
        self.send_put(*ids)
        self.pair.settle()

    def send_put(self, *ids: int) -> None:
        """Sends the same messages as *put*, but leaves them on the wire."""
        records = [encode(Outgoing(b"%d" % i, Uid("JFK", 1_000 + i))) for i in ids]
        put = m.Put(self.stream, ids[0], 0, "FLIGHTS", records)
        self.wire.send(self, self.connection.send(put))

    def opened(self, wire: Wire) -> None:
        self.wire = wire

    def received(self, data: bytes) -> None:
        self.said += [message for message, _ in self.connection.receive(data, 0)]

    def lost(self, why: str) -> None:
        """Ignores the loss."""

    def say(self, message: Any) -> None:
        """Sends *message*, and runs everything that can happen while no time passes."""
        self.wire.send(self, self.connection.send(message))
        self.pair.settle()

    def commit_ids(self) -> list[int]:
        """Returns the received commit ids, and clears the list."""
        found = [message.commit_id for message in self.said if type(message) is m.Committed]
        self.said.clear()
        return found

    @property
    def goodbyes(self) -> list[int]:
        """The codes with which the hub has closed the connection."""
        return [message.code for message in self.said if type(message) is m.Goaway]


class Pair(Lab):
    """EWR with a link to NYC, which has a queue FLIGHTS.

    *edge* and *hub* are the sections of their configurations.
    """

    def __init__(
        self,
        edge: dict[str, Any] | None = None,
        hub: dict[str, Any] | None = None,
        *,
        linked: bool = True,
    ) -> None:
        super().__init__(Random(0))
        self.watch = Blind(self.ledger)
        self.left = []
        self.edge = self.add(_config(EDGE, edge))
        self.hub = self.add(_config(HUB, hub))
        self.at_edge = Asker(self, "operator", EDGE)
        self.at_hub = Asker(self, "operator", HUB)
        self.app = Caller(self, self.edge, "app")
        self.reader = Caller(self, self.hub, "reader")
        self.at_hub.ask(lambda i: m.QueueCreate(i, "FLIGHTS"))
        if linked:
            self.make_link()

    def make_link(self, host: str = HUB) -> None:
        """Defines the link and the remote queue."""
        self.at_edge.ask(lambda i: m.LinkCreate(i, HUB, {"addresses": [f"{host}:7470"]}))
        self.at_edge.ask(lambda i: m.QueueCreate(i, REMOTE))

    @property
    def link(self) -> Link:
        """The link, as EWR has it in memory."""
        return self.edge.turns.broker.catalogue.links[HUB]

    def queue(self, node: Node, name: str) -> Queue:
        """Returns a queue from the memory of its queue manager."""
        found = node.turns.broker.catalogue.queues[name]
        assert isinstance(found, Queue)
        return found

    def link_wire(self) -> Wire:
        """Returns the connection of the link."""
        (wire,) = (
            wire
            for wire in self.wires
            if isinstance(wire.flows[0].port, PeerPort) and not wire.flows[0].over
        )
        return wire

    def cut_link(self) -> None:
        """Breaks the link's connection, and loses the bytes in flight."""
        for flow in self.link_wire().flows:
            flow.data.clear()
            flow.end = "cut"

    def put(self, count: int, queue: str = REMOTE, size_bytes: int = 20) -> list[bytes]:
        """Puts messages at EWR, and returns their bodies."""
        bodies = [b"%06d" % i + b"." * (size_bytes - 6) for i in range(count)]
        results = self.app.put(queue, bodies)
        assert all(isinstance(result, PutResult) for result in results), results
        return bodies

    def sent(self) -> list[int]:
        """Returns the ids that EWR sent to NYC, including repeated ids, and clears the list."""
        puts = [message for name, message in self._taken(EDGE) if type(message) is m.Put]
        return [seq_id for put in puts for seq_id in range(put.first_id, _end(put))]

    def commits(self) -> list[int]:
        """Returns the commit ids that NYC sent to EWR, and clears the list."""
        return [x.commit_id for _, x in self._taken(HUB) if type(x) is m.Committed]

    def goodbyes(self, name: str) -> list[int]:
        """Returns the codes with which *name* closed connections, and clears its sent messages."""
        return [x.code for _, x in self._taken(name) if type(x) is m.Goaway]

    def _taken(self, name: str) -> list[tuple[str, Any]]:
        assert self.left is not None
        found = [pair for pair in self.left if pair[0] == name]
        self.left = [pair for pair in self.left if pair[0] != name]
        return found


def _end(put: m.Put) -> int:
    return put.first_id + len(put.records)


def stored(node: Node, queue: Queue) -> dict[int, str]:
    """Returns the arrival and UID of each message stored on *queue*."""
    lane = keys.lane(queue.id, keys.LANE_READY)
    found: dict[int, str] = {}
    for key, value in node.store.scan(lane, keys.after(lane)):
        trailer = entries.uid_trailer(entries.decode(value))
        found[keys.place(key)[1]] = f"{trailer[:-8].decode()}.{int.from_bytes(trailer[-8:], 'big')}"
    return found


def _config(name: str, sections: dict[str, Any] | None) -> Config:
    sections = dict(sections or {})
    sections["link"] = {"inbound": "any"} | sections.get("link", {})
    return Config.model_validate({"queue_manager": {"name": name}, **sections})
