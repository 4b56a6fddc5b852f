"""Tests of the credit and the buffer of one consumer. See also test_consumers.py."""

from qmgr_client.sansio.consumer import ConsumerState, HeldLease, place_of
from qmgr_client.sansio.read_ahead import FIRST_MESSAGES
from qmgr_protocol import messages as m
from tests.qmgr_client.scripted import delivery


def consumer(prefetch: int = 100) -> ConsumerState:
    return ConsumerState(1, "Q", prefetch, 1_000, 0, ("", b"", b""))


def test_free_is_what_neither_prefetch_nor_the_pace_forbids() -> None:
    found = consumer()
    assert found.free == (FIRST_MESSAGES, 1_000)
    found.buffer.extend((3, delivery(b"x", number)) for number in (1, 2))
    assert found.free[0] == FIRST_MESSAGES - 2
    found.held = {bytes([number]): HeldLease(10, 0) for number in range(97)}
    assert found.free[0] == 3
    found.is_idle = True
    assert found.free == (0, 0)


def test_redelivered_message_keeps_its_place_in_the_queue() -> None:
    found = consumer()
    for arrival, priority in ((5, 7), (3, 4), (9, 4)):
        found.keep(3, delivery(b"x", arrival, priority=priority))
    for arrival, priority in ((4, 4), (1, 9), (10, 4), (6, 7)):
        found.keep(3, delivery(b"x", arrival, priority=priority, state=m.STATE_REDELIVERED))
    places = [place_of(item) for _, item in found.buffer]
    assert places == sorted(places)
    assert len(places) == 7


def test_members_of_groups_stay_in_the_order_in_which_they_come() -> None:
    found = consumer()
    found.groups = (m.PINNED, False)
    for arrival in (5, 3):
        found.keep(3, delivery(b"x", arrival, state=m.STATE_REDELIVERED))
    assert [place_of(item)[1][-1] for _, item in found.buffer] == [5, 3]
