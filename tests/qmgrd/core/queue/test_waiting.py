"""Tests of a queue's waiting consumers: their positions, and the next one that the pump serves."""

import pytest

from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.waiting import Waiting
from qmgrd.core.selector.selector import compile_selector
from tests.qmgrd.core.harness import Client, lessee


def consumer(app: Client, number: int, **how: object) -> Consumer:
    return Consumer(1, number, lessee(app.manager.queue("Q")), 1, 1, **how)  # type: ignore[arg-type]


def test_consumers_join_and_leave_without_a_trace(app: Client) -> None:
    waiting = Waiting()
    assert not waiting
    plain = consumer(app, 1)
    choosy = consumer(app, 2, selector=compile_selector("a = 1"), is_get=True)
    seeks = [consumer(app, number, prefix=b"x") for number in (3, 4)]
    for each in (plain, choosy, *seeks):
        waiting.join(each)
    assert list(waiting.rotation) == [plain, choosy]
    assert list(waiting.selecting) == [choosy]
    assert list(waiting.seeking[b"x"]) == seeks
    assert list(waiting) == [plain, choosy, *seeks]
    assert waiting.consumer_count == 3
    waiting.reached[b"x"] = b"xy"
    waiting.leave(seeks[0])
    assert waiting.reached == {b"x": b"xy"}
    for each in (plain, choosy, seeks[1]):
        assert waiting
        waiting.leave(each)
    assert not waiting
    assert (waiting.consumer_count, waiting.selecting, waiting.reached) == (0, {}, {})
    assert waiting.selecting_in == {}


def test_consumer_without_credit_rests_until_it_has_some(app: Client) -> None:
    waiting, one = Waiting(), consumer(app, 1)
    waiting.join(one)
    one.credit_messages = 0
    waiting.pause(one)
    waiting.resume(one)
    assert (list(waiting.rotation), list(waiting.resting)) == ([], [one])
    assert list(waiting) == [one]
    one.credit_messages = 1
    waiting.resume(one)
    assert (list(waiting.rotation), list(waiting.resting)) == ([one], [])


def test_searches_continue_from_the_lowest_key(app: Client) -> None:
    waiting, one = Waiting(), consumer(app, 1, prefix=b"x")
    waiting.join(one)
    waiting.sought.clear()
    waiting.resume(one)
    assert list(waiting.sought) == [b"x"]
    waiting.reached[b"x"] = b"x5"
    waiting.seek_from(b"x", b"x7")
    assert waiting.reached == {b"x": b"x5"}
    waiting.seek_from(b"x", b"x2")
    assert waiting.reached == {b"x": b"x2"}
    waiting.sought.clear()
    waiting.start_over()
    assert (waiting.reached, list(waiting.sought)) == ({}, [b"x"])


def test_searches_check_earlier_messages_again(app: Client) -> None:
    waiting, one = Waiting(), consumer(app, 1, selector=compile_selector("a = 1"))
    waiting.join(one)
    one.heads[4] = 9
    waiting.look_again(4, 3)
    waiting.look_again(4, 9)
    waiting.tell()
    assert list(one.again) == [(5, 3)]
    assert waiting.available == {}
    waiting.start_over()
    assert one.heads[4] == 0


def test_only_consumers_with_the_prefix_check_a_new_message_again(app: Client) -> None:
    waiting, others = Waiting(), [consumer(app, i) for i in (1, 2)]
    for one, prefix in zip(others, (b"x", b"y"), strict=True):
        one.prefix, one.all_available = prefix, True
        waiting.join(one)
    waiting.look_again(4, 3, b"x")
    waiting.look_again(4, 3, b"z")
    waiting.tell()
    assert [list(one.again) for one in others] == [[(5, 3)], []]
    waiting.leave(others[0])
    assert waiting.selecting_in == {b"y": {others[1]: None}}


def test_positions_move_back_if_too_many_would_check_too_many_messages(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New messages do not count, because no consumer has reached them."""
    monkeypatch.setattr("qmgrd.core.queue.waiting.TOLD_MAX", 5)
    waiting, selector = Waiting(), compile_selector("a = 1")
    ahead, behind, by_index = (consumer(app, i, selector=selector) for i in (1, 2, 3))
    by_index.prefix, by_index.all_available, by_index.reached = b"x", True, b"x5"
    for one, head in ((ahead, 9), (behind, 2), (by_index, 0)):
        waiting.join(one)
        one.heads[4] = head
    for place in ((4, 5), (4, 3), (6, 7)):
        waiting.look_again(*place)
    waiting.tell()
    assert [one.heads[4] for one in (ahead, behind)] == [3, 2]
    assert [list(one.again) for one in (ahead, behind, by_index)] == [[], [], []]
    assert by_index.reached == b""
    assert ahead.heads[6] == 0
