"""Tests that a reader that continues after `arrived` receives each message exactly once."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from tests.qmgrd.core.harness import Client, Delivery, Manager, delivery
from tests.qmgrd.core.unit_of_work import UnitOfWork, settle

UNITS_MAX = 3  # number of units open at the same time


class Follower:
    """Reads a queue in order of arrival.

    Invariant: no message up to ``at`` has to be read again.
    """

    def __init__(self) -> None:
        self.at = 0
        self.seen: list[bytes] = []

    def follow(self, app: Client, count: int) -> None:
        """Reads, in pages of *count*, up to the point where all arrivals are known."""
        until = app.show("Q")["arrived"]
        assert until >= self.at
        place: list[int] | None = [0, self.at, 0, m.ARRIVAL]
        while place is not None:
            ask = m.Browse(0, "Q", place, count, order=m.ARRIVAL)
            page = app.ask(m.Browse, *ask[1:])
            found = [delivery(0, item) for item in page["items"]]
            self.seen += [one.body for one in found if one.arrival <= until]
            place = page["next"]
            if any(one.arrival > until for one in found):
                break
        self.at = until


class World:
    """A queue, a client that performs any operation on it, and a follower."""

    def __init__(self, seed: int) -> None:
        self.manager = Manager()
        self.app = self.manager.connect("app")
        self.app.ask(m.QueueCreate, "Q", {"backout_threshold": 0})
        self.random = random.Random(seed)
        self.follower = Follower()
        self.open: list[UnitOfWork] = []
        self.units = self.count = 0

    def bodies(self) -> list[bytes]:
        """Returns one or more new messages."""
        count = self.random.randint(1, 4)
        self.count += count
        return [b"%d" % (self.count - i) for i in range(count)]

    def put(self) -> None:
        """Puts messages, perhaps with a delay, perhaps in a unit of work."""
        fields: dict[str, int] = {"priority": self.random.randint(0, 9)}
        if not self.random.randrange(3):
            fields |= {"flags": records.FLAG_DELAYED, "delay_ms": self.random.randint(1, 9_000)}
        if self.open and self.random.randrange(2):
            self.random.choice(self.open).put("Q", *self.bodies(), **fields)
        else:
            self.app.put("Q", *self.bodies(), **fields)

    def put_member(self) -> None:
        """Puts the next message of one of several groups."""
        (body, *_) = self.bodies()
        self.app.put("Q", body, group=(b"%024d" % self.random.randint(0, 2), self.count, False))

    def begin(self) -> None:
        """Begins a unit, or ends one that is open."""
        if len(self.open) < UNITS_MAX and self.random.randrange(2):
            self.units += 1
            self.open.append(UnitOfWork(self.app, self.units))
        elif self.open:
            unit = self.open.pop(self.random.randrange(len(self.open)))
            self.random.choice([unit.commit, unit.backout])()

    def get(self) -> None:
        """Gets messages, and settles them by any method."""
        found = self.app.get("Q", self.random.randint(1, 5))
        if not found:
            return
        action = self.random.choice([m.ACK, m.RELEASE, m.RETURN, m.UNREAD])
        delay_ms = 0
        if action in (m.RELEASE, m.RETURN):
            delay_ms = self.random.choice([0, 500, 20_000])
        settle(self.app, action, *found, delay_ms=delay_ms)

    def wait(self) -> None:
        """Lets time pass."""
        self.manager.turn(self.random.randint(1, 10_000))
        self.manager.rest()

    def end(self) -> None:
        """Restarts the queue manager, which ends the units."""
        self.random.choice([self.manager.crash, self.manager.restart])()
        self.app, self.open = self.manager.connect("app"), []

    def follow(self) -> None:
        """Lets the follower continue to read."""
        self.follower.follow(self.app, self.random.randint(1, 5))

    def there(self) -> list[Delivery]:
        """Returns all messages that are available or delayed."""
        found = []
        for is_delayed in (False, True):
            ask = m.Browse(0, "Q", None, 10_000, 1 << 30, delayed=is_delayed)
            page = self.app.ask(m.Browse, *ask[1:])
            found += [delivery(0, item) for item in page["items"]]
        return found


STEPS: list[Callable[[World], None]] = [
    World.put,
    World.put,
    World.put_member,
    World.begin,
    World.get,
    World.wait,
    World.follow,
    World.follow,
    World.end,
]


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.sampled_from(STEPS), min_size=30, max_size=60))
def test_each_message_is_read_once(seed: int, steps: list[Callable[[World], None]]) -> None:
    world = World(seed)
    for step in steps:
        step(world)
    for unit in world.open:
        unit.commit()
    world.follow()
    seen = world.follower.seen
    assert len(seen) == len(set(seen))
    assert {one.body for one in world.there()} <= set(seen)


@pytest.mark.parametrize("ends", ["backout", "commit", "crash"])
def test_unit_of_work_keeps_its_places(app: Client, ends: str) -> None:
    app.put("Q", b"before")
    unit = UnitOfWork(app)
    unit.put("Q", b"one", b"two")
    app.put("Q", b"after")
    row = app.show("Q")
    assert (row["arrived"], row["next_arrival"]) == (1, 5)
    if ends == "crash":
        app.manager.crash()
        app = app.manager.connect("app")
    else:
        getattr(unit, ends)()
    assert app.show("Q")["arrived"] == app.show("Q")["next_arrival"] - 1 == 4


def test_places_of_a_unit_that_was_backed_out_stay_empty_after_a_crash(app: Client) -> None:
    """The follower has passed these positions, so no message may arrive at them."""
    unit = UnitOfWork(app)
    unit.put("Q", b"one", b"two")
    unit.backout()
    arrived = app.show("Q")["arrived"]
    app.manager.crash()
    other = app.manager.connect("app")
    other.put("Q", b"three")
    (found,) = other.browse("Q")
    assert found.arrival > arrived == 2


def test_unit_that_kept_no_places_writes_nothing_when_it_is_backed_out(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["127.0.0.1:1"], "stopped": True})
    app.ask(m.QueueCreate, "FAR@NYC")
    unit = UnitOfWork(app)
    unit.put("FAR@NYC", b"one")
    before = app.manager.turns.broker.context.turn_number
    unit.backout()
    assert app.manager.turns.broker.context.turn_number == before


def test_queue_that_is_deleted_with_a_unit_open_leaves_no_counters(app: Client) -> None:
    unit = UnitOfWork(app)
    unit.put("Q", b"one")
    app.ask(m.QueueDelete, "Q", True)
    unit.backout()
    app.manager.rest()
    assert app.manager.scan(b"\x04") == []
