"""Tests that an ordered consumer drops the messages of a group after one of them returned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_client.sansio.group_returns import GroupReturns, member_of, returns_message
from qmgr_protocol import messages as m
from tests.qmgr_client.scripted import delivery

A, B = b"a" * 24, b"b" * 24


@given(st.binary(max_size=64), st.booleans(), st.integers(1, 999_999_999))
def test_member_is_read_without_decoding(correlation_id: bytes, last: bool, number: int) -> None:
    """E1: The group id and number follow the correlation id."""
    item = delivery(correlation_id=correlation_id, group=(A, number, last))
    assert member_of(item) == (A, number)
    assert member_of(delivery(correlation_id=correlation_id)) is None


@given(st.integers(0, 60))
def test_item_that_is_cut_has_no_member(size: int) -> None:
    assert member_of(delivery(group=(A, 1, False))[:size]) is None


@pytest.mark.parametrize(
    ("action", "does"),
    [
        (m.ACK, False),
        (m.RENEW, False),
        (m.RELEASE, True),
        (m.RETURN, True),
        (m.UNREAD, True),
        (m.REJECT, True),
    ],
)
def test_message_comes_back_or_is_done(action: int, does: bool) -> None:
    assert returns_message(action) is does


def test_later_messages_are_dropped_until_the_number_comes_again() -> None:
    backs = GroupReturns()
    backs.add(A, 3)
    assert backs.drops(A, 4)
    assert not backs.drops(B, 4)
    assert backs.drops(A, 5)
    assert not backs.drops(A, 3)
    assert not backs.drops(A, 4)


def test_later_messages_are_dropped_until_the_settle_has_its_answer() -> None:
    backs = GroupReturns()
    taken = backs.add(A, 3)
    assert backs.drops(A, 4)
    taken.is_answered = True
    assert not backs.drops(A, 5)


def test_lower_number_ends_all_that_are_behind_it() -> None:
    backs = GroupReturns()
    backs.add(A, 3)
    backs.add(A, 6)
    assert not backs.drops(A, 2)
    assert not backs.drops(A, 4)


def test_connection_takes_all_with_it() -> None:
    backs = GroupReturns()
    backs.add(A, 3)
    backs.clear()
    assert not backs.drops(A, 4)


def test_groups_of_which_nothing_comes_any_more_are_forgotten() -> None:
    backs = GroupReturns()
    for number in range(3_000):
        backs.add(number.to_bytes(24, "big"), 1).is_answered = True
    assert len(backs._by_group) <= 1_001
