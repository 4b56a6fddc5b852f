"""Tests of the order in which messages arrive at the far end of the connection."""

from qmgr_protocol import messages as m
from tests.qmgr_client.scripted import Scripted


def test_request_ids_are_used_again_but_never_twice_at_a_time() -> None:
    pair = Scripted().connect()
    pair.core._send_order._last_id = 2**32 - 2
    pair.core.request(0, m.Status)
    pair.core.request(0, m.Status)
    first, second = pair.hear_all(m.Status)
    assert (first.request_id, second.request_id) == (2**32 - 1, 1)
    pair.core._send_order._last_id = 2**32 - 2
    pair.core.request(0, m.Status)
    assert pair.hear(m.Status).request_id == 2


def test_requests_for_messages_are_sent_last() -> None:
    pair = Scripted()
    pair.core.consume("Q", 8)
    pair.core.request(0, m.Get, "Q")
    pair.core.request(0, m.Status)
    pair.put()
    pair.connect()
    assert sent(pair) == [m.ProducerOpen, m.Status, m.Get, m.Consume]
    pair.say(m.Ok(1, [7, 0, [], []]))
    assert sent(pair) == [m.Put]
    pair.cut()
    pair.connect()
    assert sent(pair) == [m.ProducerOpen, m.Status]
    pair.say(m.Ok(pair.core._send_order._last_id - 1, [7, 0, [], []]))
    assert sent(pair) == [m.Put, m.Get, m.Consume]


def sent(pair: Scripted) -> list[type]:
    """Returns the kinds of messages that the core has sent since the last call."""
    kinds = [type(message) for message in pair.pump()]
    pair.heard.clear()
    return kinds
