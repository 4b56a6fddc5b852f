"""Connections whose puts are delayed: order, fairness, and what a lost connection leaves."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.arrivals.arrival import Arrival
from qmgrd.core.arrivals.delayed_puts import cost
from qmgrd.core.intake import AHEAD_MAX_BYTES, DELAYED_MAX_BYTES, Intake
from qmgrd.core.limits.put_rates import WAIT_MIN_MS, PutRate, PutRates
from qmgrd.core.sessions.request_part import UnitPutPart
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager, Producer, record

LIMITED, FREE = 1, 9


@pytest.fixture
def rate() -> PutRate:
    rate = PutRate()
    rate.set(2, 0)
    return rate


@pytest.fixture
def intake(rate: PutRate) -> Intake:
    rates = PutRates()
    for number in (LIMITED, LIMITED + 1, LIMITED + 2):
        rates.watch(number, rate)
    return Intake(put_rates=rates)


def put(seq_id: int, count: int = 1) -> m.Put:
    return m.Put(1, seq_id, 0, "Q", [b"record"] * count)


def took(intake: Intake, now_ms: int) -> list[tuple[int, Any]]:
    """Returns the numbers of connections and puts, or the other requests, of a turn."""
    intake.begin_turn(now_ms)
    return [
        (number, x.message.first_id if isinstance(x.message, m.Put) else x.message)
        for number, x in intake.take(100, 1 << 20)
    ]


def test_further_puts_wait_in_their_order_and_other_users_do_not(intake: Intake) -> None:
    for seq_id in (1, 2, 3, 4):
        intake.message(LIMITED, put(seq_id), 10)
        intake.message(FREE, put(seq_id), 10)
    assert took(intake, 0) == [(1, 1), (9, 1), (1, 2), (9, 2), (9, 3), (9, 4)]
    assert not intake
    assert intake.next_put_ms() == WAIT_MIN_MS
    assert took(intake, 400) == [(1, 3)]
    assert took(intake, 500) == []
    assert took(intake, 501) == [(1, 4)]
    assert intake.next_put_ms() is None


def test_next_turn_is_due_when_the_user_has_tokens(intake: Intake) -> None:
    intake.message(LIMITED, put(1, count=4), 10)
    intake.message(LIMITED, put(2), 10)
    assert took(intake, 0) == [(1, 1)]
    assert intake.next_put_ms() == 1_001
    assert took(intake, 1_000) == []
    assert took(intake, 1_001) == [(1, 2)]


def test_requests_behind_a_delayed_put_wait_and_requests_before_it_do_not(intake: Intake) -> None:
    status, settle = m.Status(1), m.Settle(2, m.ACK, 1, b"")
    for message in (status, put(1, count=4), settle, put(2), status):
        intake.message(LIMITED, message, 10)
    assert took(intake, 0) == [(1, status), (1, 1), (1, settle)]
    assert took(intake, 1_001) == [(1, 2), (1, status)]


def test_puts_of_units_are_delayed_too(intake: Intake) -> None:
    held = m.UnitPut(5, 1, "Q", [b"record"] * 4)
    intake.message(LIMITED, held, 10)
    intake.message(LIMITED, held, 10)
    assert took(intake, 0) == [(1, held)]
    assert took(intake, 1_001) == [(1, held)]


def test_connections_of_a_user_share_its_tokens_in_the_order_of_waiting(intake: Intake) -> None:
    for seq_id in (1, 2, 3):
        for number in (1, 2, 3):
            intake.message(number, put(seq_id), 10)
    found, now_ms = took(intake, 0), 0
    while len(found) < 9:
        now_ms += 500
        assert now_ms < 10_000
        found += took(intake, now_ms)
    assert found == [(number, seq_id) for seq_id in (1, 2, 3) for number in (1, 2, 3)]
    assert now_ms == 3_500


def test_turn_looks_only_at_the_connections_that_it_can_serve(rate: PutRate) -> None:
    rates = PutRates()
    intake = Intake(put_rates=rates)
    for number in range(1_000):
        rates.watch(number, rate)
        intake.message(number, put(1), 10)
    assert len(took(intake, 0)) == 2
    intake.begin_turn(1_000)
    assert sum(map(len, intake._lines.values())) == 2
    intake.begin_turn(1_000)


def test_raised_limit_ends_the_delay(intake: Intake, rate: PutRate) -> None:
    for seq_id in range(1, 9):
        intake.message(LIMITED, put(seq_id), 10)
    assert len(took(intake, 0)) == 2
    rate.set(0, 0)
    assert intake.next_put_ms() == WAIT_MIN_MS
    assert len(took(intake, WAIT_MIN_MS)) == 6


def test_lost_connection_drops_the_delayed_requests_and_keeps_its_events(intake: Intake) -> None:
    intake.message(LIMITED, put(1, count=4), 10)
    intake.message(LIMITED, put(2), 10)
    intake.message(LIMITED, m.Settle(2, m.ACK, 1, b""), 10)
    assert took(intake, 0) == [(1, 1)]
    closed = Arrival(None, lambda broker: None, 0)
    assert closed.event is not None
    intake.event(LIMITED, closed.event)
    intake.close(LIMITED)
    assert intake.bytes == 0
    assert intake.next_put_ms() is None
    intake.begin_turn(0)
    assert [arrival for _, arrival in intake.take(9, 99)] == [closed]
    assert intake._pending == {}
    assert took(intake, 60_000) == []


def test_user_cannot_avoid_the_delay_by_closing_its_connections(intake: Intake) -> None:
    """A connection that closes before its turn is served only as far as there are tokens."""
    intake.message(LIMITED, put(1, count=2), 10)
    intake.message(LIMITED, put(2), 10)
    intake.event(LIMITED, lambda broker: None)
    intake.close(LIMITED)
    assert took(intake, 0) == [(1, 1), (1, None)]
    assert (intake.bytes, intake._pending) == (0, {})


def test_lost_connection_without_events_is_forgotten(intake: Intake) -> None:
    for number in (1, 2):
        intake.message(number, put(1, count=3), 10)
    assert took(intake, 0) == [(1, 1)]
    intake.close(2)
    assert (intake.bytes, list(intake._pending)) == (0, [1])


def test_less_is_read_ahead_from_a_delayed_connection(intake: Intake) -> None:
    pending = intake.of(LIMITED)
    intake.message(LIMITED, put(1, count=4), 10)
    intake.message(LIMITED, put(2), DELAYED_MAX_BYTES + 1)
    assert not intake.is_ahead(pending)
    took(intake, 0)
    assert intake.is_ahead(pending)
    took(intake, 1_001)
    intake.message(LIMITED, put(3), AHEAD_MAX_BYTES)
    assert not intake.is_ahead(pending)


def test_held_connection_continues_with_its_delay(intake: Intake) -> None:
    intake.message(LIMITED, put(1, count=4), 10)
    intake.message(LIMITED, put(2), 10)
    took(intake, 0)
    intake.block(LIMITED)
    assert took(intake, 1_001) == []
    assert intake.is_held(LIMITED)
    intake.unblock(LIMITED)
    assert (1, 2) in took(intake, 1_001)


# -- in a queue manager


@pytest.fixture
def guarded(manager: Manager) -> Guarded:
    guarded = Guarded(manager)
    guarded.owner.ask(m.QueueCreate, "Q")
    return guarded


def putting(guarded: Guarded, name: str, **limits: int) -> tuple[Client, Producer]:
    """Returns a connection of a new user that may put on all queues, and its producer."""
    app = guarded.user(name, roles=("producer",))
    guarded.owner.ask(m.UserAlter, name, limits)
    return app, app.producer()


def send(producer: Producer, count: int) -> None:
    """Sends *count* puts of one message each, without a turn."""
    for seq_id in range(producer.next_id, producer.next_id + count):
        name = producer.client.peer.peer_name.encode()
        batch = [record(b"%s %d" % (name, seq_id))]
        producer.client.send(m.Put(producer.stream, seq_id, producer.seen, "Q", batch))
    producer.next_id += count


def test_delayed_puts_are_stored_once_and_in_order(guarded: Guarded) -> None:
    manager = guarded.manager
    _, fast = putting(guarded, "bob")
    _, slow = putting(guarded, "eve", puts_per_s_max=10)
    for _ in range(3):
        send(slow, 10)
        send(fast, 10)
    manager.turn()
    manager.rest()
    bodies = guarded.owner.bodies("Q")
    assert sum(body.startswith(b"bob") for body in bodies) == 30, "another user is not delayed"
    assert sum(body.startswith(b"eve") for body in bodies) < 30
    due_ms = manager.turns.next_timer_ms()
    assert due_ms is not None
    assert 0 < due_ms - manager.now().ms <= 1_001
    for _ in range(25):
        manager.turn(100)
        manager.rest()
    own = [body for body in guarded.owner.bodies("Q") if body.startswith(b"eve")]
    assert own == [b"eve %d" % number for number in range(1, 31)]


def test_delayed_connection_answers_heartbeats_and_stays_open(guarded: Guarded) -> None:
    manager = guarded.manager
    app, producer = putting(guarded, "eve", puts_per_s_max=1)
    send(producer, 9)
    manager.turn()
    assert app.peer.is_delayed
    facts = app.peer.facts(manager.mono_ms)
    assert (facts["delayed_by"], facts["token_ms"]) == ("rate", None)
    assert 0 < facts["delay_ms"] <= 1_001
    app.received.clear()
    app.send(m.Ping(7))
    assert m.Pong(7) in app.received
    # Nothing is read from a connection that is far ahead, so its silence has no meaning.
    silent_ms = 10 * manager.config.limits.liveness_ms
    assert app.peer.poll(manager.mono_ms + silent_ms)
    manager.turn(60_000)
    manager.rest()
    facts = app.peer.facts(manager.mono_ms)
    assert app.peer.is_delayed or (facts["delayed_by"], facts["delay_ms"]) == ("", 0)
    assert app.goaway is None


def test_puts_of_a_lost_connection_are_stored_when_they_are_sent_again(guarded: Guarded) -> None:
    manager = guarded.manager
    app, producer = putting(guarded, "eve", puts_per_s_max=2)
    send(producer, 6)
    manager.turn()
    manager.rest()
    app.hang_up()
    manager.turn(60_000)
    manager.rest()
    stored = len(guarded.owner.bodies("Q"))
    assert stored == 2, "delayed puts of a lost connection are as if they had not arrived"
    again = manager.connect("eve", user="eve")
    resumed = again.producer(f"{app.peer.number:016}".encode(), resume=True)
    assert resumed.commit_id == stored
    resumed.next_id = 1
    send(resumed, 6)
    for _ in range(8):
        manager.turn(500)
        manager.rest()
    assert guarded.owner.bodies("Q") == [b"eve %d" % number for number in range(1, 7)]


@pytest.mark.parametrize("changes", [{"puts_per_s_max": 0}, {"puts_per_s_max": None}])
def test_altered_limit_is_in_force_on_open_connections(
    guarded: Guarded, changes: dict[str, int | None]
) -> None:
    manager = guarded.manager
    _, producer = putting(guarded, "eve", puts_per_s_max=1)
    send(producer, 9)
    manager.turn()
    guarded.owner.ask(m.UserAlter, "eve", changes)
    manager.turn(WAIT_MIN_MS)
    manager.rest()
    assert len(guarded.owner.bodies("Q")) == 9
    guarded.owner.ask(m.UserAlter, "eve", {"puts_per_s_max": 1})
    send(producer, 9)
    manager.turn()
    manager.rest()
    assert len(guarded.owner.bodies("Q")) == 10


def test_bytes_are_limited_too(guarded: Guarded) -> None:
    manager = guarded.manager
    _, producer = putting(guarded, "eve", put_bytes_per_s_max=100)
    send(producer, 20)
    manager.turn()
    manager.rest()
    first = len(guarded.owner.bodies("Q"))
    assert 1 <= first <= 4
    manager.turn(2_000)
    manager.rest()
    assert first < len(guarded.owner.bodies("Q")) <= 2 * first + 1


def test_refused_put_costs_tokens_too(guarded: Guarded) -> None:
    """Otherwise, a user without the right could use up turns at any speed."""
    manager = guarded.manager
    app = guarded.user("eve")
    guarded.owner.ask(m.UserAlter, "eve", {"puts_per_s_max": 1})
    producer = app.producer()
    send(producer, 2)
    assert [x.code for x in producer.answer()] == [ErrorCode.QUEUE_UNKNOWN]
    assert app.peer.is_delayed
    manager.turn(1_001)
    assert not app.peer.is_delayed


def test_put_costs_its_records_and_its_bytes() -> None:
    in_unit = m.UnitPut(1, 1, "Q", [b"a"])
    assert cost(Arrival(m.Put(1, 1, 0, "Q", [b"a", b"b"]), None, 70)) == (2, 70)
    assert cost(Arrival(in_unit, None, 50)) == (1, 50)
    assert cost(Arrival(UnitPutPart(in_unit, 256, is_last=False), None, 9)) == (1, 9)
    assert cost(Arrival(m.Put(1, 1, 0, "", []), None, 9)) == (1, 9)
