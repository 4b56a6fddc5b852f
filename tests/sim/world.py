"""A network of queue managers that lives from one seed.

    EWR ──┐            each edge: LOCAL, and FLIGHTS@NYC, DELAYS@NYC, LATE@NYC, SCRATCH@NYC
    JFK ──┼──▶ NYC     the hub:   FLIGHTS, DELAYS, LATE, SCRATCH, LOCAL, and REPLIES@EWR back
    LGA ──┘

A step picks one thing to happen. Then everything is healed, and has to come to rest in a bounded
time; the laws are checked on the way (watch.py) and at rest (audit.py).
"""

import hashlib
from bisect import bisect
from collections import Counter
from itertools import accumulate
from random import Random
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.record import Uid
from qmgrd.core.turn import Turns
from tests.sim import audit, scenario
from tests.sim.app import App
from tests.sim.client import Asker
from tests.sim.consumer import Consumer
from tests.sim.lab import Lab
from tests.sim.ledger import require
from tests.sim.node import Node, PeerPort
from tests.sim.producer import Producer
from tests.sim.scenario import EDGES, HUB, PORT
from tests.sim.wire import Wire

STEPS = 4_000
REST_MAX_MS = 30 * 60_000
REST_MAX_ROUNDS = 20_000
IDLE_TURNS_MAX = 10
JUMPS_MS = (-86_400_000 * 3_650, -3_600_000, -1_000, 1_000, 3_600_000, 86_400_000 * 365)


class World(Lab):
    """Everything of one seed. ``hits`` counts what happened."""

    def __init__(self, seed: int, *, steps: int = STEPS, turns_type: type[Turns] = Turns) -> None:
        super().__init__(Random(seed))
        self.seed = seed
        self.silent_crashes = 0.2
        self.hits: Counter[str] = Counter()
        self.steps = 0
        self.scenario = scenario.choose(self.random, steps)
        for name in (HUB, *EDGES):
            self.add(scenario.config(self.random, name), turns_type)
        self.askers = {name: Asker(self, f"operator-{name}", name) for name in self.nodes}
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.apps: list[App] = []
        self._define()
        self._populate()
        # A link goes on behind what its target refuses: order ends where a queue is full or missing.
        self.watch.unordered |= {(HUB, "DELAYS"), (HUB, "LATE"), (HUB, "SCRATCH")}
        calm = {"deliver": 40, "turn": 30, "act": 22, "time": 8, "dial": 4, "unclog": 2, "start": 2}
        self._kinds = list(calm) + list(self.scenario.faults)
        self._sums = list(accumulate([*calm.values(), *self.scenario.faults.values()]))

    @property
    def clients(self) -> list[Producer | Consumer | App]:
        """All that act for themselves."""
        return [*self.producers, *self.consumers, *self.apps]

    # The beginning

    def _define(self) -> None:
        """Create queues and links, while nothing fails yet."""
        for name, asker in self.askers.items():
            asker.dial()
            for queue, attributes in self._queues(name):
                asker.want(lambda i, q=queue, a=attributes: m.QueueCreate(i, q, a))
            peers = [HUB] if name != HUB else ["EWR"]
            for peer in peers:
                address = {"addresses": [f"{peer}:{PORT}"]}
                asker.want(lambda i, p=peer, a=address: m.LinkCreate(i, p, a))
            for queue in self._remotes(name):
                asker.want(lambda i, q=queue: m.QueueCreate(i, q))
        self.settle()
        require(not any(asker.todo for asker in self.askers.values()), "setup", "not done")

    def _queues(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        if name != HUB:
            return [("LOCAL", {})] if name != "EWR" else [("LOCAL", {}), ("REPLIES", {})]
        depth_max = self.scenario.depth_max
        queues: list[tuple[str, dict[str, Any]]] = [("LOCAL", {}), ("FLIGHTS", {}), ("SCRATCH", {})]
        queues.append(("DELAYS", {"depth_max": depth_max} if depth_max else {}))
        return queues if self.scenario.late else [*queues, ("LATE", {})]

    def _remotes(self, name: str) -> list[str]:
        if name == HUB:
            return ["REPLIES@EWR"]
        return [f"{queue}@{HUB}" for queue in ("FLIGHTS", "DELAYS", "LATE", "SCRATCH")]

    def _populate(self) -> None:
        random = self.random
        shared: list[Uid] = []
        for name in self.nodes:
            queues = [*self._remotes(name), *dict(self._queues(name))]
            for number in range(random.randint(0, 2)):
                some = random.sample(queues, random.randint(1, len(queues)))
                habits = scenario.producer_habits(random, some, shared)
                self.producers.append(Producer(self, f"{name}-p{number}", name, habits))
            for number in range(random.randint(0, 2)):
                some = random.sample(queues, random.randint(1, len(queues)))
                own = random.choice(list(dict(self._queues(name))))
                puts = scenario.producer_habits(random, some, shared)
                reads = scenario.consumer_habits(random, own)
                self.apps.append(App(self, f"{name}-a{number}", name, puts, reads))
        homes = [(HUB, q) for q in ("FLIGHTS", "DELAYS", "LATE", "SCRATCH", "LOCAL")]
        homes += [(name, "LOCAL") for name in EDGES] + [("EWR", "REPLIES")]
        for where, queue in homes:
            for number in range(random.choice([1, 1, 2])):
                habits = scenario.consumer_habits(random, queue)
                self.consumers.append(Consumer(self, f"{queue}-c{number}", where, habits))

    # The middle

    def run(self) -> None:
        """Live through all steps, heal, come to rest, and check."""
        for _ in range(self.scenario.steps):
            self.step()
        self.heal()
        self.rest()
        self.check()

    def step(self) -> None:
        """Have one thing happen."""
        self.steps += 1
        index = bisect(self._sums, self.random.random() * self._sums[-1])
        kind = self._kinds[index]
        did = getattr(self, "_" + kind.replace(" ", "_").replace("'", ""))()
        if did is not False:
            self.hits[kind] += 1
        elif not self._deliver():
            self._turn()
        if self.steps % 250 == 0:
            for node in self.nodes.values():
                audit.audit(node, self.watch)

    def _deliver(self) -> bool:
        flows = self.flows()
        if not flows:
            return False
        random = self.random
        size = random.choice([1, random.randint(2, 200), random.randint(60, 9_000), 1 << 30])
        random.choice(flows).deliver(size)
        self.sweep()
        return True

    def _turn(self) -> bool:
        wanting = [node for node in self.nodes.values() if node.wanted]
        if not wanting:
            return False
        self.turn_of(self.random.choice(wanting))
        return True

    def turn_of(self, node: Node) -> None:
        """Run a turn, and see to it that a queue manager that wants turns gets somewhere."""
        node.turn()
        fact = f"{node.idle_turns} turns of {node.name} did nothing, and it wants another"
        require(node.idle_turns < IDLE_TURNS_MAX or not node.wanted, "nothing_spins", fact)

    def _act(self) -> None:
        random = self.random
        if random.random() < 0.05:
            self._operate(random.choice(list(self.askers.values())))
        for clients in (self.producers, self.consumers, self.apps):
            if clients:
                random.choice(clients).act()

    def _operate(self, asker: Asker) -> None:
        """Have an operator look at things, or purge what is there to be purged."""
        asker.dial()
        if len(asker.todo) > 3:
            return
        random = self.random
        shows: list[Any] = [
            lambda i: m.QueueShow(i, "LOCAL"),
            lambda i: m.QueueList(i),
            lambda i: m.LinkList(i),
            lambda i: m.Status(i),
            lambda i: m.Browse(i, "LOCAL"),
        ]
        if asker.where == HUB and random.random() < 0.1:
            self.ledger.purges.add((HUB, "SCRATCH"))
            shows = [
                lambda i: m.QueuePurge(i, "SCRATCH"),
                lambda i: m.QueueDelete(i, "SCRATCH", True),
                lambda i: m.QueueCreate(i, "SCRATCH"),
                lambda i: m.QueueCreate(i, "LATE"),
            ]
        asker.want(random.choice(shows))

    def _time(self) -> None:
        self.pass_to(min(self.deadlines(), default=self.now_ms + 1))

    def pass_to(self, now_ms: int) -> None:
        """Let the time be *now_ms*, and do the heartbeats of all."""
        self.now_ms = now_ms
        for node in self.nodes.values():
            node.beat()
        for client in (*self.clients, *self.askers.values()):
            client.poll()

    def _dial(self) -> bool:
        if not self.dials:
            return False
        self.answer_dial(self.random.randrange(len(self.dials)))
        return True

    def _unclog(self) -> bool:
        clogged = [f for wire in self.wires for f in wire.flows if f.clogged]
        if not clogged:
            return False
        self.random.choice(clogged).clogged = False
        return True

    def _start(self) -> bool:
        down = [node for node in self.nodes.values() if not node.up]
        if not down:
            return False
        node = self.random.choice(down)
        self.note(node.name, "starts")
        node.start()
        return True

    # The faults

    def _some_wire(self) -> Wire:
        """Return a wire, every other time one of a link: there are few of these."""
        links = [w for w in self.wires if isinstance(w.flows[0].port, PeerPort)]
        return self.random.choice(links if links and self.random.random() < 0.5 else self.wires)

    def _delay_news(self, wire: Wire) -> None:
        """Have one end learn late that it is over, and get late what was sent before."""
        if self.random.random() < 0.5:
            self.random.choice(wire.flows).clogged = True

    def _cut(self) -> bool:
        if not self.wires:
            return False
        wire = self._some_wire()
        wire.cut(self.random)
        self._delay_news(wire)
        self.note("wire", "cut")
        return True

    def _half_open(self) -> bool:
        """Have the end that dialled lose a connection whose other end goes on for a while."""
        if not self.wires:
            return False
        lost, late = self._some_wire().flows
        lost.data.clear()
        lost.end = lost.end or "connection reset"
        late.end = late.end or "connection reset"
        late.clogged = True
        self.note("wire", "half open")
        return True

    def _dark(self) -> bool:
        if not self.wires:
            return False
        self._some_wire().go_dark()
        self.note("wire", "dark")
        return True

    def _clog(self) -> bool:
        flows = [f for wire in self.wires for f in wire.flows if not f.over]
        for flow in self.random.sample(flows, min(len(flows), self.random.randint(1, 4))):
            flow.clogged = True
        return bool(flows)

    def _dial_fails(self) -> bool:
        if not self.dials:
            return False
        self.answer_dial(self.random.randrange(len(self.dials)), fails=True)
        return True

    def _some_node(self) -> Node | None:
        running = [node for node in self.nodes.values() if node.up]
        return self.random.choice(running) if running else None

    def _crash(self) -> bool:
        node = self._some_node()
        if node is not None:
            self.note(node.name, "crash between turns")
            node.die()
        return node is not None

    def _crash_before(self) -> bool:
        return self._crash_in_turn("before")

    def _crash_after(self) -> bool:
        return self._crash_in_turn("after")

    def _crash_in_turn(self, when: str) -> bool:
        node = self._some_node()
        if node is None or not node.turns.wanted:
            return False
        node.store.crash = when
        node.turn()
        return True

    def _stop(self) -> bool:
        node = self._some_node()
        if node is not None:
            self.note(node.name, "stops in good order")
            node.stop()
        return node is not None

    def _turn_fails(self) -> bool:
        node = self._some_node()
        if node is not None:
            node.fail_turn()
        return node is not None

    def _peers_turn_fails(self) -> bool:
        node = self._some_node()
        if node is None or not node.ports:
            return False
        node.fail_turn(self.random.choice(list(node.ports)))
        return True

    def _wall_jumps(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        node.wall_shift_us += self.random.choice(JUMPS_MS) * 1_000
        self.note(node.name, "its wall clock jumps")

    def _time_jumps(self) -> None:
        self.pass_to(self.now_ms + self.random.randint(1, self.random.choice([500, 60_000, 900_000])))

    def _link_stops(self) -> None:
        name = self.random.choice(list(self.nodes))
        peer = HUB if name != HUB else "EWR"
        asker = self.askers[name]
        asker.dial()
        asker.want(lambda i: m.LinkStop(i, peer))
        if self.random.random() < 0.5 and asker.is_open:
            asker.send(m.LinkStart(asker.next_id(), peer))  # Perhaps in the same turn.
        asker.want(lambda i: m.LinkStart(i, peer))

    def _producer_forgets(self) -> None:
        if programs := [*self.producers, *self.apps]:
            self.random.choice(programs).forget()

    def _client_hangs_up(self) -> None:
        client = self.random.choice(self.clients)
        if client.wire is not None:
            wire = client.wire
            client.hang_up()
            self._delay_news(wire)

    # The end

    def heal(self) -> None:
        """Mend everything that is broken, and have everybody behave."""
        self.note("world", "heals")
        for node in self.nodes.values():
            node.store.crash = ""
            if not node.up:
                node.start()
        for wire in self.wires:
            for flow in wire.flows:
                flow.clogged = False
        for reads in [client.habits for client in self.consumers] + [a.reading for a in self.apps]:
            reads.slow = reads.release = reads.drop = reads.twice = 0.0
            reads.batch_max = 100
        for client in (*self.producers, *self.apps):
            puts = client.habits if isinstance(client, Producer) else client.producing
            puts.twice, puts.total = 0.0, min(puts.total, client.made + 20)
        for name, asker in self.askers.items():
            if name == HUB:
                asker.want(lambda i: m.QueueCreate(i, "LATE"))
                asker.want(lambda i: m.QueueCreate(i, "SCRATCH"))

    def rest(self) -> None:
        """Run until nothing is left to do."""
        until_ms = self.now_ms + REST_MAX_MS
        for _ in range(REST_MAX_ROUNDS):
            if not self._round():
                if self._is_quiet():
                    return
                self._time()
            if self.now_ms > until_ms:
                break
        require(False, "drains_in_time", self._unrest())

    def _round(self) -> bool:
        moved = False
        for client in self.clients:
            client.act()
        for asker in self.askers.values():
            asker.dial()
        while self.dials:
            self.answer_dial(0)
        for flow in self.flows():
            flow.deliver(1 << 30)
            moved = True
        for node in self.nodes.values():
            if node.wanted:
                self.turn_of(node)
                moved = True
        self.sweep()
        return moved

    def _is_quiet(self) -> bool:
        return (
            all(client.done for client in self.clients)
            and not any(asker.todo for asker in self.askers.values())
            and not any(view.held for view in self.watch.views.values())
        )

    def _unrest(self) -> str:
        busy = [client.name for client in self.clients if not client.done]
        asked = [name for name, asker in self.askers.items() if asker.todo]
        held = [
            f"{name}:{view.queues[queue_id][0]}:{arrival}"
            for name, view in self.watch.views.items()
            for queue_id, arrival in view.held
        ]
        links = [
            f"{node.name}->{link.name} {link.state.value} {link.outbox} {link.error}"
            for node in self.nodes.values()
            for link in node.turns.broker.catalogue.links.values()
        ]
        return f"busy {busy}, asked {asked}, {len(held)} held {held[:10]}, links {links}"

    def check(self) -> None:
        """Hold all accounts against each other."""
        for node in self.nodes.values():
            audit.audit(node, self.watch)
        audit.accounts_balance(self.ledger, self.watch)
        audit.settled_stays_settled(self.ledger, self.watch)

    def digest(self) -> str:
        """Return a hash of all that all stores hold."""
        found = hashlib.sha256()
        for name, node in sorted(self.nodes.items()):
            found.update(name.encode())
            for key, value in node.store.rows.items():
                found.update(b"%d:%s%d:%s" % (len(key), key, len(value), value))
        return found.hexdigest()
