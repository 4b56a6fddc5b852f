"""Two queue managers with topics. A proxy forwards publications from one to the other.

NYC ──:far@LAX──▶ LAX        in some worlds, :back@NYC forwards in the other direction
 │                 │
 ╰─ :all           ╰─ :all   a subscription to all flights, so that each flight has a subscriber

world.py covers queues. topic_account.py has the invariants.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.link.link import LinkState
from qmgrd.core.turn import Turns
from tests.sim import audit
from tests.sim.chance import Chance
from tests.sim.client import Asker
from tests.sim.faults import STRIKE as STRIKE_ANY
from tests.sim.ledger import DEAD_LETTERS, KINDS, require
from tests.sim.topic_account import Decision, TopicAccount
from tests.sim.topic_app import TOPICS, TopicApp, Wanted

HUB, FAR = NAMES = ("NYC", "LAX")
STEPS = 2_000
PORT = 7470
FILTERS = ("flights/#", "flights/+", "flights/+/UA", "flights/JFK/#", "flights/LAX/AA", "#")
OVERFLOWS = ("discard-newest", "discard-oldest", "dead-letter-oldest", "suspend")
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
    "disk fills": 0.2,
    "turn fails": 0.4,
    "wall jumps": 0.3,
    "time jumps": 0.3,
    "program forgets": 0.4,
    "client hangs up": 0.8,
}


class TopicWorld(Chance):
    """Some applications that publish and subscribe, and operators who intervene."""

    def __init__(self, seed: int, *, steps: int = STEPS, turns_type: type[Turns] = Turns) -> None:
        super().__init__(seed)
        random = self.random
        self.steps_max = steps
        self.is_healed = False
        self.has_groups = random.random() < 0.4
        self.timed, self.retained = random.choice([0, 0, 0.2]), random.choice([0, 0.05, 0.3])
        self.volatile = random.choice([0, 0, 0.1])
        self.watch = self.account = TopicAccount(self.ledger)
        for name in NAMES:
            self.add(config(random, name), turns_type)
        self.askers = {name: Asker(self, f"operator-{name}", name) for name in NAMES}
        self.policy = random.choice(["manual", "manual", "manual", "healthy", "schedule"])
        self.account.is_scheduled = self.policy == "schedule"
        self._define()
        self.apps = list(self._populate())
        chosen = {kind: rate for kind, rate in FAULTS.items() if random.random() < 0.55}
        trouble = random.choice([0.3, 1, 2])
        self.may_happen(STRIKE, {kind: rate * trouble for kind, rate in chosen.items()})

    @property
    def clients(self) -> list[TopicApp]:
        """All clients that act independently."""
        return self.apps

    def _define(self) -> None:
        """Creates links, proxies and topics before any fault occurs."""
        random, far = self.random, {HUB: FAR, FAR: HUB}
        for name, asker in self.askers.items():
            asker.dial()
            self.nodes[name].allow(far[name])
            link = {"addresses": [f"{far[name]}:{PORT}"]}
            asker.want(partial(m.LinkCreate, link=far[name], attributes=link))
            asker.want(partial(m.Subscribe, topic="flights/#", subscription=":all"))
            rules = {"republish": self.policy, "republish_interval_ms": 60_000}
            rules["redelivery_limit"] = random.choice([0, 1, 2])
            asker.want(partial(m.TopicSet, topic="flights", attributes=rules))
        self._proxy(HUB, ":far@LAX")
        if random.random() < 0.5:
            self._proxy(FAR, ":back@NYC")
        if random.random() < 0.3:
            self._proxy(HUB, ":other@LAX")
        self.settle()
        require(not any(asker.todo for asker in self.askers.values()), "setup", "is not done")

    def _proxy(self, where: str, name: str) -> None:
        topic = self.random.choice(FILTERS)
        self.askers[where].want(partial(m.Subscribe, topic=topic, subscription=name))

    def _populate(self) -> Any:
        random = self.random
        for where in NAMES:
            yield TopicApp(self, f"{where}-all", where, Wanted("flights/#", ":all"), 0)
            for number in range(random.choice([1, 2])):
                total = random.choice([20, 100, 200])
                yield TopicApp(self, f"{where}-publisher-{number}", where, None, total)
            for number in range(random.choice([1, 3, 5])):
                is_durable = random.random() < 0.8
                wanted = Wanted(
                    random.choice(FILTERS),
                    f"APP:s{number}" if is_durable else "",
                    f"kind = '{random.choice(KINDS)}'" if random.random() < 0.2 else "",
                    tuple(self._attributes().items()),
                )
                yield TopicApp(self, f"{where}-{number}", where, wanted, random.choice([0, 0, 20]))

    def _attributes(self) -> dict[str, Any]:
        random, chosen = self.random, dict[str, Any]()
        if random.random() < 0.7:
            chosen["redelivery_limit"] = random.choice([0, 1, 2])
        if random.random() < 0.3:
            chosen["depth_max"] = random.choice([1, 5, 20])
            chosen["overflow"] = random.choice(OVERFLOWS)
        if random.random() < 0.2:
            chosen["expiry_max_ms"] = random.choice([3_000, 60_000])
        return chosen

    def look(self) -> None:
        for node in self.nodes.values():
            audit.audit(node, self.watch)
            self.account.each_got_its_own(node)

    def act(self) -> bool:
        """Lets some clients act."""
        if self.random.random() < 0.06:
            self._operate(self.random.choice(NAMES))
        for _ in range(3):
            self.random.choice(self.apps).act()
        return True

    # -- operators

    def _operate(self, where: str) -> None:
        """Lets an operator make a random change."""
        random, asker = self.random, self.askers[where]
        asker.dial()
        subs = [sub for sub in self.account.live(where) if sub.name[:1] == "A"]
        sub = random.choice(subs) if subs else None
        dice = random.random()
        if dice < 0.5:
            self._decide(where, is_drop=random.random() < 0.2)
        elif dice < 0.6:
            topic = random.choice(TOPICS)
            asker.want(partial(m.TopicDelete, topic=topic, retained=True))
        elif sub is None:
            return
        elif dice < 0.7:
            self._heal(where, sub.name)
        elif dice < 0.8:
            asker.want(partial(m.Unsubscribe, subscription=sub.name))
        elif dice < 0.95:
            asker.want(partial(m.QueueAlter, queue=sub.name, attributes=self._attributes()))
        else:
            self.ledger.purges.add((where, sub.name))
            asker.want(partial(m.QueuePurge, queue=sub.name))

    def _decide(self, where: str, *, is_drop: bool = False, all_: bool = False) -> None:
        """Republishes or drops parked publications: all, or those of one subscriber or UID."""
        random, names, trailer = self.random, list[str](), b""
        subs = [sub for sub in self.account.live(where) if sub.parked]
        if subs and not all_:
            sub = random.choice(subs)
            if random.random() < 0.5:
                names = [sub.name]
            if random.random() < 0.3:
                trailer = self.ledger.puts[random.choice(list(sub.parked))].trailer
        rate = 0 if all_ else random.choice([0, 0, 20])
        decision = Decision(where, is_drop, names, trailer)
        self._ask(decision, m.Republish(0, is_drop, trailer, "", names, rate))

    def _heal(self, where: str, name: str) -> None:
        """Lets an operator mark a subscriber as healthy again."""
        names = [name] if self.policy == "healthy" else ["nobody"]
        self._ask(Decision(where, False, names, b""), m.SubscriptionHealthy(0, name))

    def _ask(self, decision: Decision, request: Any) -> None:
        def make(number: int) -> Any:
            decision.sent += 1
            return request._replace(request_id=number)

        def take(answer: Any) -> None:
            if decision.sent == 1:
                decision.until = self.account.tick

        self.account.decisions.append(decision)
        self.askers[decision.where].want(make, take)

    # -- at rest

    def heal(self) -> None:
        super().heal()
        self.is_healed = True

    def look_after(self) -> None:
        """Republishes parked publications, starts links, ends groups, and clears dead letters."""
        for where, asker in self.askers.items():
            if asker.todo:
                continue
            for link in self.nodes[where].turns.broker.catalogue.links.values():
                if link.state is LinkState.STOPPED:
                    asker.want(partial(m.LinkStart, link=link.name))
            for sub in list(self.account.live(where)):
                if sub.row.get("suspended"):
                    self._heal(where, sub.name)
                self._tidy(where, sub.name)
            if any(sub.parked for sub in self.account.live(where)):
                self._decide(where, all_=True)
            view = self.watch.views[where]
            if any(view.queues[queue_id][0] == DEAD_LETTERS for queue_id, _ in view.held):
                asker.want(partial(m.QueuePurge, queue=DEAD_LETTERS))

    def _tidy(self, where: str, name: str) -> None:
        """Ends groups that wait for missing members."""
        by_id = self.nodes[where].turns.broker.catalogue.by_id
        if not any(queue.name == name and queue.counters.grouped for queue in by_id.values()):
            return

        def take(answer: Any) -> None:
            for row in answer.value["groups"] if type(answer) is m.Ok else ():
                if row["state"] in ("paused", "parked"):
                    group_id = bytes.fromhex(row["group"])
                    close = partial(m.GroupAlter, queue=name, group_id=group_id, action="close")
                    self.askers[where].want(close)

        self.askers[where].want(lambda i: m.GroupList(i, name), take)

    def is_quiet(self) -> bool:
        return super().is_quiet() and not self.account.is_held()

    def unrest(self) -> str:
        held = [
            (name, view.queues[queue_id][0], arrival)
            for name, view in self.watch.views.items()
            for queue_id, arrival in view.held
            if view.queues[queue_id][1] != "publications"
        ]
        return f"{super().unrest()}, held {held[:10]}"

    def check(self) -> None:
        self.look()
        self.account.balance()


def config(random: Random, name: str) -> Config:
    """Returns a configuration with small limits or the defaults."""
    return Config.model_validate(
        {
            "queue_manager": {"name": name},
            "limits": {
                "put_window_messages": random.choice([2, 64, 4096]),
                "turn_requests": random.choice([1, 50, 4096]),
                "turn_rows": random.choice([20, 100, 5_000]),
                "turn_ms": random.choice([1, 4, 50]),
            },
            "link": {
                "commit_messages": random.choice([1, 500]),
                "commit_interval_ms": random.choice([0, 3_000]),
                "redial_min_ms": 100,
                "redial_max_ms": 5_000,
                "stall_ms": 3_000,
            },
        }
    )


def _program_forgets(world: TopicWorld) -> bool:
    world.random.choice(world.apps).forget()
    return True


STRIKE: dict[str, Callable[..., bool]] = STRIKE_ANY | {"program forgets": _program_forgets}
