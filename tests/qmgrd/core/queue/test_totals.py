"""Tests that the running totals always equal the sums over all queues."""

import random

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.record import FLAG_NOT_PERSISTENT
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.core.ticking import MS_NS, Ticking

QUEUES = ("A", "B", "C", "D")


def check(manager: Manager) -> None:
    """Checks the totals against the queues."""
    totals = manager.turns.broker.context.totals
    queues = manager.turns.broker.catalogue.by_id.values()
    assert totals.messages == sum(queue.counters.depth for queue in queues)
    assert totals.leased == sum(len(queue.leases) for queue in queues)


class Churn:
    """A manager, and all operations that move messages."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        clock = Ticking(self.chance.choice([0, MS_NS]))
        self.manager = Manager(limits={"turn_ms": 3}, clock_ns=clock)
        self.app = self.manager.connect()
        self.app.ask(m.Subscribe, "t/#", "B:s")
        self.define()

    def define(self) -> None:
        for queue in QUEUES:
            self.app.ask(m.QueueCreate, queue, {"lease_ms": 1_000, "delivery_limit": 3})

    def step(self) -> None:
        app, chance = self.app, self.chance
        queue = chance.choice(QUEUES)
        steps = {
            "put": lambda: app.put(queue, *[b"x"] * chance.randint(1, 5)),
            "short": lambda: app.put(queue, b"x", expiry_ms=500),
            "volatile": lambda: app.put(queue, b"x", flags=FLAG_NOT_PERSISTENT),
            "publish": lambda: app.put("/t/1", b"x"),
            "settle": lambda: self.settle(queue, chance.choice([app.ack, app.release])),
            "leave": lambda: self.leave(queue),
            "purge": lambda: app.ask(m.QueuePurge, queue),
            "move": lambda: app.ask(m.QueueMove, "A", "B"),
            "delete": lambda: self.delete(queue),
            "wait": lambda: self.manager.turn(700),
            "crash": self.crash,
        }
        steps[chance.choice(list(steps))]()
        check(self.manager)

    def delete(self, queue: str) -> None:
        self.app.ask(m.QueueDelete, queue, True)
        check(self.manager)
        self.define()

    def settle(self, queue: str, how: object) -> None:
        found = self.app.get(self.chance.choice([queue, "B:s"]), 3)
        check(self.manager)
        if found and callable(how):
            how(*found)

    def leave(self, queue: str) -> None:
        other: Client = self.manager.connect("other")
        other.get(queue, 4)
        check(self.manager)
        other.hang_up()
        self.manager.turn()

    def crash(self) -> None:
        self.manager.crash()
        self.app = self.manager.connect()


@pytest.mark.parametrize("seed", range(8))
def test_totals_match_after_every_turn(seed: int) -> None:
    churn = Churn(seed)
    for _ in range(60):
        churn.step()
    churn.manager.rest()
    check(churn.manager)
