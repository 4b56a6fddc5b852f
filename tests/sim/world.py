"""A network of queue managers whose complete history is determined by one seed.

Each step performs one random action. Then all faults end, and everything must come to rest in a
limited time. The invariants are checked during the run (watch.py) and at rest (audit.py).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

from qmgr_protocol import messages as m
from qmgrd.core.link.link import LinkState
from qmgrd.core.turn import Turns
from tests.sim import audit, population, scenario
from tests.sim.app import App
from tests.sim.chance import Chance
from tests.sim.client import Asker
from tests.sim.consumer import Consumer
from tests.sim.faults import STRIKE
from tests.sim.ledger import BACKOUT, DEAD_LETTERS, GROUP_QUEUES
from tests.sim.producer import Producer
from tests.sim.scenario import EDGES, HUB
from tests.sim.worker import Worker

Client: TypeAlias = Producer | Consumer | App | Worker
STEPS = 4_000


class World(Chance):
    """A hub with three edges, and all features of queues."""

    def __init__(self, seed: int, *, steps: int = STEPS, turns_type: type[Turns] = Turns) -> None:
        super().__init__(seed)
        self.scenario = scenario.choose(self.random, steps)
        self.steps_max = steps
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
        # A link continues after a refusal, so a full or missing queue breaks the order.
        self.watch.unordered |= {(HUB, "DELAYS"), (HUB, "LATE"), (HUB, "SCRATCH"), (HUB, "RING")}
        self.watch.world_ms = self.now_ms
        self.ledger.pushing.add((HUB, "RING"))
        self.watch.clocks_are_true = "wall jumps" not in self.scenario.faults
        if "disk fills" in self.scenario.faults:
            self.watch.unordered |= {(HUB, "FLIGHTS"), (HUB, "WORK"), ("EWR", "REPLIES")}
        self.may_happen(STRIKE, self.scenario.faults)

    @property
    def clients(self) -> list[Client]:
        """All clients that act independently."""
        return [*self.producers, *self.consumers, *self.apps, *self.workers]

    def look(self) -> None:
        for node in self.nodes.values():
            audit.audit(node, self.watch)

    def act(self) -> bool:
        """Lets some clients act."""
        random = self.random
        if random.random() < 0.05:
            population.operate(self, random.choice([HUB, *EDGES]))
        kinds: list[Sequence[Client]]
        kinds = [self.producers, self.consumers, self.apps, self.workers]
        for clients in filter(None, kinds):
            client: Client = random.choice(clients)
            client.act()
        return True

    def heal(self) -> None:
        super().heal()
        population.calm_down(self)

    def look_after(self) -> None:
        self._look_after_links()
        self._look_after_groups()

    def _look_after_links(self) -> None:
        """Starts stopped links, and corrects addresses that a late request may have changed."""
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
        """Ends groups that wait for missing members or for an operator."""
        for name, asker in self.askers.items():
            if asker.todo:
                continue
            view = self.watch.views[name]
            waited_on = {view.queues[queue_id][0] for queue_id, _ in view.held}
            for queue in sorted(waited_on & {*GROUP_QUEUES, BACKOUT, DEAD_LETTERS}):
                population.tidy_groups(self, name, queue)

    def is_quiet(self) -> bool:
        return super().is_quiet() and not any(view.held for view in self.watch.views.values())

    def unrest(self) -> str:
        held = [
            f"{name}:{view.queues[queue_id][0]}:{arrival}"
            for name, view in self.watch.views.items()
            for queue_id, arrival in view.held
        ]
        return f"{super().unrest()}, {len(held)} held {held[:10]}"

    def check(self) -> None:
        self.look()
        audit.accounts_balance(self.ledger, self.watch)
        audit.units_balance(self.ledger)
        audit.settled_stays_settled(self.ledger, self.watch)
