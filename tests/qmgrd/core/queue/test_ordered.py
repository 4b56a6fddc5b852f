"""Tests that messages without a row in the UID index are found like messages with a row."""

import random
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue import lane
from qmgrd.core.queue.dedup import UidVerdict
from qmgrd.core.queue.held_puts import HeldPut, append_held
from qmgrd.core.queue.put import prepare, prepare_plain, put
from qmgrd.core.queue.queue import Queue
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import record

US = 1_700_000_000_000_000
LONG = b"long" * 3_000
STEPS = (
    "put",
    "put",
    "put",
    "elsewhere",
    "own",
    "duplicate",
    "hold",
    "hold",
    "commit",
    "back_out",
    "remove",
    "remove",
    "remove",
    "delay",
    "wake",
    "damage",
    "set_aside",
    "restart",
    "clock",
)


class World:
    """A queue, and its messages in a dictionary: arrival numbers by target and encoded UID."""

    def __init__(self, seed: int, target: str = "", store: MemoryStore | None = None) -> None:
        self.rng, self.target = random.Random(seed), target
        self.store = MemoryStore() if store is None else store
        self.counters, self.last_us, self.now = Counters(), 0, Now(1, US)
        self.messages: dict[bytes, int] = {}
        self.gone: set[bytes] = set()
        self.held: list[HeldPut] = []
        self.kinds: Counter[str] = Counter()
        self.open()

    def open(self) -> None:
        """Opens the queue with the data that is stored."""
        row = self.store.get(keys.of_queue(keys.SPACE_COUNTERS, 1))
        counters = Counters() if row is None else Counters.read(self.store, 1, "Q")
        self.queue = Queue(
            1,
            "Q",
            Bounds(10**6, 10**9, 1_000, 100),
            counters,
            Ids(1),
            Schedule(),
            is_transmission=bool(self.target),
            origin=b"QM1",
        )
        self.stamper = Stamper("QM1", self.last_us)

    def step(self, step: str) -> None:
        """Performs a step, and stores it unless it wrote nothing."""
        self.now = self.now._replace(wall_us=self.now.wall_us + self.rng.randint(0, 50))
        before = dict(self.store.rows)
        getattr(self, step)()
        if self.store.rows != before:
            self.queue.refresh_groups(self.store, self.now)
            self.queue.flush(self.store)
            self.last_us = self.stamper.last_us
        self.check()

    def records(self) -> list[bytes]:
        """Returns some records of different kinds without UIDs."""
        rng, found = self.rng, []
        priorities = rng.choice([(4,), (0, 4, 9)])
        for _ in range(rng.choice([1, 1, 3, 20])):
            more: dict[str, Any] = rng.choice(
                [{}, {}, {}, {"correlation_id": b"c"}, {"delay_ms": 1_000}]
            )
            if not self.target and rng.random() < 0.2:
                number = self.kinds["member"] = self.kinds["member"] + 1
                more = more | {"group": (b"G" * 24, number, False)}
            body = LONG if rng.random() < 0.1 else b"x"
            found.append(record(body, priority=rng.choice(priorities), **more))
        return found

    def arrived(self, first: int) -> None:
        """Adds the messages from the arrival number *first* on to the dictionary."""
        for key, value in self.stored().items():
            if (arrival := keys.place(key)[1]) >= first:
                self.messages[entries.uid_trailer(entries.decode(value))] = arrival

    def stored(self) -> dict[bytes, bytes]:
        """Returns the entries in all lanes of messages that a UID identifies."""
        lanes = (keys.LANE_READY, keys.LANE_DELAYED, keys.LANE_GROUPED)
        prefixes = tuple(keys.lane(1, lane_) for lane_ in lanes)
        return {key: value for key, value in self.store.rows.items() if key.startswith(prefixes)}

    def any_message(self) -> tuple[bytes, bytes] | None:
        """Returns the key and entry of a random message, often one of the oldest."""
        found = sorted(self.stored().items(), key=lambda row: keys.place(row[0])[1])
        at = self.rng.choice([0, 0, self.rng.randrange(len(found) or 1)])
        return found[at] if found else None

    def _put(self, batch: list[bytes]) -> None:
        first = self.queue.counters.next_arrival
        put(self.queue, self.store, self.now, self.stamper, batch, 10**6, self.target)
        self.arrived(first)

    def put(self) -> None:
        """Puts new messages."""
        self._put(self.records())

    def elsewhere(self) -> None:
        """Puts a message of another origin, whose name begins with the name of this one."""
        self._put([record(b"e", uid=("QM12", self.rng.randint(0, 2**40)))])

    def own(self) -> None:
        """Puts a message with an earlier UID of this queue manager, as if it came back."""
        self._put([record(b"o", uid=("QM1", self.rng.randint(US // 2, self.now.wall_us)))])

    def duplicate(self) -> None:
        """Puts a message that exists, or that existed."""
        known = sorted(self.messages.keys() | self.gone)
        if known:
            trailer = self.rng.choice(known)
            uid = trailer[:-8].decode(), int.from_bytes(trailer[-8:], "big")
            self._put([record(b"d", uid=uid), record(b"new")])

    def hold(self) -> None:
        """Holds puts of a unit of work, like the daemon."""
        queue, batch = self.queue, self.records()
        if self.rng.random() < 0.3:
            batch.append(record(b"h", uid=("ELSE", self.rng.randint(0, 2**40))))
        self.stamper.catch_up(self.now.wall_us)
        for one in batch:
            found = []
            if self.rng.random() < 0.5:
                found = prepare_plain(
                    queue, self.now, self.stamper, [one], 1_000, self.target.encode()
                )
            if not found:
                prepared = prepare(
                    queue, self.store, self.now, self.stamper, one, 10**6, self.target.encode()
                )
                found = [prepared]
            index_key = queue.origins.index_key(found[0].trailer, self.target.encode())
            place = 0 if self.target else queue.next_arrival(is_new=found[0].is_new)
            self.held.append(HeldPut(queue, found[0], place, index_key))

    def commit(self) -> None:
        """Commits some of the held puts, in their order."""
        chosen = [x for x in self.held if self.rng.random() < 0.7]
        chosen = [x for x in chosen if x.prepared.trailer not in self.messages]
        self.held = [x for x in self.held if x not in chosen]
        first = min((x.arrival for x in chosen), default=0) or self.queue.counters.next_arrival
        append_held(self.queue, self.store, chosen)
        self.arrived(first)

    def back_out(self) -> None:
        """Removes the held puts."""
        self.held.clear()

    def remove(self) -> None:
        """Removes some messages."""
        for _ in range(self.rng.choice([1, 3, 30])):
            if (row := self.any_message()) is not None:
                self._gone(row[1])
                lane.remove(self.queue, self.store, *row, for_good=False)
                self.queue.counters.count_acked()

    def _gone(self, value: bytes) -> None:
        trailer = entries.uid_trailer(entries.decode(value))
        del self.messages[trailer]
        self.gone.add(trailer)

    def delay(self) -> None:
        """Returns a message with a delay, as a retry."""
        row = self.any_message()
        if row is None or self.target:
            return
        key, value = row
        entry, (priority, arrival) = entries.decode(value), keys.place(key)
        front, trailer = entries.front(self.store, entry), entries.uid_trailer(entry)
        lane.unlink(self.queue, self.store, key, value, for_good=False)
        delayed = entry._replace(due_ms=5)
        lane.add(self.queue, self.store, delayed, front, trailer, priority, arrival)

    def wake(self) -> None:
        """Ends the delay of a message."""
        delayed = [key for key in self.stored() if key[5] == keys.LANE_DELAYED]
        if delayed:
            key = self.rng.choice(delayed)
            entry = entries.decode(self.store.rows[key])
            self.store.delete(keys.due(entry.due_ms, 1, key[5], *keys.place(key)))
            lane.wake(self.queue, self.store, key, entry)

    def damage(self) -> None:
        """Damages the body of a message, but not its UID."""
        row = self.any_message()
        if row is not None and not (entry := entries.decode(row[1])).in_rows:
            damaged = bytearray(row[1])
            damaged[-len(entries.uid_trailer(entry)) - 1] ^= 1
            self.store.put(row[0], bytes(damaged))

    def set_aside(self) -> None:
        """Sets a message aside as damaged. Its UID may then be put again."""
        if (row := self.any_message()) is not None:
            self._gone(row[1])
            lane.set_aside(self.queue, self.store, *row)

    def restart(self) -> None:
        """Starts again from the store. Held puts, and the stamps that they took, are lost."""
        self.held.clear()
        self.open()

    def clock(self) -> None:
        """Sets the clock back or forward."""
        change = self.rng.choice([-(10**9), -1_000, 10**7])
        self.now = self.now._replace(wall_us=self.now.wall_us + change)

    def _some(self, trailers: Collection[bytes]) -> list[bytes]:
        return self.rng.sample(sorted(trailers), min(len(trailers), 20))

    def check(self) -> None:
        """Compares known UIDs with the dictionary, and the index rows with the rule."""
        queue, target = self.queue, self.target.encode()
        for trailer in (*self._some(self.messages), *self._some(self.gone), b"QM1" + bytes(8)):
            arrival = self.messages.get(trailer)
            place = queue.origins.place(self.store, trailer, target)
            verdict = queue.origins.check_uid(self.store, trailer, target)
            assert (verdict is UidVerdict.DUPLICATE) == (arrival is not None)
            assert arrival == (None if place is None else keys.arrival_of(place))
            if place is not None:
                assert keys.of_queue(keys.SPACE_MESSAGE, 1) + place in self.store.rows
        counters = queue.counters
        without = [x for x in self.messages.values() if counters.is_unindexed(x)]
        prefix = keys.of_queue(keys.SPACE_UID, 1)
        count = sum(1 for _ in self.store.scan(prefix, keys.after(prefix)))
        assert len(without) == counters.unindexed
        assert count == len(self.messages) - len(without)
        self.kinds["without"] += len(without)
        self.kinds["with"] += count


@given(
    st.integers(0, 2**32),
    st.sampled_from(["", "F"]),
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=60),
)
def test_messages_are_found_as_in_a_dictionary(seed: int, target: str, steps: list[str]) -> None:
    world = World(seed, target)
    for step in steps:
        world.step(step)


@pytest.mark.parametrize("target", ["", "F"])
def test_long_runs_have_messages_with_and_without_rows(target: str) -> None:
    """Otherwise, the test above would find all messages by only one of the ways."""
    world = World(5, target)
    for _ in range(500):
        world.step(world.rng.choice(STEPS))
    assert min(world.kinds["with"], world.kinds["without"]) > 1_000


class CountingStore(MemoryStore):
    """A store that counts the entries that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(start, stop):
            self.looks += 1
            yield row


@pytest.mark.parametrize(("priorities", "looks_max"), [(1, 16), (10, 60)])
def test_search_looks_at_few_of_many_messages(priorities: int, looks_max: int) -> None:
    """One binary search of 10,000 messages, and a few steps for each further priority."""
    store = CountingStore()
    world = World(1, store=store)
    batch = [record(b"x", priority=number % priorities) for number in range(10_000)]
    put(world.queue, store, world.now, world.stamper, batch, 10**6)
    world.arrived(0)
    for trailer, arrival in world.rng.sample(sorted(world.messages.items()), 200):
        store.looks = 0
        place = world.queue.origins.place(store, trailer)
        assert place is not None
        assert keys.arrival_of(place) == arrival
        assert store.looks <= looks_max


def test_uids_of_other_origins_need_no_search() -> None:
    store = CountingStore()
    world = World(1, store=store)
    put(world.queue, store, world.now, world.stamper, [record(b"x")] * 100, 10**6)
    put(world.queue, store, world.now, world.stamper, [record(b"x", uid=("A", 5))], 10**6)
    store.looks = 0
    late = world.queue.origins.check_uid(store, b"A" + (4).to_bytes(8, "big"))
    assert (late, store.looks) == (UidVerdict.SLOW, 0)


@pytest.mark.parametrize("mask", [1, 0x40, 0xFF])
@pytest.mark.parametrize("body", [b"x", LONG])
def test_damaged_uid_does_not_mislead_the_search(body: bytes, mask: int) -> None:
    world = World(1)
    put(world.queue, world.store, world.now, world.stamper, [record(body)] * 64, 10**6)
    world.arrived(0)
    trailers = {arrival: trailer for trailer, arrival in world.messages.items()}
    for arrival in (1, 16, 17, 18, 32, 33, 48, 63):
        key = world.queue.key(4, arrival)
        damaged = bytearray(world.store.rows[key])
        damaged[-8 + arrival % 8] ^= mask
        world.store.rows[key] = bytes(damaged)
        del world.messages[trailers[arrival]]
    for trailer, arrival in world.messages.items():
        place = world.queue.origins.place(world.store, trailer)
        assert place is not None
        assert keys.arrival_of(place) == arrival


def test_messages_of_an_older_store_keep_their_rows() -> None:
    """A store of format 4 has counters without a range, and a row for each message."""
    world = World(1)
    put(world.queue, world.store, world.now, world.stamper, [record(b"x")] * 5, 10**6)
    world.arrived(0)
    for key, value in world.stored().items():
        index_key = world.queue.origins.index_key(entries.uid_trailer(entries.decode(value)))
        world.store.put(index_key, key[keys.POSITION_AT :])
    world.queue.flush(world.store)
    key = keys.of_queue(keys.SPACE_COUNTERS, 1)
    rows.put(world.store, key, rows.get(world.store, key)[: 26 * 8])
    world.last_us = world.stamper.last_us
    world.open()
    world.check()
    for step in ("duplicate", "put", "remove", "remove", "put", "restart", "duplicate", "remove"):
        world.step(step)
    while world.messages:
        world.step("remove")
    prefix = keys.of_queue(keys.SPACE_UID, 1)
    assert list(world.store.scan(prefix, keys.after(prefix))) == []
