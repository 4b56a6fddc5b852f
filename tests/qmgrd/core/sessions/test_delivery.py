"""Tests of consumers and gets: credit, waiting, fairness, and the state after their end."""

import time

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.returns.returns import CONNECTION_LOST, RETURNS_PER_TURN
from qmgrd.core.sessions.delivery import CREDIT_MAX_BYTES
from qmgrd.core.sessions.request_part import SETTLE_HANDLES
from tests.qmgrd.core.harness import AnyStore, Client, Delivery, Manager, items, record

FOREVER_MS = m.WAIT_MAX_MS


# -- credit


def test_consumer_is_sent_no_more_messages_than_its_credit(app: Client) -> None:
    app.put("Q", *[b"%d" % i for i in range(10)])
    consumer = app.consume("Q", messages=3)
    app.manager.rest()
    assert [x.body for x in app.delivered()] == [b"0", b"1", b"2"]
    app.say(m.Credit(consumer, 2, 0))
    app.manager.rest()
    assert len(app.received) == 0
    app.put("Q", b"more")
    assert app.delivered() == []


def test_credit_adds_up(app: Client) -> None:
    app.put("Q", *[b"%d" % i for i in range(10)])
    consumer = app.consume("Q", messages=0)
    app.send(m.Credit(consumer, 2, 0), m.Credit(consumer, 2, 0))
    app.manager.rest()
    assert len(app.delivered()) == 4


def test_consumer_without_credit_gets_nothing_and_costs_no_turns(app: Client) -> None:
    app.put("Q", b"1")
    consumer = app.consume("Q", messages=0)
    assert app.manager.rest() == 0
    assert app.delivered() == []
    (deliver,) = app.say(m.Credit(consumer, 1, 0))
    assert len(deliver.items) == 1


def test_credit_in_bytes_stops_behind_the_message_that_uses_it_up(app: Client) -> None:
    app.put("Q", bytes(400), bytes(400), bytes(400))
    consumer = app.consume("Q", bytes_=500)
    app.manager.rest()
    assert len(app.delivered()) == 2
    app.send(m.Credit(consumer, 0, 1_000))
    app.manager.rest()
    assert len(app.delivered()) == 1


def test_credit_in_bytes_is_capped(app: Client) -> None:
    app.ask(m.Consume, "Q", 1, 2**62)
    (consumer,) = app.manager.queue("Q").waiting.rotation
    assert consumer.credit_bytes == CREDIT_MAX_BYTES
    app.say(
        m.Credit(consumer.request_id, 2**31, 2**62), m.Credit(consumer.request_id, 2**32 - 1, 1)
    )
    assert consumer.credit_bytes == CREDIT_MAX_BYTES
    assert consumer.credit_messages == 2**32


def test_credit_for_a_consumer_that_ended_is_no_fault(app: Client) -> None:
    assert app.say(m.Credit(77, 1, 1)) == []
    assert app.goaway is None


# -- gets


def test_get_leases_available_messages_and_ends(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    (deliver,) = app.say(m.Get(50, "Q", 2))
    assert len(deliver.items) == 2
    app.put("Q", b"4")
    assert app.delivered() == []


def test_get_of_an_empty_queue_is_answered_at_once(app: Client) -> None:
    assert app.say(m.Get(50, "Q")) == [m.Ok(50, None)]


def test_get_has_what_the_same_turn_put(app: Client) -> None:
    producer = app.producer()
    heard = app.say(m.Get(50, "Q"), m.Put(producer.stream, 1, 0, "Q", [record(b"x")]))
    assert [type(x) for x in heard] == [m.Deliver, m.Committed]


def test_get_waits_for_the_first_message(app: Client) -> None:
    assert app.say(m.Get(50, "Q", 1, 1_000)) == []
    app.manager.turn(999)
    assert app.hear() == []
    app.put("Q", b"1")
    assert [x.body for x in app.delivered()] == [b"1"]
    app.manager.turn(10_000)
    assert app.hear() == []


def test_get_ends_empty_when_its_wait_is_over(app: Client) -> None:
    app.say(m.Get(50, "Q", 1, 1_000))
    app.manager.turn(1_000)
    assert app.hear() == [m.Ok(50, None)]
    app.put("Q", b"for nobody")
    assert app.delivered() == []


def test_waiting_gets_are_served_in_order(app: Client) -> None:
    for request_id in (50, 51, 52):
        app.say(m.Get(request_id, "Q", 1, 1_000))
    app.put("Q", b"1", b"2")
    assert {x.request_id: items(x)[0].body for x in app.hear()} == {50: b"1", 51: b"2"}


def test_waiting_get_is_cancelled(app: Client) -> None:
    app.say(m.Get(50, "Q", 1, FOREVER_MS))
    (ended,) = app.say(m.Cancel(50))
    assert (ended.request_id, ended.code) == (50, ErrorCode.CANCELLED)
    app.put("Q", b"1")
    assert app.delivered() == []
    assert app.say(m.Cancel(50)) == []


def test_cancelled_get_leaves_no_timer(app: Client) -> None:
    """Otherwise, the timers of abandoned gets would stay in memory for up to a week."""
    timers = app.manager.turns.broker.context.timers
    for request_id in range(50, 1_050):
        app.say(m.Get(request_id, "Q", 1, FOREVER_MS), m.Cancel(request_id))
    assert len(timers._heap) < 200


def test_number_of_a_waiting_get_is_taken(app: Client) -> None:
    app.say(m.Get(50, "Q", 1, 1_000))
    for request in (m.Get(50, "Q"), m.Consume(50, "Q", 1, 1)):
        (error,) = app.say(request)
        assert (error.request_id, error.code) == (50, ErrorCode.CONSUMER_EXISTS)


# -- consumers


def test_consumer_gets_what_comes_later(app: Client) -> None:
    app.consume("Q")
    app.put("Q", b"1")
    app.put("Q", b"2")
    assert [x.body for x in app.delivered()] == [b"1", b"2"]


def test_cancelled_consumer_may_still_settle(app: Client) -> None:
    app.put("Q", b"1", b"2")
    consumer = app.consume("Q", messages=2)
    app.manager.rest()
    first, second = app.delivered()
    (ended,) = app.say(m.Cancel(consumer))
    assert ended.code == ErrorCode.CANCELLED
    assert app.ack(first) == []
    app.put("Q", b"3")
    assert app.delivered() == []
    assert app.release(second) == []


def test_consumers_of_a_connection_are_limited() -> None:
    app = Manager(limits={"consumers_per_connection_max": 2}).connect()
    app.ask(m.QueueCreate, "Q")
    app.consume("Q")
    app.consume("Q")
    assert app.code_of(m.Consume, "Q", 1, 1) is ErrorCode.CONSUMERS_EXHAUSTED
    assert app.goaway is None


def test_gets_that_wait_are_among_the_consumers_of_a_connection() -> None:
    app = Manager(limits={"consumers_per_connection_max": 2}).connect()
    app.ask(m.QueueCreate, "Q")
    for _ in range(2):
        app.say(m.Get(app.next_id(), "Q", 1, 1_000))
    assert app.code_of(m.Consume, "Q", 1, 1) is ErrorCode.CONSUMERS_EXHAUSTED
    app.say(m.Get(app.next_id(), "Q", 1, 1_000))
    assert app.received == []  # A get may wait while the window of requests has space for it.


@pytest.mark.parametrize(
    ("queue", "code"),
    [
        ("NONE", ErrorCode.QUEUE_UNKNOWN),
        ("a/b", ErrorCode.NAME_INVALID),
        ("F@NYC", ErrorCode.QUEUE_IS_REMOTE),
        ("@NYC", ErrorCode.QUEUE_IS_TRANSMISSION),
    ],
)
def test_consumer_of_an_invalid_queue_is_refused(app: Client, queue: str, code: ErrorCode) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    app.ask(m.QueueCreate, "F@NYC")
    assert app.code_of(m.Consume, queue, 1, 1) is code
    assert app.code_of(m.Get, queue) is code


def inhibit(app: Client, *, on: bool) -> None:
    app.ask(m.QueueAlter, "Q", {"get_inhibit": on})


def test_get_on_an_inhibited_queue_is_refused_until_that_is_lifted(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    first, second = app.get("Q", 2)
    inhibit(app, on=True)
    with pytest.raises(RequestError, match="gets are inhibited on queue Q; set") as caught:
        app.get("Q")
    assert caught.value.code == ErrorCode.GET_INHIBITED
    assert caught.value.retry_after_ms == 1_000
    assert app.bodies("Q") == [b"1", b"2", b"3"]
    assert app.ack(first) == app.release(second) == []
    app.put("Q", b"4")
    inhibit(app, on=False)
    assert [x.body for x in app.get("Q", 9)] == [b"2", b"3", b"4"]


def test_get_that_waits_is_refused_when_gets_are_inhibited(manager: Manager, app: Client) -> None:
    other = manager.connect("other")
    other.say(m.Get(7, "Q", 1, 10_000))
    inhibit(app, on=True)
    (error,) = other.hear()
    assert (error.request_id, error.code) == (7, ErrorCode.GET_INHIBITED)
    manager.turn(10_000)
    assert other.hear() == []
    assert app.show("Q")["consumers"] == 0


def test_consumer_goes_on_by_itself_once_gets_are_allowed(manager: Manager, app: Client) -> None:
    other = manager.connect("other")
    other.consume("Q")
    app.put("Q", b"1")
    manager.rest()
    (held,) = other.delivered()
    inhibit(app, on=True)
    app.put("Q", b"2")
    late = manager.connect("late")
    late.consume("Q", messages=0)
    assert other.release(held) == []
    manager.rest()
    assert other.delivered() == late.delivered() == []
    inhibit(app, on=False)
    manager.rest()
    assert [x.body for x in other.delivered()] == [b"1", b"2"]


def test_lease_that_ends_on_an_inhibited_queue_stays_there(manager: Manager, app: Client) -> None:
    app.put("Q", b"1")
    app.get("Q", lease_ms=100)
    other = manager.connect("other")
    other.consume("Q")
    inhibit(app, on=True)
    manager.turn(100)
    manager.rest()
    assert (other.delivered(), app.show("Q")["ready"]) == ([], 1)
    inhibit(app, on=False)
    manager.rest()
    assert [x.failed for x in other.delivered()] == [1]


# -- state after the end


def test_deleted_queue_ends_its_consumers_and_gets(manager: Manager, app: Client) -> None:
    other = manager.connect("other")
    consumer = other.consume("Q")
    other.say(m.Get(50, "Q", 1, FOREVER_MS))
    app.ask(m.QueueDelete, "Q")
    ended = {x.request_id: x.code for x in other.hear()}
    assert ended == {consumer: ErrorCode.QUEUE_DELETED, 50: ErrorCode.QUEUE_DELETED}
    manager.turn(FOREVER_MS)
    assert other.hear() == []


def test_lost_connection_gives_back_in_slices(manager: Manager, app: Client) -> None:
    app.put("Q", *[b"x"] * 1_200)
    other = manager.connect("other")
    other.consume("Q", messages=1_200)
    manager.rest()
    other.hang_up()
    returned = []
    while manager.turns.has_work:
        before = manager.queue("Q").counters.returned
        manager.turn()
        returned.append(manager.queue("Q").counters.returned - before)
    assert returned == [RETURNS_PER_TURN, RETURNS_PER_TURN, 200]
    assert app.show("Q")["ready"] == 1_200


def test_ack_over_a_new_connection_while_the_old_one_is_cleared_away(
    manager: Manager, app: Client
) -> None:
    app.put("Q", *[b"x"] * 600)
    other = manager.connect("other")
    held = [x for _ in range(3) for x in other.get("Q", 256)]
    other.hang_up()
    again = manager.connect("other", session=other.session)
    assert again.ack(*held) == []
    manager.rest()
    assert app.show("Q")["depth"] == 0


def test_settle_answers_are_cumulative_per_turn(app: Client) -> None:
    app.put("Q", b"1", b"2")
    first, second = app.get("Q", 2)
    settles = [m.Settle(i, m.ACK, x.queue_id, x.handle) for i, x in ((7, first), (8, second))]
    assert app.say(*settles) == [m.Settled(8, [])]


# -- long settles


def lease_all(app: Client, count: int) -> list[Delivery]:
    leased: list[Delivery] = []
    while len(leased) < count:
        leased += app.get("Q", count)
    return leased


def test_long_settle_is_answered_once_with_its_exceptions(store: AnyStore, app: Client) -> None:
    """The settle is applied in pieces. The exceptions refer to handles of the whole settle."""
    count = 3 * SETTLE_HANDLES + 5
    app.put("Q", *[b"x"] * count)
    leased = lease_all(app, count)
    stale = leased[2 * SETTLE_HANDLES + 1]
    app.release(stale)
    (held,) = app.manager.connect("other").get("Q")
    assert held.arrival == stale.arrival
    handles = b"".join(delivery.handle for delivery in leased)
    app.send(m.Settle(70, m.ACK, leased[0].queue_id, handles), m.Settle(71, m.ACK, 99, b""))
    app.manager.rest()
    answers = [x for x in app.hear() if type(x) is m.Settled]
    assert answers[-1].settle_id == 71
    exceptions = [exception for answer in answers for exception in answer.exceptions]
    assert exceptions == [[70, 2 * SETTLE_HANDLES + 1, ErrorCode.LEASE_LOST]]
    assert app.show("Q")["depth"] == 1


def test_long_settle_is_spread_over_turns_and_answered_at_its_end() -> None:
    app = Manager(limits={"turn_rows": 2 * SETTLE_HANDLES}).connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", *[b"x"] * 10 * SETTLE_HANDLES)
    leased = lease_all(app, 10 * SETTLE_HANDLES)
    handles = b"".join(delivery.handle for delivery in leased)
    app.send(m.Settle(70, m.ACK, leased[0].queue_id, handles))
    depths: list[int] = []
    while not depths or depths[-1]:
        assert [x for x in app.hear() if type(x) is m.Settled] == []
        app.manager.turn()
        depths.append(app.manager.queue("Q").counters.depth)
    assert len(depths) >= 5
    assert app.hear() == [m.Settled(70)]


def test_acks_of_long_messages_count_the_rows_of_their_bodies() -> None:
    """Each handle counts as two rows plus its body rows towards the limit of a turn."""
    app = Manager().connect()
    app.ask(m.QueueCreate, "Q")
    for _ in range(30):
        app.put("Q", bytes(1_000_000))
    leased = lease_all(app, 30)
    for delivery in leased:
        app.send(m.Settle(delivery.arrival, m.ACK, delivery.queue_id, delivery.handle))
    app.manager.turn()
    # 20 times 253 rows exceed the limit of 5,000.
    assert app.manager.queue("Q").counters.depth == 10
    app.manager.turn()
    assert app.manager.queue("Q").counters.depth == 0


def test_returning_leases_that_ended_meanwhile_cost_no_turns() -> None:
    """In a small turn, one message returns at a time. Ended leases are skipped immediately."""
    manager = Manager(limits={"turn_rows": 1})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", *[b"x"] * 50)
    leased = lease_all(app, 50)
    leases = manager.queue("Q").leases.values()
    manager.turns.broker.settlements._returns.give_back_later(leases, CONNECTION_LOST)
    handles = b"".join(delivery.handle for delivery in leased)
    app.send(m.Settle(9, m.ACK, leased[0].queue_id, handles))
    assert manager.rest() < 10


def test_leaving_costs_the_same_for_any_number_of_waiting_gets(app: Client) -> None:
    """When a pool of workers dies, thousands of gets end in one turn."""
    clients = [app.manager.connect(f"worker{number}") for number in range(20)]
    for client in clients:
        client.send(*[m.Get(client.next_id(), "Q", 1, FOREVER_MS) for _ in range(1_000)])
        app.manager.rest()
    assert len(app.manager.queue("Q").waiting.rotation) == 20_000
    start_s = time.process_time()
    for client in reversed(clients):
        client.hang_up()
    app.manager.rest()
    assert not app.manager.queue("Q").waiting.rotation
    assert time.process_time() - start_s < 3  # 0.1 s now; an earlier version took 8 s


# -- exclusive queues


def exclusive(app: Client) -> Client:
    app.ask(m.QueueAlter, "Q", {"exclusive": True})
    return app.manager.connect("other")


@pytest.mark.parametrize("how", ["consume", "wait"])
def test_exclusive_queue_is_one_connections_at_a_time(app: Client, how: str) -> None:
    """One connection may open more consumers. Other connections get an error with its number."""
    other = exclusive(app)
    if how == "consume":
        app.consume("Q")
    else:
        app.say(m.Get(app.next_id(), "Q", 1, FOREVER_MS))
    app.consume("Q")
    for kind, fields in ((m.Get, ("Q",)), (m.Consume, ("Q", 1, 1))):
        with pytest.raises(RequestError, match=r"exclusive.*\(app\) consumes from it") as error:
            other.ask(kind, *fields)
        assert error.value.code == ErrorCode.QUEUE_EXCLUSIVE
        assert error.value.retry_after_ms
    assert other.browse("Q") == []
    other.put("Q", b"1")
    app.manager.rest()
    assert len(app.delivered()) == 1


@pytest.mark.parametrize("how", ["cancel", "hang up"])
def test_exclusive_queue_is_free_again_once_its_consumer_is_gone(app: Client, how: str) -> None:
    other = exclusive(app)
    consumer = app.consume("Q", messages=0)
    if how == "cancel":
        app.say(m.Cancel(consumer))
    else:
        app.hang_up()
    app.manager.turn()
    other.consume("Q")
    other.put("Q", b"1")
    other.manager.rest()
    assert len(other.delivered()) == 1


def test_queue_that_becomes_exclusive_keeps_its_consumers(app: Client) -> None:
    other = app.manager.connect("other")
    app.consume("Q")
    other.consume("Q")
    app.ask(m.QueueAlter, "Q", {"exclusive": True})
    assert app.code_of(m.Consume, "Q", 1, 1) == ErrorCode.QUEUE_EXCLUSIVE
    app.ask(m.QueueAlter, "Q", {"exclusive": None})
    app.consume("Q")


def test_selecting_consumer_may_hold_an_exclusive_queue(app: Client) -> None:
    other = exclusive(app)
    app.say(m.Get(app.next_id(), "Q", 1, FOREVER_MS, 0, 1 << 20, correlation_id=b"c"))
    assert other.code_of(m.Get, "Q") == ErrorCode.QUEUE_EXCLUSIVE
