"""Queue managers, clients and wires under one clock, driven by a test, or at random by world.py."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.context.context import Dial
from qmgrd.core.turn import Turns
from tests.sim.ledger import Ledger, Violated
from tests.sim.node import Node, PeerPort
from tests.sim.user_law import Law
from tests.sim.watch import Watch
from tests.sim.wire import Flow, Port, Wire

WALL_START_US = 1_700_000_000_000_000
TRACE_LENGTH = 30
SETTLE_MAX = 5_000


class Dialler(Port, Protocol):
    """A client's end of a connection, which receives its wire."""

    def opened(self, wire: Wire) -> None:
        """Starts work on a new connection."""


class Lab:
    """The whole setup. Invariant: ``wires`` has each connection that either end regards as open."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = 1_000
        self.ledger = Ledger()
        self.watch = Watch(self.ledger)
        # listeners that are not queue managers
        self.strangers: dict[str, Callable[[], Dialler]] = {}
        self.silent_crashes = 0.0  # fraction of crashes that also stop the machine
        self.left: list[tuple[str, m.Message]] | None = None  # sent messages, if recorded
        self.nodes: dict[str, Node] = {}
        self.user_law: Law | None = None  # checks what users do, in worlds with users
        self.wires: list[Wire] = []
        self.dials: list[tuple[Node, Dial]] = []
        self.trace: deque[tuple[int, str, str]] = deque(maxlen=TRACE_LENGTH)

    def wall_us(self, node: Node) -> int:
        """Returns the wall clock of the machine of *node*."""
        return max(WALL_START_US + self.now_ms * 1_000 + node.wall_shift_us, 1)

    def is_lost(self, where: str, queue_id: int, arrival: int) -> bool:
        """Returns whether a restart loses a non-persistent message with this arrival."""
        queue = self.nodes[where].turns.broker.catalogue.by_id.get(queue_id)
        return queue is None or arrival < queue.origins.born

    def note(self, who: str, what: str) -> None:
        """Adds an event to the trace."""
        self.trace.append((self.now_ms, who, what))

    def add(self, config: Config, turns_type: type[Turns] = Turns) -> Node:
        """Returns a new, running queue manager."""
        node = Node(self, config, turns_type)
        self.nodes[node.name] = node
        node.start()
        return node

    def connect(self, near: Dialler, node: Node) -> bool:
        """Connects a client to *node*; returns whether a queue manager listens there."""
        if not node.up:
            return False
        far = PeerPort(node)
        self._join(near, far)
        return True

    def _join(self, near: Dialler, far: Dialler) -> None:
        wire = Wire(near, far)
        self.wires.append(wire)
        far.opened(wire)
        near.opened(wire)

    def answer_dial(self, index: int, *, fails: bool = False) -> None:
        """Answers a link's connection attempt with success or failure."""
        node, dial = self.dials.pop(index)
        host = dial.address.rpartition(":")[0]
        target = self.nodes.get(host)
        if host in self.strangers:
            self._join(PeerPort(node, dial), self.strangers[host]())
            return
        if fails or target is None or not target.up:
            self.note(node.name, f"dial {dial.address} fails")
            why = f"{dial.address}: nobody there"
            node.turns.intake.event(0, lambda broker: broker.dial_failed(dial, why))
            return
        self.note(node.name, f"dials {dial.address}")
        self._join(PeerPort(node, dial), PeerPort(target))

    def flows(self) -> list[Flow]:
        """Returns the flows that can be delivered now. The loops are inlined for speed."""
        return [
            flow
            for wire in self.wires
            for flow in wire.flows
            if (flow.data or flow.end) and not flow.over and not flow.clogged
        ]

    def sweep(self) -> None:
        """Forgets connections whose end was noticed by both sides."""
        if any(wire.flows[0].over for wire in self.wires):
            self.wires = [wire for wire in self.wires if not wire.over]

    def hand_over(self, flow: Flow) -> None:
        """Delivers all data in flight."""
        flow.deliver(1 << 30)

    def settle(self) -> None:
        """Runs everything that can happen while no time passes."""
        for _ in range(SETTLE_MAX):
            moved = False
            while self.dials:
                self.answer_dial(0)
                moved = True
            for flow in self.flows():
                self.hand_over(flow)
                moved = True
            for node in self.nodes.values():
                if node.wanted:
                    node.turn()
                    moved = True
            self.sweep()
            if not moved:
                return
        raise Violated("nothing_spins", f"no rest after {SETTLE_MAX} rounds")

    def advance(self, wait_ms: int) -> None:
        """Lets *wait_ms* pass, and stops at each timer."""
        until_ms = self.now_ms + wait_ms
        self.settle()
        while self.now_ms < until_ms:
            self.now_ms = min([until_ms, *self.deadlines()])
            for node in self.nodes.values():
                node.beat()
            self.settle()

    def deadlines(self) -> list[int]:
        """Returns the future times at which work is due."""
        found = [node.next_ms() for node in self.nodes.values()]
        return [max(due_ms, self.now_ms + 1) for due_ms in found if due_ms is not None]
