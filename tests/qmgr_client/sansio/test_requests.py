"""Tests that each request has one answer, and is repeated after a reconnect."""

import pytest

from qmgr_client.sansio.requests import check
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from tests.qmgr_client.scripted import Scripted, delivery


def test_value_is_the_answer() -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(0, m.QueueShow, "Q")
    request = pair.hear(m.QueueShow)
    pair.say(m.Ok(request.request_id, {"depth": 3}))
    assert pair.done[ticket] == {"depth": 3}


def test_refusal_carries_code_text_and_wait() -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(0, m.QueueDelete, "Q", False)
    request = pair.hear(m.QueueDelete)
    pair.say(m.Error(request.request_id, ErrorCode.QUEUE_NOT_EMPTY, 1, 250, "holds 2 messages"))
    error = pair.done[ticket]
    assert (error.code, error.text, error.retry_after_ms) == (302, "holds 2 messages", 250)
    assert error.error_class is ErrorClass.RETRY_LATER


def test_answers_find_their_requests_in_any_order() -> None:
    pair = Scripted().connect()
    tickets = [pair.core.request(0, m.QueueShow, name) for name in "ABC"]
    for request in reversed(pair.hear_all(m.QueueShow)):
        pair.say(m.Ok(request.request_id, request.queue))
    assert [pair.done[ticket] for ticket in tickets] == ["A", "B", "C"]


def test_request_is_asked_again_under_a_new_id() -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(0, m.QueueShow, "Q")
    first = pair.hear(m.QueueShow).request_id
    second = pair.cut().connect().hear(m.QueueShow).request_id
    assert second != first
    pair.say(m.Ok(second, {}))
    assert pair.done[ticket] == {}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (m.QueueDelete, ErrorCode.QUEUE_UNKNOWN),
        (m.LinkDelete, ErrorCode.LINK_UNKNOWN),
        (m.TemplateDelete, ErrorCode.TEMPLATE_UNKNOWN),
        (m.Unsubscribe, ErrorCode.SUBSCRIPTION_UNKNOWN),
        (m.TopicDelete, ErrorCode.TOPIC_UNKNOWN),
    ],
)
def test_deletion_whose_answer_was_lost_is_done(kind: type[m.QueueDelete], code: int) -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(0, kind, "Q")
    request = pair.hear(kind)
    request = pair.cut().connect().hear(kind)
    pair.say(m.Error(request.request_id, code, 2, 0, "unknown"))
    assert not any(pair.done[ticket].values())


def test_deletion_that_was_never_sent_before_is_refused() -> None:
    pair = Scripted()
    ticket = pair.core.request(0, m.QueueDelete, "Q", False)
    request = pair.connect().hear(m.QueueDelete)
    pair.say(m.Error(request.request_id, ErrorCode.QUEUE_UNKNOWN, 2, 0, "unknown"))
    assert pair.done[ticket].code == ErrorCode.QUEUE_UNKNOWN


def test_get_is_answered_by_messages() -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(pair.now_ms, m.Get, "Q", 2, 500, 1_000)
    get = pair.hear(m.Get)
    assert (get.messages_max, get.wait_ms, get.lease_ms) == (2, 500, 1_000)
    pair.say(m.Deliver(get.request_id, 3, [delivery(b"a"), delivery(b"b", 2, 2)]))
    assert [(found.body, found.queue, found.queue_id) for found in pair.done[ticket]] == [
        (b"a", "Q", 3),
        (b"b", "Q", 3),
    ]


def test_get_that_brought_nothing_is_an_empty_list() -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(0, m.Get, "Q")
    pair.say(m.Ok(pair.hear(m.Get).request_id))
    assert pair.done[ticket] == []


def test_get_waits_for_what_is_left_of_its_time() -> None:
    pair = Scripted().connect()
    pair.core.request(pair.now_ms, m.Get, "Q", 1, 5_000)
    assert pair.hear(m.Get).wait_ms == 5_000
    pair.now_ms += 3_000
    assert pair.cut().connect().hear(m.Get).wait_ms == 2_000
    pair.now_ms += 3_000
    assert pair.cut().connect().hear(m.Get).wait_ms == 0


def test_get_whose_queue_is_deleted_fails() -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(0, m.Get, "Q")
    pair.say(m.Ended(pair.hear(m.Get).request_id, ErrorCode.QUEUE_DELETED, "queue Q was deleted"))
    assert pair.done[ticket].code == ErrorCode.QUEUE_DELETED


def test_abandoned_get_gives_back_what_still_comes() -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(0, m.Get, "Q", 1, 5_000)
    get = pair.hear(m.Get)
    pair.core.abandon(ticket)
    assert pair.hear(m.Cancel).request_id == get.request_id
    pair.say(m.Deliver(get.request_id, 3, [delivery(arrival=8, lease=9)]))
    settle = pair.hear(m.Settle)
    assert (settle.action, settle.handles) == (m.UNREAD, m.HANDLE.pack(4, 8, 9))
    pair.say(m.Settled(settle.settle_id))
    assert ticket not in pair.done


def test_abandoned_request_is_not_asked_again() -> None:
    pair = Scripted().connect()
    waiting = pair.core.request(0, m.Get, "Q", 1, 5_000)
    pair.core.abandon(waiting)
    sent = pair.core.request(0, m.Get, "Q", 1, 5_000)
    refused = pair.core.request(0, m.QueueShow, "Q")
    pair.hear(m.Get)
    pair.core.abandon(sent)
    pair.core.abandon(refused)
    pair.say(m.Error(pair.hear(m.QueueShow).request_id, 300, 2))
    pair.cut().connect()
    assert pair.pump() == []
    assert pair.done == {}


def test_window_is_kept_and_leaves_room_for_settles() -> None:
    pair = Scripted(request_window=8).connect()
    for _ in range(10):
        pair.core.request(0, m.Get, "Q", 1, 5_000)
    gets = pair.hear_all(m.Get)
    assert len(gets) == 6
    pair.core.request(0, m.Status)
    assert len(pair.hear_all(m.Status)) == 1, "waiting gets do not delay other requests"
    pair.say(*(m.Ok(get.request_id) for get in gets[:2]))
    assert len(pair.hear_all(m.Get)) == 1


def test_end_names_what_was_sent_and_what_was_not() -> None:
    pair = Scripted(request_window=8).connect()
    tickets = [pair.core.request(0, m.Status) for _ in range(8)]
    assert len(pair.hear_all(m.Status)) == 7
    pair.say(m.Goaway(ErrorCode.NOT_AUTHORIZED, "no"))
    classes = [pair.done[ticket].error_class for ticket in tickets]
    assert classes == [ErrorClass.UNKNOWN_OUTCOME] * 7 + [ErrorClass.NEVER]


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        (m.Get, ("Q", 0), "messages_max"),
        (m.Get, ("Q", 1, -1), "wait_ms"),
        (m.QueueShow, ("Q" * 2_000,), "queue"),
        (m.QueueShow, (), "missing"),
        (m.QueueCreate, ("Q", {"depth_max": object()}), "object"),
        (m.Snapshot, ("\ud800",), "surrogate"),
        (m.QueueCreate, ("Q", {"x": "." * 1_000}), "the limit is 1000"),
    ],
)
def test_field_that_would_close_the_connection_is_refused_here(
    kind: type[m.Get], fields: tuple[object, ...], why: str
) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        check(kind, fields, 1_000)
    assert caught.value.code == ErrorCode.VALUE_INVALID
