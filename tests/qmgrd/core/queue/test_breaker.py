"""Tests of the circuit breaker, alone and on a queue."""

import json
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.catalogue.system import EVENTS
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.queue.breaker import Breaker, BreakerState
from tests.qmgrd.core.harness import Client, Manager

BOUNDS = Bounds(
    10,
    10,
    10,
    10,
    breaker_percent=50,
    breaker_messages_min=4,
    breaker_window_ms=10_000,
    breaker_pause_ms=5_000,
)
ON = {
    "breaker_percent": 50,
    "breaker_messages_min": 4,
    "breaker_window_ms": 10_000,
    "breaker_pause_ms": 5_000,
}


def test_breaker_opens_at_the_share_of_failures() -> None:
    breaker = Breaker()
    assert breaker.note(BOUNDS, 1, 3, 0) is None
    assert breaker.note(BOUNDS, 2, 0, 2) is None
    assert breaker.note(BOUNDS, 3, 0, 1) is BreakerState.OPEN
    assert breaker.until_ms == 5_003


def test_breaker_needs_a_number_of_messages() -> None:
    breaker = Breaker()
    assert [breaker.note(BOUNDS, 1, 0, 1) for _ in range(4)] == [
        None,
        None,
        None,
        BreakerState.OPEN,
    ]


def test_messages_older_than_the_window_do_not_count() -> None:
    breaker = Breaker()
    breaker.note(BOUNDS, 10_000, 0, 3)
    assert breaker.note(BOUNDS, 20_000, 0, 1) is None
    assert breaker.note(BOUNDS, 24_000, 0, 2) is None
    # The previous half of the period still counts.
    assert breaker.note(BOUNDS, 25_000, 0, 1) is BreakerState.OPEN


def test_breaker_without_a_share_lets_everything_pass() -> None:
    breaker, off = Breaker(), Bounds(10, 10, 10, 10)
    assert breaker.note(off, 1, 0, 1_000) is None
    assert breaker.allowance(1, {}) is None


def opened() -> Breaker:
    breaker = Breaker()
    breaker.note(BOUNDS, 1_000, 0, 4)
    assert breaker.state is BreakerState.OPEN
    return breaker


def test_open_breaker_lets_one_pass_after_its_pause() -> None:
    breaker = opened()
    assert breaker.allowance(5_999, {}) == 0
    assert breaker.allowance(6_000, {}) == 1
    breaker.handed([m.DELIVERY.pack(4, 17, 1, 0, 0, 0, 0)])
    assert breaker.allowance(6_001, {17: None}) == 0
    assert breaker.allowance(6_002, {}) == 1  # The test message returned without a result.


@pytest.mark.parametrize(
    ("consumed", "failed", "state"), [(1, 0, BreakerState.CLOSED), (0, 1, BreakerState.OPEN)]
)
def test_result_of_the_tried_message_decides(
    consumed: int, failed: int, state: BreakerState
) -> None:
    breaker = opened()
    breaker.allowance(6_000, {})
    assert breaker.note(BOUNDS, 7_000, consumed, failed) is state
    assert breaker.allowance(7_000, {}) == (None if state is BreakerState.CLOSED else 0)


# -- at work


def events(app: Client) -> list[str]:
    return [json.loads(body)["event"] for body in app.bodies(EVENTS)]


@pytest.fixture
def down(app: Client) -> Client:
    """Returns a client of Q. The breaker of Q has just opened, and ten messages are pending."""
    app.ask(m.QueueAlter, "Q", ON)
    app.put("Q", *[b"%d" % i for i in range(10)], correlation_id=b"c")
    app.release(*app.get("Q", 4))
    assert app.show("Q")["breaker"] == "open"
    return app


def test_nothing_is_delivered_while_the_breaker_is_open(down: Client) -> None:
    """An open breaker stops gets, consumers and selections. Waiting for it uses no turns."""
    assert down.get("Q") == []
    ways: list[dict[str, Any]] = [{}, {"correlation_id": b"c"}, {"where": "priority = 4"}]
    for selecting in ways:
        assert down.ask(m.Get, *m.Get(0, "Q", **selecting)[1:]) is None
        down.ask(m.Consume, *m.Consume(0, "Q", 10, 1 << 20, 0, **selecting)[1:])
    assert down.manager.rest() <= 1
    down.manager.turn(4_000)
    assert down.delivered() == []
    assert events(down) == ["breaker opened"]


def test_one_message_is_tried_alone_and_its_success_closes_the_breaker(
    manager: Manager, down: Client
) -> None:
    down.consume("Q")
    manager.turn(4_999)
    assert down.delivered() == []
    manager.turn(1)
    manager.rest()
    (tried,) = down.delivered()
    assert down.show("Q")["breaker"] == "probing"
    down.ack(tried)
    manager.rest()
    assert len(down.delivered()) == 9
    assert events(down) == ["breaker opened", "breaker closed"]


def test_timer_of_the_breaker_wakes_the_queue(manager: Manager, down: Client) -> None:
    due_ms = manager.turns.broker.next_timer_ms()
    assert due_ms == manager.now().ms + 5_000


def test_failure_of_the_tried_message_opens_the_breaker_again(
    manager: Manager, down: Client
) -> None:
    down.consume("Q")
    manager.turn(5_000)
    manager.rest()
    down.release(*down.delivered())
    assert down.show("Q")["breaker"] == "open"
    manager.turn(4_999)
    assert down.delivered() == []
    manager.turn(1)
    manager.rest()
    assert len(down.delivered()) == 1


def test_tried_message_that_returns_unseen_is_followed_by_another(
    manager: Manager, down: Client
) -> None:
    manager.turn(5_000)
    (tried,) = down.get("Q", 5)
    assert down.get("Q") == []
    assert down.settle(m.UNREAD, tried) == []
    assert len(down.get("Q", 5)) == 1


def test_lost_connection_lets_another_be_tried(manager: Manager, down: Client) -> None:
    other = manager.connect("other")
    manager.turn(5_000)
    assert len(other.get("Q", 5)) == 1
    other.hang_up()
    manager.rest()
    assert len(down.get("Q", 5)) == 1


def test_breaker_that_is_removed_while_open_lets_all_pass(manager: Manager, down: Client) -> None:
    down.consume("Q")
    down.ask(m.QueueAlter, "Q", {"breaker_percent": 0})
    manager.rest()
    found = down.delivered()
    assert len(found) == 10
    assert down.show("Q")["breaker"] == "closed"
    assert events(down) == ["breaker opened", "breaker closed"]


def test_end_of_an_inhibit_tries_one_message(manager: Manager, down: Client) -> None:
    down.consume("Q")
    down.ask(m.QueueAlter, "Q", {"get_inhibit": True})
    manager.turn(60_000)
    manager.rest()
    assert down.delivered() == []
    down.ask(m.QueueAlter, "Q", {"get_inhibit": False})
    manager.rest()
    assert len(down.delivered()) == 1


@pytest.mark.parametrize("wait_ms", [0, 60_000])
def test_selection_gets_the_tried_message_wherever_it_is(
    manager: Manager, app: Client, wait_ms: int
) -> None:
    app.ask(m.QueueAlter, "Q", ON)
    app.put("Q", *[b"x"] * 2_000)
    app.put("Q", b"wanted", priority=1)
    app.release(*app.get("Q", 4))
    manager.turn(5_000)
    request = m.Get(app.next_id(), "Q", 1, wait_ms, 0, 1 << 20, "priority = 1")
    app.send(request)
    manager.turn()
    manager.rest()
    assert [x.body for x in app.delivered()] == [b"wanted"]


def test_overdue_gets_end_while_one_message_is_tried(manager: Manager, down: Client) -> None:
    manager.turn(5_000)
    ids = [down.next_id() for _ in range(3)]
    down.send(*[m.Get(x, "Q", 1, 0, 0, 1 << 20, "priority = 4") for x in ids])
    manager.turn()
    manager.rest()
    kinds = sorted(type(x).__name__ for x in down.hear())
    assert kinds == ["Deliver", "Ok", "Ok"]


def test_lease_that_ends_is_a_failure(manager: Manager, app: Client) -> None:
    app.ask(m.QueueAlter, "Q", ON)
    app.put("Q", *[b"x"] * 4)
    app.get("Q", 4, lease_ms=1_000)
    manager.turn(1_000)
    assert app.show("Q")["breaker"] == "open"


def test_breaker_is_closed_after_a_restart(manager: Manager, down: Client) -> None:
    manager.restart()
    assert manager.connect().show("Q")["breaker"] == "closed"


def test_events_name_the_queue(down: Client) -> None:
    found: list[dict[str, Any]] = [json.loads(body) for body in down.bodies(EVENTS)]
    assert found == [{"event": "breaker opened", "count": 1, "manager": "QM1", "queue": "Q"}]
