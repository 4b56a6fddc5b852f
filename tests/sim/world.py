"""A network of queue managers that lives from one seed.

A step picks one thing to happen. Then everything is healed, and has to come to rest in a bounded
time; the laws are checked on the way (watch.py) and at rest (audit.py).
"""

import hashlib
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from random import Random
from typing import Any, TypeAlias

from qmgr_protocol import messages as m
from qmgrd.core.link import LinkState
from qmgrd.core.turn import Turns
from tests.sim import audit, population, scenario
from tests.sim.app import App
from tests.sim.client import Asker
from tests.sim.consumer import Consumer
from tests.sim.faults import DISK_BYTES, STRIKE
from tests.sim.lab import Lab
from tests.sim.ledger import BACKOUT, DEAD_LETTERS, GROUP_QUEUES, require
from tests.sim.node import Node
from tests.sim.producer import Producer
from tests.sim.scenario import EDGES, HUB
from tests.sim.worker import Worker

Client: TypeAlias = Producer | Consumer | App | Worker
STEPS = 4_000
REST_MAX_MS = 90 * 60_000
REST_MAX_ROUNDS = 20_000
IDLE_TURNS_MAX = 10
# What is no fault, and how often it happens; scenario.FAULTS has the faults.
CALM = {"deliver": 40, "turn": 30, "act": 22, "time": 8, "dial": 4, "unclog": 1, "start": 2}


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
        self.link_attributes: dict[str, dict[str, Any]] = {}
        self.askers = {name: Asker(self, f"operator-{name}", name) for name in self.nodes}
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.apps: list[App] = []
        self.workers: list[Worker] = []
        population.define(self)
        population.populate(self)
        # A link goes on behind what its target refuses: order ends where one is full or missing.
        self.watch.unordered |= {(HUB, "DELAYS"), (HUB, "LATE"), (HUB, "SCRATCH"), (HUB, "RING")}
        self.watch.world_ms = self.now_ms
        self.ledger.pushing.add((HUB, "RING"))
        self.watch.clocks_are_true = "wall jumps" not in self.scenario.faults
        if "disk fills" in self.scenario.faults:
            self.watch.unordered |= {(HUB, "FLIGHTS"), (HUB, "WORK"), ("EWR", "REPLIES")}
        rates = CALM | self.scenario.faults
        calm = {
            "deliver": World.deliver, "turn": World.turn, "act": World.act, "time": World.pass_time,
            "dial": World.dial, "unclog": World.unclog, "start": World.start,
        }  # fmt: skip
        self._happens: dict[str, Callable[[World], bool]] = calm | STRIKE
        self._kinds = list(rates)
        self._sums = list(accumulate(rates.values()))

    @property
    def clients(self) -> list[Client]:
        """All that act for themselves."""
        return [*self.producers, *self.consumers, *self.apps, *self.workers]

    def run(self) -> None:
        """Live through all steps, heal, come to rest, and check; and again after a last crash."""
        for _ in range(self.scenario.steps):
            self.step()
        self.heal()
        self.rest()
        self.check()
        for node in self.nodes.values():
            node.die()
            node.start()
        self.rest()
        self.check()

    def step(self) -> None:
        """Have one thing happen."""
        self.steps += 1
        kind = self._kinds[bisect(self._sums, self.random.random() * self._sums[-1])]
        if self._happens[kind](self):
            self.hits[kind] += 1
        elif not self.deliver():
            self.turn()
        if self.steps % 250 == 0:
            for node in self.nodes.values():
                audit.audit(node, self.watch)

    def deliver(self) -> bool:
        """Hand over the next bytes of some connection."""
        flows = self.flows()
        if not flows:
            return False
        random = self.random
        size = random.choice([1, random.randint(2, 200), random.randint(60, 9_000), 1 << 30])
        random.choice(flows).deliver(size)
        self.sweep()
        return True

    def turn(self) -> bool:
        """Run a turn of some queue manager that wants one."""
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

    def act(self) -> bool:
        """Let some clients do something."""
        random = self.random
        if random.random() < 0.05:
            population.operate(self, random.choice([HUB, *EDGES]))
        kinds: list[Sequence[Client]]
        kinds = [self.producers, self.consumers, self.apps, self.workers]
        for clients in filter(None, kinds):
            client: Client = random.choice(clients)
            client.act()
        return True

    def pass_time(self) -> bool:
        """Let it be when the next timer is due."""
        self.pass_to(min(self.deadlines(), default=self.now_ms + 1))
        return True

    def pass_to(self, now_ms: int) -> None:
        """Let the time be *now_ms*, and do the heartbeats of all."""
        self.now_ms = self.watch.world_ms = now_ms
        for node in self.nodes.values():
            node.beat()
        for client in (*self.clients, *self.askers.values()):
            client.poll()

    def dial(self) -> bool:
        """Answer the dial of a link."""
        if not self.dials:
            return False
        self.answer_dial(self.random.randrange(len(self.dials)))
        return True

    def unclog(self) -> bool:
        """Let a stream flow again."""
        clogged = [f for wire in self.wires for f in wire.flows if f.clogged]
        if not clogged:
            return False
        self.random.choice(clogged).clogged = False
        return True

    def start(self) -> bool:
        """Start a queue manager that is down; sometimes it is killed at it."""
        down = [node for node in self.nodes.values() if not node.up]
        if not down:
            return False
        node = self.random.choice(down)
        self.note(node.name, "starts")
        dice = self.random.random()
        node.start("before" if dice < 0.05 else "after" if dice < 0.1 else "")
        return True

    def heal(self) -> None:
        """Mend everything that is broken, and have everybody behave."""
        self.note("world", "heals")
        for node in self.nodes.values():
            node.store.crash = ""
            node.store.disk_free_bytes = DISK_BYTES
            if not node.up:
                node.start()
        for wire in self.wires:
            for flow in wire.flows:
                flow.clogged = False
        population.calm_down(self)

    def rest(self) -> None:
        """Run until nothing is left to do."""
        until_ms = self.now_ms + REST_MAX_MS
        for _ in range(REST_MAX_ROUNDS):
            if not self._round():
                if self._is_quiet():
                    return
                self._look_after_links()
                self._look_after_groups()
                self.pass_time()
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

    def _look_after_links(self) -> None:
        """Start what is stopped, correct addresses, as people do: an order may have come late."""
        for name, node in self.nodes.items():
            for link in node.turns.broker.catalogue.links.values():
                asker, addresses = self.askers[name], population.addresses(self, name)
                if asker.todo:
                    continue
                if link.state is LinkState.STOPPED:
                    asker.want(partial(m.LinkStart, link=link.name))
                elif link.addresses != addresses:
                    attributes = {"addresses": addresses}
                    asker.want(partial(m.LinkAlter, link=link.name, attributes=attributes))

    def _look_after_groups(self) -> None:
        """Have no group wait for what does not come, nor for a word of an operator."""
        for name, asker in self.askers.items():
            if asker.todo:
                continue
            view = self.watch.views[name]
            waited_on = {view.queues[queue_id][0] for queue_id, _ in view.held}
            for queue in sorted(waited_on & {*GROUP_QUEUES, BACKOUT, DEAD_LETTERS}):
                population.tidy_groups(self, name, queue)

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
        audit.units_balance(self.ledger)
        audit.settled_stays_settled(self.ledger, self.watch)

    def digest(self) -> str:
        """Return a hash of all that all stores hold."""
        found = hashlib.sha256()
        for name, node in sorted(self.nodes.items()):
            found.update(name.encode())
            for key, value in node.store.rows.items():
                found.update(b"%d:%s%d:%s" % (len(key), key, len(value), value))
        return found.hexdigest()
