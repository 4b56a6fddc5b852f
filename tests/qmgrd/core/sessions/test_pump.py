"""Tests of delivery: which consumer is served next, the order, and the cost."""

from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.queue.seek import SeekResult, seek
from tests.group_player import member
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.ticking import MS_NS, Ticking


def test_consumers_share_alike(manager: Manager, app: Client) -> None:
    """Each of four consumers gets a quarter, regardless of the order in which they came."""
    others = [app, *(manager.connect(f"c{i}") for i in range(3))]
    for client in others:
        client.consume("Q")
    for _ in range(10):
        app.put("Q", *[b"x"] * 400)
    manager.rest()
    assert [len(client.delivered()) for client in others] == [1_000] * 4


def test_single_messages_go_round(manager: Manager, app: Client) -> None:
    others = [app, *(manager.connect(f"c{i}") for i in range(3))]
    for client in others:
        client.consume("Q")
    for _ in range(8):
        app.put("Q", b"x")
    assert [len(client.delivered()) for client in others] == [2] * 4


def test_consumer_that_is_full_does_not_hold_the_others_up(manager: Manager, app: Client) -> None:
    app.consume("Q", messages=1)
    other = manager.connect("other")
    other.consume("Q")
    app.put("Q", *[b"x"] * 1_000)
    manager.rest()
    assert (len(app.delivered()), len(other.delivered())) == (1, 999)


def test_many_idle_consumers_do_not_slow_the_one_that_wants(manager: Manager, app: Client) -> None:
    for _ in range(99):
        manager.connect().consume("Q", messages=0)
    app.put("Q", *[b"x"] * 1_000)
    app.consume("Q")
    assert manager.rest() < 20
    assert len(app.delivered()) == 1_000


def test_gets_of_one_turn_all_have_something_though_it_is_more_than_a_turns_rows() -> None:
    manager = Manager(limits={"turn_rows": 100})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", *[bytes(3_000)] * 300)
    app.send(*[m.Get(app.next_id(), "Q", 1, 0) for _ in range(300)])
    manager.turn()
    manager.rest()
    assert len(app.delivered()) == 300


def test_one_turn_asks_no_further_consumer_once_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer that selects may examine hundreds of messages, so the clock is read after each."""
    asked = 0

    def counting(*args: Any) -> SeekResult:
        nonlocal asked
        asked += 1
        return seek(*args)

    monkeypatch.setattr("qmgrd.core.sessions.pump.seek", counting)
    clock = Ticking()
    manager = Manager(clock_ns=clock)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    for _ in range(8):
        app.ask(m.Consume, *m.Consume(0, "Q", 10, 1 << 20, 0, "priority = 9")[1:])
    producer = app.producer()
    asked, clock.step_ns = 0, 1_000 * MS_NS
    app.send(m.Put(producer.stream, 1, 0, "Q", [record(b"x")] * 10))
    for turns in range(1, 9):
        manager.turn()
        assert asked == turns
    manager.rest()
    assert asked == 8


class CountingStore(MemoryStore):
    """A store that counts its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def get(self, key: bytes) -> bytes | None:
        self.looks += 1
        return super().get(key)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.looks += 1
        yield from super().scan(start, stop)


def costs_of_a_put(waiting: int, *, all_available: bool) -> int:
    """Returns the number of reads for a put that no waiting get selects."""
    store = CountingStore()
    manager = Manager(store)
    app, other = manager.connect(), manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put_records("Q", member("A3"))
    for reader in range(1, waiting + 1):
        other.send(
            m.Get(
                other.next_id(),
                "Q",
                1,
                60_000,
                order=m.LOGICAL,
                all_available=all_available,
                reader=reader,
            )
        )
    manager.rest()
    before = store.looks
    app.put_records("Q", member("A2"))
    manager.rest()
    assert other.delivered() == []
    return store.looks - before


@pytest.mark.parametrize("all_available", [False, True])
def test_cost_of_a_put_does_not_depend_on_waiting_readers(all_available: bool) -> None:
    few = costs_of_a_put(2, all_available=all_available)
    assert costs_of_a_put(100, all_available=all_available) == few


def test_each_waiting_reader_gets_a_group_when_groups_arrive(app: Client) -> None:
    for reader in range(1, 6):
        app.send(m.Get(app.next_id(), "Q", 1, 60_000, order=m.LOGICAL, reader=reader))
    app.put_records("Q", *(member(f"{letter}2") for letter in "ABCDE"))
    app.manager.rest()
    assert app.delivered() == []
    app.put_records("Q", *(member(f"{letter}1") for letter in "ABCDE"))
    app.manager.rest()
    assert [x.body for x in app.delivered()] == [b"A1", b"B1", b"C1", b"D1", b"E1"]


def test_consumers_without_credit_are_checked_once() -> None:
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    idle = [app.consume("Q", messages=0) for _ in range(500)]
    app.consume("Q")
    app.put("Q", b"a")
    queue = manager.queue("Q")
    assert (len(queue.waiting.rotation), len(queue.waiting.resting)) == (1, 500)
    assert app.show("Q")["consumers"] == 501
    assert [x.body for x in app.delivered()] == [b"a"]
    app.send(m.Credit(idle[7], 1, 1_000))
    manager.rest()
    assert (len(queue.waiting.rotation), len(queue.waiting.resting)) == (2, 499)
    app.put("Q", b"b", b"c")
    deliveries = [x for x in app.hear() if type(x) is m.Deliver]
    assert idle[7] in [x.request_id for x in deliveries]
    app.hang_up()
    manager.rest()
    assert not queue.waiting
