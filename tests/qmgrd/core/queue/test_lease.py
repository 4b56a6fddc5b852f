"""Tests of leases that time out."""

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.returns.returns import RETURNS_PER_TURN
from tests.qmgrd.core.harness import AnyStore, Client, Manager, lessee


def test_lease_ends_at_its_deadline_and_not_before(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1")
    app.get("Q", lease_ms=1_000)
    app.manager.turn(999)
    assert app.show("Q")["leased"] == 1
    app.manager.turn(1)
    assert app.show("Q")["leased"] == 0
    (again,) = app.get("Q")
    state = m.STATE_REDELIVERED | m.STATE_NOTED
    assert (again.delivered, again.failed, again.state) == (1, 1, state)


def test_ack_that_arrived_in_time_beats_the_deadline(app: Client) -> None:
    """Requests are applied before timers, so an ack that reached the socket in time counts."""
    app.put("Q", b"1")
    (lease,) = app.get("Q", lease_ms=1_000)
    app.send(m.Settle(9, m.ACK, lease.queue_id, lease.handle))
    app.manager.turn(5_000)
    assert app.hear() == [m.Settled(9, [])]
    assert app.show("Q")["returned"] == 0


def test_lease_duration_is_that_of_the_queue_by_default(app: Client) -> None:
    app.ask(m.QueueCreate, "SHORT", {"lease_ms": 200})
    assert app.ask(m.Consume, "SHORT", 1, 1000)[1] == 200
    assert app.ask(m.Consume, "SHORT", 1, 1000, 700)[1] == 700
    assert app.ask(m.Consume, "Q", 1, 1000)[1] == 30_000


def test_leases_of_one_consumer_end_one_by_one(app: Client) -> None:
    app.consume("Q", lease_ms=1_000)
    for body in (b"1", b"2", b"3"):
        app.put("Q", body)
        app.manager.advance(100)
    app.hear()
    app.manager.turn(700)
    assert [x.body for x in app.delivered()] == [b"1"]
    app.manager.turn(100)
    assert [x.body for x in app.delivered()] == [b"2"]


def test_thousands_of_leases_that_end_at_once_take_more_than_one_turn(app: Client) -> None:
    """The work of a turn is limited, so expired leases are returned in slices."""
    for _ in range(3):
        app.put("Q", *[b"x"] * 1_000)
    for _ in range(12):
        app.get("Q", 256, lease_ms=1_000)
    app.manager.advance(1_000)
    back = []
    while app.manager.queue("Q").leases:
        before = app.manager.queue("Q").counters.returned
        app.manager.turn()
        back.append(app.manager.queue("Q").counters.returned - before)
    assert sum(back) == 3_000
    assert max(back) <= RETURNS_PER_TURN
    assert app.manager.turns.broker.next_timer_ms() is not None


@pytest.mark.parametrize("gets", [5_000])
def test_completed_gets_leave_nothing_behind(app: Client, gets: int) -> None:
    """Otherwise, frequent gets would fill the memory with timers of their waits and leases."""
    timers = app.manager.turns.broker.context.timers
    app.put("Q", b"x")
    (lease,) = app.get("Q")
    for request_id in range(100, 100 + gets):
        app.say(m.Get(request_id, "Q", 1, 60_000, 60_000))
        app.release(lease)
        (deliver,) = app.hear()
        lease = lease._replace(number=m.DELIVERY.unpack_from(deliver.items[0])[2])
    app.ack(lease)
    assert len(timers._heap) < 200
    (session,) = app.manager.turns.broker.sessions.values()
    assert len(session.lessees) < 200


def test_consumer_wants_while_it_has_credit_of_both_kinds(manager: Manager) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    queue = manager.queue("Q")
    assert Consumer(1, 1, lessee(queue, 100), 1, 1).wants
    assert not Consumer(1, 1, lessee(queue, 100), 0, 1).wants
    assert not Consumer(1, 1, lessee(queue, 100), 1, 0).wants
    consumer = Consumer(1, 1, lessee(queue, 100), 1, 1)
    consumer.open = False
    assert not consumer.wants


def test_leases_of_many_consumers_that_end_at_once_come_back_in_slices(app: Client) -> None:
    """Each consumer has a separate timer. A turn handles a limited number of timers."""
    app.put("Q", *[b"x"] * 2_000)
    for number in range(10):
        assert len(app.get("Q", 200, lease_ms=1_000 + number)) == 200
    left: list[int] = []
    while not left or left[-1]:
        app.manager.turn(0 if left else 2_000)
        left.append(len(app.manager.queue("Q").leases))
    assert left == [2_000 - RETURNS_PER_TURN * n for n in range(1, 5)]
