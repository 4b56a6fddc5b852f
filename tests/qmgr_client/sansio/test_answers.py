"""Tests of the routing of answers. Requests of different kinds may have equal ids."""

from qmgr_client.message import NOWHERE
from qmgr_client.sansio.answers import row
from qmgr_protocol import messages as m
from tests.qmgr_client.scripted import STORE, Scripted, delivery


def test_answers_are_routed_by_their_numbers() -> None:
    pair = Scripted().connect()
    pair.core.consume("Q", 8)
    status = pair.core.request(0, m.Status)
    put = pair.put()
    opening, asked = pair.hear(m.ProducerOpen), pair.hear(m.Status)
    consume = pair.hear(m.Consume)
    pair.say(m.Ok(consume.request_id, [3, 30_000]), m.Ok(asked.request_id, {"name": "QM1"}))
    assert pair.done[status] == {"name": "QM1"}
    pair.say(m.Error(opening.request_id, 605, 1, 0, "no room"))
    assert pair.done[put].code == 605


def test_unwanted_message_is_returned_unread() -> None:
    pair = Scripted().connect()
    ticket = pair.core.consume("Q", 8)
    consume = pair.hear(m.Consume)
    pair.core.cancel(ticket)
    pair.say(m.Deliver(consume.request_id, 3, [delivery(arrival=8, lease=9)]))
    settle = pair.hear(m.Settle)
    assert (settle.action, settle.handles) == (m.UNREAD, m.HANDLE.pack(4, 8, 9))


def test_home_is_that_of_the_welcome() -> None:
    pair = Scripted()
    assert pair.core.answers.home is NOWHERE
    pair.connect(boot=7)
    assert pair.core.answers.home == (STORE, 7)


def test_type_checker_refuses_a_handler_of_another_message() -> None:
    """This test checks the ignored error: mypy reports each ignore comment that is not needed."""

    def handler(message: m.Ok, now_ms: int) -> None: ...

    assert row(m.Ok, handler) == (m.Ok, handler)
    assert row(m.Error, handler) == (m.Error, handler)  # type: ignore[arg-type]
