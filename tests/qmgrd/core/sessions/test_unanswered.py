"""Tests that a request counts towards the limit of unanswered requests until it is answered."""

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.sessions.unanswered import UnansweredRequests


def after(*messages: m.Message, answers: tuple[m.Message, ...] = ()) -> int:
    found = UnansweredRequests()
    for message in messages:
        found.asked(message)
    for answer in answers:
        found.answered(answer)
    return len(found)


@pytest.mark.parametrize(
    "message",
    [m.Put(1, 1, 0, "Q", []), m.Credit(1, 1, 1), m.Cancel(1), m.UnitCommit(1, 1, 0, 1, 0, 0)],
)
def test_message_without_an_answer_is_not_counted(message: m.Message) -> None:
    assert after(message) == 0


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (m.Status(7), m.Ok(7, {})),
        (m.Status(7), m.Error(7, 500, 0, 0, "")),
        (m.Get(7, "Q"), m.Deliver(7, 3, [])),
        (m.Get(7, "Q"), m.Ended(7, 1, "")),
        (m.Consume(7, "Q", 1, 1), m.Ok(7, [3, 1_000])),
        (m.Settle(7, m.ACK, 3, b""), m.Settled(7, [])),
    ],
)
def test_answer_ends_it(message: m.Message, answer: m.Message) -> None:
    assert after(message) == 1
    assert after(message, answers=(answer,)) == 0


def test_settles_are_answered_up_to_a_number() -> None:
    settles = [m.Settle(i, m.ACK, 3, b"") for i in (1, 2, 3)]
    assert after(*settles, answers=(m.Settled(2, []),)) == 1


def test_deliveries_of_an_open_consumer_end_nothing() -> None:
    consumer = m.Consume(7, "Q", 1, 1)
    done = (m.Ok(7, [3, 1_000]), m.Deliver(7, 3, []), m.Ended(7, 1, ""))
    assert after(consumer, m.Status(8), answers=done) == 1
