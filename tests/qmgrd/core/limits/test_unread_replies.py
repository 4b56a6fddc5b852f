"""Tests of sent but unread data: each connection's limit, and the store reads that then wait."""

from itertools import count
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.limits import unread_replies
from qmgrd.core.limits.unread_replies import (
    DELIVER_MAX_BYTES,
    ENOUGH_BYTES,
    SHARE_BYTES,
    UnreadReplies,
    estimated_bytes,
)
from tests.qmgrd.core.harness import Client, Manager

LARGE = bytes(300_000)
BUFFERS = {"buffers_max_bytes": "32 MiB"}
LONGEST = 4 << 20


def filled(count: int = 40, body: bytes = LARGE) -> tuple[Manager, Client]:
    """Returns a manager that has large messages on Q, and their producer."""
    manager = Manager(limits=BUFFERS)
    client = manager.connect("producer")
    client.ask(m.QueueCreate, "Q")
    for _ in range(count):
        client.put("Q", body)
    client.hear()
    return manager, client


def sent(client: Client) -> list[Any]:
    """Returns the bytes sent in one turn."""
    client.manager.turn()
    return client.hear()


# -- the limit alone


def test_connection_with_enough_output_is_held_until_the_turn_ends() -> None:
    flow = UnreadReplies()
    flow.count_made(1, ENOUGH_BYTES)
    assert not flow.held
    flow.count_made(1, 1_024)
    flow.count_made(2, 1_024)
    assert flow.held == {1}
    assert flow.left(flow.end_turn()) == [1]
    assert not flow.held
    flow.count_made(1, ENOUGH_BYTES)
    assert not flow.held


def test_connection_continues_when_enough_has_left_although_later_turns_wait() -> None:
    flow = UnreadReplies(LONGEST)
    flow.set_room(100 * LONGEST)
    made = []
    for _ in range(3):
        flow.count_made(1, ENOUGH_BYTES // 2)
        made.append(flow.end_turn())
    assert flow.held == {1}
    assert flow.left(made[0]) == [1]
    flow.set_room(3 * LONGEST)
    assert flow.long_answers == 2  # The bytes that have not left yet need room, too.
    flow.left(made[1])
    flow.left(made[2])
    flow.set_room(3 * LONGEST)
    assert flow.long_answers == 3


def test_connection_that_is_blocked_stays_held() -> None:
    flow = UnreadReplies()
    flow.block(1)
    assert (flow.held, flow.left(flow.end_turn())) == ({1}, [])
    flow.unblock(1)
    assert not flow.held


def test_space_is_tight_if_the_longest_frame_does_not_fit() -> None:
    flow = UnreadReplies(LONGEST)
    flow.set_room(3 * LONGEST)
    assert (flow.is_room_short, flow.frame_bytes, flow.long_answers) == (
        False,
        DELIVER_MAX_BYTES,
        3,
    )
    flow.count_made(1, 2 * LONGEST + 1)
    assert (flow.is_room_short, flow.frame_bytes, flow.long_answers) == (True, SHARE_BYTES, 0)


@pytest.mark.parametrize("value", [None, 7, b"x" * 900, "é" * 90, [1, [b"x" * 80]] * 9, {"a": [1]}])
def test_weight_is_about_that_on_the_wire(value: object) -> None:
    from qmgr_protocol.codec import pack

    assert len(pack(value)) * 0.5 <= estimated_bytes(value) + 1 <= len(pack(value)) * 6 + 6


# -- requests


def test_turn_stops_reading_requests_of_a_connection_with_enough_output() -> None:
    manager, _ = filled()
    greedy, other = manager.connect("greedy"), manager.connect("other")
    for number in range(1, 31):
        greedy.send(m.Browse(number, "Q"))
        other.send(m.Status(number))
    answers = sent(greedy)
    # Each answer has three messages. One more message would exceed the limit.
    assert len(answers) == 2
    assert len(other.hear()) == 30
    manager.rest()
    assert len(greedy.hear()) == 28


def test_requests_are_served_while_each_outcome_waits_for_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record is always on its way, as under steady load on a slow disk."""
    manager, _ = filled()
    client, turns, store = manager.connect("app"), manager.turns, manager.store
    numbers = count(1)

    def commit_soon() -> int:
        store.commit()
        return next(numbers)

    monkeypatch.setattr(store, "commit_soon", commit_soon)
    monkeypatch.setattr(store, "durable", 0)
    client.send(*(m.Browse(number, "Q") for number in range(1, 31)))
    for durable in range(60):
        turns.run_ahead(manager.now())
        store.durable = durable
        for outcome in turns.take_durable():
            for number, message in outcome.sends:
                manager.clients[number].read(client.peer.encode(message))
        assert turns._outcomes
    assert len(client.hear()) == 30


def test_requests_of_a_connection_that_does_not_read_wait() -> None:
    manager, _ = filled()
    greedy = manager.connect("greedy")
    manager.turn()
    manager.turns.intake.block(greedy.peer.number)
    for number in range(1, 11):
        greedy.send(m.Browse(number, "Q"))
    assert manager.rest() < 5
    assert greedy.hear() == []
    manager.turns.intake.unblock(greedy.peer.number)
    manager.rest()
    assert len(greedy.hear()) == 10


def test_held_connection_can_be_closed() -> None:
    manager, client = filled(1)
    greedy = manager.connect("greedy")
    manager.turn()
    manager.turns.intake.block(greedy.peer.number)
    stream = greedy.peer.number
    greedy.send(m.Browse(1, "Q"), m.QueueCreate(2, "KEPT"))
    greedy.hang_up()
    manager.rest()
    assert manager.queue("KEPT")
    assert stream not in manager.turns.intake._pending
    assert not manager.turns.broker.context.unread_replies.held
    assert len(client.ask(m.ConnectionList)["connections"]) == 1


def test_replies_of_a_link_are_read_while_it_is_held() -> None:
    """Otherwise, the two ends of a link could wait for each other for ever."""
    manager, _ = filled(1)
    link = manager.connect("NYC", "queue-manager", b"N" * 16)
    manager.turn()
    manager.turns.intake.block(link.peer.number)
    link.send(m.LinkStop(1, "NONE"), m.Browse(2, "Q"), m.LinkStop(3, "NONE"))
    manager.rest()
    assert [answer.request_id for answer in link.hear()] == [1]


def test_long_replies_wait_for_space_and_short_ones_do_not() -> None:
    manager, _ = filled()
    client = manager.connect("app")
    waiting = manager.connect("waiting")
    manager.turns.intake.set_room(0)
    waiting.send(m.Browse(1, "Q"))
    client.send(m.Status(1))
    manager.rest()
    assert (len(client.hear()), waiting.hear()) == (1, [])
    manager.turns.intake.set_room(1 << 30)
    manager.rest()
    assert len(waiting.hear()) == 1


def test_only_as_many_long_replies_are_made_as_fit() -> None:
    manager, _ = filled(1, bytes(4_000_000))
    clients = [manager.connect(f"app {number}") for number in range(20)]
    manager.turn()
    room = manager.turns.broker.context.unread_replies._longest_bytes * 2 + 1_000
    for client in clients:
        client.send(m.Browse(1, "Q"))
    manager.turns.intake.set_room(room)
    manager.turn()
    assert sum(len(client.hear()) for client in clients) == 2
    manager.rest()
    assert not any(client.hear() for client in clients)
    manager.turns.intake.set_room(1 << 40)
    manager.rest()
    assert sum(len(client.hear()) for client in clients) == 18


def test_waiting_replies_follow_in_later_turns_as_space_allows() -> None:
    manager, _ = filled(1)
    clients = [manager.connect(f"app {number}") for number in range(5)]
    manager.turn()
    intake, flow = manager.turns.intake, manager.turns.broker.context.unread_replies
    intake.set_room(0)
    for client in clients:
        client.send(m.Browse(1, "Q"))
    manager.turn()
    intake.set_room(flow._longest_bytes * 3 // 2)
    manager.turn()
    assert flow.is_room_short or manager.turns.has_work
    manager.rest()
    intake.set_room(1 << 40)
    manager.rest()
    assert all(len(client.hear()) == 1 for client in clients)


# -- deliveries


def test_consumers_of_a_connection_that_does_not_read_receive_nothing() -> None:
    manager, _ = filled(10)
    idle, busy = manager.connect("idle"), manager.connect("busy")
    idle.consume("Q", 1)
    manager.rest()
    idle.hear()
    manager.turns.intake.block(idle.peer.number)
    consumer = idle.peer.number
    manager.turns.broker.sessions[consumer].consumers[1].credit_messages = 100
    busy.consume("Q")
    manager.rest()
    assert idle.hear() == []
    assert len(busy.delivered()) == 9


def test_consumer_continues_once_its_peer_has_read() -> None:
    manager, client = filled(0)
    idle = manager.connect("idle")
    idle.consume("Q")
    manager.turns.intake.block(idle.peer.number)
    client.put("Q", LARGE)
    manager.rest()
    assert idle.delivered() == []
    manager.turns.intake.unblock(idle.peer.number)
    manager.rest()
    assert len(idle.delivered()) == 1


def test_turn_sends_a_limited_amount_to_a_connection() -> None:
    manager, _ = filled(40)
    client = manager.connect("app")
    for request_id in range(1, 6):
        client.send(m.Consume(request_id, "Q", 10_000, 1 << 40))
    found, turns = 0, 0
    while manager.turns.has_work:
        manager.turn()
        size_bytes = sum(len(delivery.record) for delivery in client.delivered())
        assert size_bytes < 2 * ENOUGH_BYTES
        found, turns = found + size_bytes // len(LARGE), turns + 1
    assert (found, turns > 5) == (40, True)


@pytest.mark.parametrize("order", [m.PHYSICAL, m.LOGICAL, m.PINNED])
@pytest.mark.parametrize("where", ["", "correlation_id = 'k'"])
def test_large_message_stays_in_the_store_while_space_is_tight(order: int, where: str) -> None:
    manager, client = filled(0)
    client.put("Q", b"small", correlation_id=b"k")
    client.put("Q", LARGE, correlation_id=b"k")
    client.put("Q", b"behind it", correlation_id=b"k")
    app = manager.connect("app")
    manager.turns.intake.set_room(0)
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 100, 1 << 30, 0, where, order=order))
    assert manager.rest() < 10
    assert [len(x.record) < 1_000 for x in app.delivered()] == [True]
    assert len(manager.queue("Q").leases) == 1
    manager.turns.intake.set_room(1 << 40)
    client.ask(m.Status)
    manager.rest()
    assert len(app.delivered()) == 2


def test_get_waits_for_space_instead_of_finding_nothing() -> None:
    manager, client = filled(1)
    manager.turns.intake.set_room(0)
    app = manager.connect("app")
    client.ask(m.QueueCreate, "EMPTY")
    app.send(m.Get(1, "Q"), m.Get(2, "EMPTY"))
    manager.rest()
    assert app.hear() == [m.Ok(2, None)]
    manager.turns.intake.set_room(1 << 40)
    client.ask(m.Status)
    manager.rest()
    assert [type(x) for x in app.hear()] == [m.Deliver]


def test_message_that_does_not_fit_in_the_frame_is_not_read_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager, _ = filled(4, bytes(600_000))
    opened: list[bytes] = []
    from qmgrd.core.layout import entry as entries

    real = entries.open_sound

    def counted(tx: object, value: bytes, *rest: object) -> object:
        opened.append(value)
        return real(tx, value, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(entries, "open_sound", counted)
    app = manager.connect("app")
    app.consume("Q")
    manager.rest()
    assert len(app.delivered()) <= 4
    assert len(opened) == 4


def test_only_long_output_is_counted() -> None:
    flow = UnreadReplies()
    for _ in range(10_000):
        flow.count_made(1, unread_replies.COUNTED_BYTES - 1)
    assert not flow.held
