"""A lab in which steps happen at random, and which finally comes to rest.

world.py and net.py define the clients, faults and invariants.
"""

import hashlib
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from random import Random
from typing import Protocol

from qmgr_config.model import Config
from qmgrd.core.turn import Turns
from tests.sim import accounts
from tests.sim.client import Asker
from tests.sim.exporter import Exporter
from tests.sim.faults import DISK_BYTES
from tests.sim.hostile import Hostile
from tests.sim.lab import Lab
from tests.sim.ledger import require
from tests.sim.node import Node
from tests.sim.users import Users

REST_MAX_MS = 90 * 60_000
REST_MAX_ROUNDS = 20_000
IDLE_TURNS_MAX = 10
LOOK_EVERY = 250  # number of steps between two checks
# The steps that are not faults, each with its frequency relative to the faults of a seed
CALM = {"deliver": 40, "turn": 30, "act": 22, "time": 8, "dial": 4, "unclog": 1, "start": 2}


class Actor(Protocol):
    """A client that acts independently."""

    name: str

    @property
    def done(self) -> bool:
        """True if no work is left."""

    def act(self) -> None:
        """Performs one action."""

    def poll(self) -> None:
        """Performs the actions that are due now."""


class Chance(Lab):
    """The world of one seed. ``hits`` counts the steps that were performed."""

    def __init__(self, seed: int) -> None:
        super().__init__(Random(seed))
        self.seed = seed
        # a separate generator, so that other random choices do not change
        self.chances = Random(f"accounts/{seed}")
        self.silent_crashes = 0.2
        self.exporters: list[Exporter] = []
        self.is_besieged = False  # True if hostile clients exist
        self.hostiles: list[Hostile] = []
        self.is_guarded = False  # True if some clients log in as users
        self.users: Users | None = None
        self.alters = False  # True if operators turn accounts on and off
        self.hits: Counter[str] = Counter()
        self.steps = 0
        self.steps_max = 0
        self.faults: dict[str, float] = {}  # possible faults, each with its rate
        self.askers: dict[str, Asker] = {}  # the operator of each queue manager

    def add(self, config: Config, turns_type: type[Turns] = Turns) -> Node:
        """Returns a new, running queue manager, which may keep accounts."""
        return super().add(accounts.kept(config, self.chances), turns_type)

    @property
    def clients(self) -> Sequence[Actor]:
        """All clients that act independently."""
        raise NotImplementedError

    def look(self) -> None:
        """Checks the stored state against the invariants that hold at any time."""

    def check(self) -> None:
        """Checks all accounts against each other when the world is at rest."""
        raise NotImplementedError

    def look_after(self) -> None:
        """Performs the work of operators while the world comes to rest."""

    def is_quiet(self) -> bool:
        """Returns whether no work is left."""
        asked = any(asker.todo for asker in self.askers.values())
        asked = asked or (self.users is not None and not self.users.done)
        return not asked and all(client.done for client in [*self.clients, *self.exporters])

    def unrest(self) -> str:
        """Returns a description of the work that is left."""
        busy = [client.name for client in [*self.clients, *self.exporters] if not client.done]
        asked = [name for name, asker in self.askers.items() if asker.todo]
        links = [
            f"{node.name}->{link.name} {link.state.value} {link.outbox} {link.error}"
            for node in self.nodes.values()
            for link in node.turns.broker.catalogue.links.values()
        ]
        return f"busy {busy}, asked {asked}, links {links}"

    def may_happen(self, strike: dict[str, Callable[..., bool]], faults: dict[str, float]) -> None:
        """Sets the possible steps: the regular steps, and *faults* with their rates.

        Args:
            strike: The function that performs each fault.
        """
        calm = {
            "deliver": self.deliver,
            "turn": self.turn,
            "act": self.act,
            "time": self.pass_time,
            "dial": self.dial,
            "unclog": self.unclog,
            "start": self.start,
        }
        self._happens = {kind: partial(function, self) for kind, function in strike.items()} | calm
        self.faults = faults
        rates = CALM | faults
        self._kinds = list(rates)
        self._sums = list(accumulate(rates.values()))

    def run(self) -> None:
        """Runs all steps, heals, comes to rest and checks, then crashes and does the same again."""
        accounts.populate(self)
        if self.is_besieged:
            chances = Random(f"hostile/{self.seed}")
            self.hostiles = [Hostile(self, chances, where) for where in self.nodes]
        if self.is_guarded:
            self.users = Users(self, next(iter(self.nodes)))
        for _ in range(self.steps_max):
            self.step()
        self.heal()
        self.rest()
        self.check()
        accounts.look(self, is_at_rest=True)
        for node in self.nodes.values():
            node.die()
            node.start()
        self.rest()
        self.check()
        accounts.look(self, is_at_rest=True)

    def step(self) -> None:
        """Performs one random step."""
        self.steps += 1
        kind = self._kinds[bisect(self._sums, self.random.random() * self._sums[-1])]
        if self._happens[kind]():
            self.hits[kind] += 1
        elif not self.deliver():
            self.turn()
        accounts.act(self)
        for hostile in self.hostiles:
            hostile.act()
        if self.users is not None:
            self.users.act()
        if self.steps % LOOK_EVERY == 0:
            self.look()
            accounts.look(self)

    def deliver(self) -> bool:
        """Delivers the next bytes of a random connection."""
        flows = self.flows()
        if not flows:
            return False
        random = self.random
        size = random.choice([1, random.randint(2, 200), random.randint(60, 9_000), 1 << 30])
        random.choice(flows).deliver(size)
        self.sweep()
        return True

    def turn(self) -> bool:
        """Runs a turn of a random queue manager that requests one."""
        wanting = [node for node in self.nodes.values() if node.wanted]
        if not wanting:
            return False
        self.turn_of(self.random.choice(wanting))
        return True

    def turn_of(self, node: Node) -> None:
        """Runs a turn. Checks that a queue manager that requests turns makes progress."""
        node.turn()
        fact = f"{node.idle_turns} turns of {node.name} had no effect, and it requests another"
        require(node.idle_turns < IDLE_TURNS_MAX or not node.wanted, "nothing_spins", fact)

    def act(self) -> bool:
        """Lets some clients act."""
        self.random.choice(self.clients).act()
        return True

    def pass_time(self) -> bool:
        """Advances the time to the next timer."""
        self.pass_to(min(self.deadlines(), default=self.now_ms + 1))
        return True

    def pass_to(self, now_ms: int) -> None:
        """Advances the time to *now_ms*, and sends all due heartbeats."""
        self.now_ms = self.watch.world_ms = now_ms
        for node in self.nodes.values():
            node.beat()
        for client in [*self.clients, *self.exporters]:
            client.poll()
        for asker in self.askers.values():
            asker.poll()

    def dial(self) -> bool:
        """Answers a link's connection attempt."""
        if not self.dials:
            return False
        self.answer_dial(self.random.randrange(len(self.dials)))
        return True

    def unclog(self) -> bool:
        """Lets a blocked stream continue."""
        clogged = [f for wire in self.wires for f in wire.flows if f.clogged]
        if not clogged:
            return False
        self.random.choice(clogged).clogged = False
        return True

    def start(self) -> bool:
        """Starts a stopped queue manager, and sometimes kills it during the start."""
        down = [node for node in self.nodes.values() if not node.up]
        if not down:
            return False
        node = self.random.choice(down)
        self.note(node.name, "starts")
        dice = self.random.random()
        node.start("before" if dice < 0.05 else "after" if dice < 0.1 else "")
        return True

    def heal(self) -> None:
        """Ends all faults."""
        self.note("world", "heals")
        for hostile in self.hostiles:
            hostile.give_up()
        for node in self.nodes.values():
            node.store.crash = ""
            node.store.disk_free_bytes = DISK_BYTES
            if not node.up:
                node.start()
        for wire in self.wires:
            for flow in wire.flows:
                flow.clogged = False

    def rest(self) -> None:
        """Runs until no work is left."""
        until_ms = self.now_ms + REST_MAX_MS
        for _ in range(REST_MAX_ROUNDS):
            if not self._round():
                if self.is_quiet():
                    return
                self.look_after()
                self.pass_time()
            if self.now_ms > until_ms:
                break
        require(False, "drains_in_time", self.unrest())

    def _round(self) -> bool:
        moved = False
        for client in self.clients:
            client.act()
        for exporter in self.exporters:
            exporter.act(is_chaos=False)
        if self.users is not None:
            self.users.go_on()
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

    def digest(self) -> str:
        """Returns a hash of the contents of all stores."""
        found = hashlib.sha256()
        for name, node in sorted(self.nodes.items()):
            found.update(name.encode())
            for key, value in node.store.rows.items():
                found.update(b"%d:%s%d:%s" % (len(key), key, len(value), value))
        return found.hexdigest()
