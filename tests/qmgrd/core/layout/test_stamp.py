"""Tests of the origin's clock (A2, A3)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, encode_uid
from qmgrd.core.layout.stamp import AHEAD_MAX_US, Stamper


def timestamp(trailer: bytes) -> int:
    return int.from_bytes(trailer[-8:], "big")


def test_timestamps_increase_in_a_tight_loop_A2() -> None:
    """A2: 10^5 timestamps of one origin within one tick of the clock are distinct and increase."""
    stamper = Stamper("QM1", 0)
    issued = [timestamp(stamper.next(1_000)) for _ in range(100_000)]
    assert issued == list(range(1_000, 101_000))


@given(st.lists(st.integers(0, 2**62), max_size=50))
def test_timestamps_increase_whatever_the_clock_does_A3(clock: list[int]) -> None:
    """A3: A clock that jumps back and forth never repeats a timestamp."""
    stamper = Stamper("QM1", 5)
    issued = [5, *(timestamp(stamper.next(wall_us)) for wall_us in clock)]
    assert all(a < b for a, b in pairwise(issued))


def test_timestamp_follows_the_clock_when_it_is_ahead() -> None:
    stamper = Stamper("QM1", 5)
    assert stamper.next(1_000) == encode_uid(Uid("QM1", 1_000))


def test_own_stamps_stay_ahead_of_foreign_uids_with_the_own_name() -> None:
    stamper = Stamper("QM1", 5)
    stamper.observe(encode_uid(Uid("QM1", 2_000)), wall_us=1_000)
    assert timestamp(stamper.next(1_000)) == 2_001


@pytest.mark.parametrize("uid", [Uid("QM1", 4), Uid("QM2", 2**62), Uid("QM10", 2**62)])
def test_older_or_other_uid_changes_nothing(uid: Uid) -> None:
    stamper = Stamper("QM1", 5)
    stamper.observe(encode_uid(uid), wall_us=1_000)
    assert stamper.last_us == 5


def test_own_name_ahead_of_the_clock_is_refused() -> None:
    stamper = Stamper("QM1", 5)
    stamper.observe(encode_uid(Uid("QM1", 1_000 + AHEAD_MAX_US)), wall_us=1_000)
    with pytest.raises(
        RequestError, match="1000001 us ahead of the clock, which exceeds the limit of 1000000 us"
    ) as caught:
        stamper.observe(encode_uid(Uid("QM1", 1_001 + AHEAD_MAX_US)), wall_us=1_000)
    assert caught.value.code == ErrorCode.VALUE_INVALID
    assert stamper.last_us == 1_000 + AHEAD_MAX_US
