"""Tests of the number of messages that a client prefetches for an application."""

from qmgr_client.sansio.read_ahead import FAST_MS, FIRST_MESSAGES, SLOW_MS, ReadAhead


def test_it_begins_low_and_within_the_limit() -> None:
    assert ReadAhead(256).messages == FIRST_MESSAGES
    assert ReadAhead(3).messages == 3
    assert [ReadAhead(limit).half for limit in (1, 2, 3, 256)] == [1, 1, 1, FIRST_MESSAGES // 2]


def test_it_follows_the_application() -> None:
    ahead, now_ms = ReadAhead(20), 0
    ahead.half_taken(now_ms)
    assert ahead.messages == FIRST_MESSAGES, "the speed is not known yet"
    found = []
    for step_ms in (FAST_MS - 1, FAST_MS - 1, FAST_MS, SLOW_MS, SLOW_MS + 1, SLOW_MS + 1):
        now_ms += step_ms
        ahead.half_taken(now_ms)
        found.append(ahead.messages)
    assert found == [16, 20, 20, 20, 10, 5]


def test_little_comes_ahead_where_leases_are_short() -> None:
    ahead = ReadAhead(20)
    ahead.leased_for(800)
    ahead.half_taken(0)
    ahead.half_taken(49)
    assert ahead.messages == 2 * FIRST_MESSAGES
    ahead.half_taken(49 + 201)
    assert ahead.messages == FIRST_MESSAGES


def test_one_is_the_least() -> None:
    ahead = ReadAhead(4)
    for now_ms in range(0, 10 * SLOW_MS, SLOW_MS + 1):
        ahead.half_taken(now_ms)
    assert ahead.messages == 1
