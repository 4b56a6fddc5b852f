"""Tests that only a limited number of credits and cancels, which have no answers, is in transit."""

from qmgr_client.message import Message
from qmgr_protocol import messages as m
from tests.qmgr_client.scripted import Scripted, delivery

CONSUMERS = 7


def consuming(pair: Scripted) -> list[tuple[int, int]]:
    """Opens consumers with a prefetch of 1. Returns their tickets and request ids."""
    found = []
    for _ in range(CONSUMERS):
        ticket = pair.core.consume("Q", 1)
        request_id = pair.hear(m.Consume).request_id
        pair.say(m.Ok(request_id, [3, 30_000]))
        found.append((ticket, request_id))
    return found


def messages_for_all(pair: Scripted, consumers: list[tuple[int, int]]) -> list[Message]:
    for index, (_, request_id) in enumerate(consumers):
        pair.say(m.Deliver(request_id, 3, [delivery(arrival=index, lease=index)]))
    found = [pair.core.next_message(ticket, pair.now_ms) for ticket, _ in consumers]
    return [message for message in found if message is not None]


def test_credits_beyond_the_window_wait_for_a_settle_to_be_answered() -> None:
    pair = Scripted(request_window=4).connect()
    for message in messages_for_all(pair, consuming(pair)):
        pair.core.settle(message, m.ACK)
    *_, settle, empty = pair.hear_all(m.Settle)
    assert len(pair.hear_all(m.Credit)) == 4
    assert (empty.settle_id, empty.handles) == (settle.settle_id + 1, b"")
    pair.say(m.Settled(settle.settle_id))
    assert pair.hear_all(m.Credit) == [], "the settle was sent before the credits"
    pair.say(m.Settled(empty.settle_id))
    assert len(pair.hear_all(m.Credit)) == CONSUMERS - 4
    assert pair.hear_all(m.Settle) == []


def test_cancels_beyond_the_window_wait_too() -> None:
    pair = Scripted(request_window=4).connect()
    for ticket, _ in consuming(pair):
        pair.core.cancel(ticket)
    assert len(pair.hear_all(m.Cancel)) == 4
    pair.say(m.Settled(pair.hear(m.Settle).settle_id))
    assert len(pair.hear_all(m.Cancel)) == CONSUMERS - 4


def test_lost_connection_takes_them_along() -> None:
    pair = Scripted(request_window=4).connect()
    for ticket, _ in consuming(pair):
        pair.core.cancel(ticket)
    pair.pump()
    pair.cut().connect()
    assert pair.pump() == []
    assert len(pair.done) == CONSUMERS
