"""A tree of queue managers that are linked to their neighbours and forward over several hops.

EWR ◀──▶ NYC ◀──▶ LAX         any put may go to any queue, over routes
          ▲
          ╰──▶ SFO ◀──▶ BOS   meanwhile, stores are restored to older states

world.py covers all features of queues, over one hop. This module covers links over several hops.
net_account.py has the invariants, and the losses that are excused if a store is restored.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.link.link import LinkState
from qmgrd.core.turn import Turns
from tests.sim.chance import Chance
from tests.sim.client import Asker
from tests.sim.faults import STRIKE as STRIKE_ANY
from tests.sim.ledger import require
from tests.sim.net_account import NOWHERE, NetAccount, Saved
from tests.sim.net_app import NetApp
from tests.sim.node import Node

LET_IN = {"put_inhibit": False}
NAMES = ("EWR", "NYC", "LAX", "SFO", "BOS")
STEPS = 2_000
PORT = 7470
# The faults, each with its frequency relative to 100 regular steps
FAULTS = {
    "cut": 1.0,
    "half open": 1.0,
    "dark": 0.3,
    "clog": 2.0,
    "dial fails": 1.0,
    "crash": 0.8,
    "crash before": 0.8,
    "crash after": 0.8,
    "stop": 0.4,
    "wall jumps": 0.5,
    "time jumps": 0.3,
    "back up": 2.0,
    "restore": 0.3,
    "link stops": 0.3,
    "inhibit": 0.3,
}


class Net(Chance):
    """A tree of two to five queue managers, each with a queue Q and some applications."""

    def __init__(self, seed: int, *, steps: int = STEPS, turns_type: type[Turns] = Turns) -> None:
        super().__init__(seed)
        random = self.random
        self.steps_max = steps
        chosen = {kind: rate for kind, rate in FAULTS.items() if random.random() < 0.55}
        faults = {kind: rate * random.choice([0.3, 1, 3]) for kind, rate in chosen.items()}
        if "restore" in faults:  # A restored clock would stamp the same UIDs again.
            faults.pop("wall jumps", None)
        self.watch = self.account = NetAccount(self.ledger, self.way)
        self.saved: dict[str, Saved] = {}  # last backup of each queue manager
        names = NAMES[: random.randint(2, len(NAMES))]
        self.parents = {name: random.choice(names[:at]) for at, name in enumerate(names) if at}
        for name in names:
            self.add(config(random, name), turns_type)
        self.askers = {name: Asker(self, f"operator-{name}", name) for name in names}
        self._define()
        self.apps = [
            NetApp(self, f"{name}-{number}", name)
            for name in names
            for number in range(random.choice([1, 1, 2]))
        ]
        self.may_happen(STRIKE, faults)

    @property
    def clients(self) -> list[NetApp]:
        """All clients that act independently."""
        return self.apps

    def neighbours(self, name: str) -> list[str]:
        """Returns the queue managers to which *name* has links."""
        near = [child for child, parent in self.parents.items() if parent == name]
        return [*near, self.parents[name]] if name in self.parents else near

    def way(self, source: str, target: str) -> list[str]:
        """Returns the queue managers from *source* to *target*, both included."""
        ups = {name: [name] for name in (source, target)}
        for line in ups.values():
            while line[-1] in self.parents:
                line.append(self.parents[line[-1]])
        met = next(name for name in ups[source] if name in ups[target])
        down = ups[target][: ups[target].index(met)]
        return ups[source][: ups[source].index(met) + 1] + down[::-1]

    def behind(self, name: str, to: str) -> list[str]:
        """Returns the queue managers that *name* reaches through *to*, except *to* itself."""
        return [far for far in self.nodes if far not in (name, to) and to in self.way(name, far)]

    def _define(self) -> None:
        """Creates queues and links before any fault occurs."""
        random = self.random
        for name, asker in self.askers.items():
            asker.dial()
            asker.want(lambda i: m.QueueCreate(i, "Q"))
            for to in self.neighbours(name):
                self._create_link(name, to)
        # A message to "nowhere" travels in a circle of two queue managers, or finds no route.
        if random.random() < 0.5:
            child, parent = random.choice(list(self.parents.items()))
            for name, to in ((child, parent), (parent, child)):
                routes = {"routes": [*self.behind(name, to), NOWHERE]}
                self.askers[name].want(partial(m.LinkAlter, link=to, attributes=routes))
                self.account.circle.add(name)
        self.settle()
        for name, asker in self.askers.items():
            for far in [*self.nodes, *self.circles(name)]:
                if far != name:
                    asker.want(partial(m.QueueCreate, queue=f"Q@{far}"))
        self.settle()
        require(not any(asker.todo for asker in self.askers.values()), "setup", "is not done")

    def _create_link(self, name: str, to: str) -> None:
        random = self.random
        attributes: dict[str, Any] = {
            "addresses": [f"{to}:{PORT}"],
            "connections": random.choice([1, 1, 2, 3]),
            "ordered": random.random() < 0.3,
            "routes": self.behind(name, to),
            "transit": True,
        }
        if (name, to) in self.account.fetched:
            attributes["addresses"] = []
        elif (to, name) not in self.account.fetched and random.random() < 0.2:
            self.account.fetched.add((to, name))
            attributes["fetch"] = True
        if attributes["ordered"]:
            self.account.ordered.add((name, to))
        if attributes["addresses"]:  # Otherwise, *to* fetches, and its link names the source.
            self.nodes[to].allow(name)
        self.askers[name].want(partial(m.LinkCreate, link=to, attributes=attributes))

    def circles(self, name: str) -> set[str]:
        """Returns the destinations for puts by *name* that lead in a circle."""
        return {NOWHERE} if name in self.account.circle else set()

    def back_up(self, node: Node) -> None:
        """Copies the store of a queue manager."""
        self.note(node.name, "is backed up")
        self.saved[node.name] = self.account.save(node)

    def put_back(self, node: Node) -> None:
        """Restores a queue manager from its last backup."""
        self.note(node.name, "is restored from its backup")
        if node.up:
            node.die()
        self.account.put_back(node, self.saved[node.name])
        node.replay.put_back(node.store.rows)

    def look_after(self) -> None:
        """Starts stopped links, accepts peers with restored stores, and lifts inhibits."""
        for name, node in self.nodes.items():
            if not self.askers[name].todo:
                if node.turns.broker.catalogue.local("Q").bounds.put_inhibit:
                    self.askers[name].want(partial(m.QueueAlter, queue="Q", attributes=LET_IN))
                for link in node.turns.broker.catalogue.links.values():
                    if link.state in (LinkState.STOPPED, LinkState.REFUSED):
                        accept = link.state is LinkState.REFUSED
                        self.askers[name].want(partial(m.LinkStart, link=link.name, accept=accept))

    def heal(self) -> None:
        super().heal()
        for app in self.apps:
            app.total = app.made

    def is_quiet(self) -> bool:
        return super().is_quiet() and not self.account.is_held()

    def unrest(self) -> str:
        return f"{super().unrest()}, held {self.account.held_by_queue()}"

    def check(self) -> None:
        """Checks the messages that were consumed against those that were put."""
        self.account.balance()


def config(random: Random, name: str) -> Config:
    """Returns a configuration with small limits or the defaults."""
    link_window = random.choice([1, 2, 5, 20, 4096])
    return Config.model_validate(
        {
            "queue_manager": {"name": name},
            "limits": {
                "put_window_messages": max(random.choice([2, 64, 4096]), link_window),
                "turn_requests": random.choice([1, 50, 4096]),
                "turn_rows": random.choice([20, 5_000]),
                "turn_ms": random.choice([1, 4, 50]),
            },
            "link": {
                "window_messages": link_window,
                "window_bytes": random.choice([3_000, 8 << 20]),
                "commit_messages": random.choice([1, 7, 500]),
                "commit_interval_ms": random.choice([0, 50, 3_000]),
                "redial_min_ms": random.choice([1, 100]),
                "redial_max_ms": 5_000,
                "stall_ms": random.choice([200, 3_000]),
            },
        }
    )


def _back_up(net: Net) -> bool:
    net.back_up(net.random.choice(list(net.nodes.values())))
    return True


def _put_back(net: Net) -> bool:
    known = [node for name, node in net.nodes.items() if name in net.saved]
    if not known:
        return False
    net.put_back(net.random.choice(known))
    return True


def _link_stops(net: Net) -> bool:
    name = net.random.choice(list(net.nodes))
    peer = net.random.choice(net.neighbours(name))
    asker = net.askers[name]
    asker.dial()
    asker.want(partial(m.LinkStop, link=peer))
    asker.want(partial(m.LinkStart, link=peer))
    return True


def _inhibit(net: Net) -> bool:
    """Inhibits puts on a queue for a while, which blocks the links to it."""
    asker = net.askers[net.random.choice(list(net.nodes))]
    asker.dial()
    for is_on in (True, False):
        asker.want(partial(m.QueueAlter, queue="Q", attributes={"put_inhibit": is_on}))
    return True


STRIKE: dict[str, Callable[..., bool]] = STRIKE_ANY | {
    "back up": _back_up,
    "restore": _put_back,
    "link stops": _link_stops,
    "inhibit": _inhibit,
}
