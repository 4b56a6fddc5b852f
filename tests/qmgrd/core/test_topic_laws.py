"""Tests of the invariants of topics: no rows are left over, and the store is always valid.

Each step is random and takes at most a turn. Publications have times, groups and their own ids, and
may be retained or non-persistent. Subscriptions of all kinds begin, fail and end. Jobs, units of
work and crashes also occur. A failure shows its seed as the parameter of the test.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Delivery, record
from tests.qmgrd.core.pubsub import Hub, faults
from tests.qmgrd.core.unit_of_work import UnitOfWork

STEPS = 120
TOPICS = ("t/a", "t/s", "t/h")
ENDS = (m.ACK, m.RELEASE, m.RELEASE, m.RETURN, m.REJECT, m.UNREAD)


class World:
    """A hub, and the state of its applications."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.hub = Hub(limits={"turn_rows": self.chance.choice([5, 20, 100])})
        self.hub.app.ask(m.QueueCreate, "Q")
        scheduled = {"republish": "schedule", "republish_interval_ms": 5_000}
        self.hub.app.ask(m.TopicSet, "t/s", scheduled)
        self.hub.app.ask(m.TopicSet, "t/h", {"republish": "healthy"})
        self.names: list[str] = []
        self.held: dict[str, list[Delivery]] = {}
        self.made = 0

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def name(self) -> str:
        return self.chance.choice(self.names)

    def later(self, kind: Callable[..., m.Message], *fields: Any) -> None:
        """Sends a request without waiting for the answer."""
        self.hub.app.send(kind(self.hub.app.next_id(), *fields))

    def subscribe(self) -> None:
        self.made += 1
        given: dict[str, Any] = {"redelivery_limit": self.chance.choice([0, 1])}
        if self.often(0.3):
            way = self.chance.choice(["discard-oldest", "dead-letter-oldest", "suspend"])
            given |= {"overflow": way, "depth_max": self.chance.choice([1, 3, 10])}
        if self.often(0.2):
            given["expiry_max_ms"] = self.chance.choice([100, 3_000])
        if self.often(0.3):
            given["expiry_action"] = "dead-letter"
        name = "" if self.often(0.2) else f"S:{self.made}"
        where = "priority > 3" if self.often(0.2) else ""
        self.names.append(self.hub.subscribe("t/#", name, where=where, **given))

    def publish(self) -> None:
        fields: dict[str, Any] = {"flags": 0}
        for key in ("expiry_ms", "delay_ms"):
            if self.often(0.2):
                fields[key] = self.chance.choice([50, 2_000])
        if self.often(0.2):
            fields["flags"] |= records.FLAG_NOT_PERSISTENT
        if self.often(0.15):
            fields["flags"] |= records.FLAG_RETAINED
        if self.often(0.2):
            group_id = bytes([65 + self.chance.randint(0, 2)]) * 24
            fields["group"] = (group_id, self.chance.randint(1, 4), self.often(0.2))
        if self.often(0.1):
            fields["uid"] = ("X", self.chance.randint(1, 5))
        body = self.chance.choice([b"", b"x", b"y" * 5_000])
        topic = self.chance.choice(TOPICS)
        refused = self.hub.app.put_records(f"/{topic}", record(body, **fields))
        assert {x.code for x in refused} <= {ErrorCode.DUPLICATE_MESSAGE}

    def get(self) -> None:
        name = self.name()
        found = self.hub.get(name, self.chance.randint(1, 5))
        self.held.setdefault(name, []).extend(found)

    def settle(self) -> None:
        names = [name for name, found in self.held.items() if found]
        if names:
            found = self.held.pop(self.chance.choice(names))
            self.hub.app.settle(self.chance.choice(ENDS), *found)

    def turn(self) -> None:
        self.hub.manager.turn(self.chance.choice([0, 0, 10]))

    def wait(self) -> None:
        self.hub.manager.turn(self.chance.choice([100, 1_000, 31_000]))

    def end(self) -> None:
        name = self.names.pop(self.chance.randrange(len(self.names)))
        self.held.pop(name, None)
        self.later(m.Unsubscribe, name)
        self.hub.manager.turn()

    def stop(self) -> None:
        self.chance.choice([self.hub.crash, self.hub.restart])()
        self.held.clear()
        self.names = [name for name in self.names if not name.startswith("~")]
        assert faults(self.hub.manager) == []

    def republish(self) -> None:
        chosen = [] if self.often(0.6) else [self.name()]
        self.later(m.Republish, self.often(0.3), b"", "", chosen)

    def job(self) -> None:
        if self.often(0.5):
            self.later(m.QueuePurge, self.name())
        else:
            self.later(m.QueueMove, self.name(), "Q", "", 0, 0, self.often(0.5))

    def healthy(self) -> None:
        self.hub.app.ask(m.SubscriptionHealthy, self.name())

    def alter(self) -> None:
        depth_max, priority = self.chance.choice([1, 5, None]), self.chance.randint(0, 9)
        given = {"depth_max": depth_max, "priority_default": priority}
        self.hub.app.ask(m.QueueAlter, self.name(), given)

    def consume(self) -> None:
        self.hub.app.consume(self.name(), self.chance.choice([0, 2, 100]))

    def unit(self) -> None:
        self.made += 1
        unit, name = UnitOfWork(self.hub.app, self.made), self.name()
        unit.put("/t/a", b"u")
        if name not in self.held:
            unit.get(name, 2)
        self.chance.choice([unit.commit, unit.backout])()

    def step(self) -> None:
        often = [self.publish, self.get, self.settle] * 6 + [self.turn] * 4
        seldom = [
            self.subscribe,
            self.end,
            self.stop,
            self.republish,
            self.republish,
            self.job,
            self.healthy,
            self.alter,
            self.wait,
            self.consume,
            self.unit,
        ]
        act = self.chance.choice(often + seldom) if self.names else self.subscribe
        with suppress(RequestError):  # The subscription may have ended in the meantime.
            act()
        self.hub.app.delivered()
        if self.often(0.2):
            assert faults(self.hub.manager) == [], act.__name__


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_store_is_sound_at_any_stop_and_nothing_is_left(seed: int) -> None:
    """C19, C23: the store is valid at any stop, and no rows are left over."""
    world = World(seed)
    hub = world.hub
    for _ in range(STEPS):
        world.step()
    for _ in range(2):
        hub.sound()
        audit(hub.manager)
        hub.crash()
    for row in hub.app.ask(m.SubscriptionList)["subscriptions"]:
        hub.app.ask(m.Unsubscribe, row["subscription"])
    for topic in TOPICS:
        with suppress(RequestError):
            hub.app.ask(m.TopicDelete, topic, True)
    hub.sound()
    assert (hub.stored, hub.holders()) == (0, {})
