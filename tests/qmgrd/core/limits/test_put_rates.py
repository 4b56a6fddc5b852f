"""Buckets of tokens, which delay the puts of a user."""

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.limits.put_rates import ENDLESS, PutRate, PutRates

RATES = st.integers(0, 5_000)


def rate(messages: int = 0, bytes_: int = 0) -> PutRate:
    found = PutRate()
    found.set(messages, bytes_)
    return found


def test_bucket_holds_the_tokens_of_one_second() -> None:
    found = rate(10)
    assert found.wait_ms(5_000) == 0
    assert found.tokens == (10, ENDLESS)
    found.take(10, 500)
    assert found.wait_ms(5_000) == 1
    assert found.wait_ms(5_100) == 0
    assert found.tokens == (1, ENDLESS)
    found.wait_ms(60_000)
    assert found.tokens == (10, ENDLESS)


def test_large_put_is_served_and_its_deficit_is_waited_for() -> None:
    found = rate(0, 1_000)
    found.take(1, 5_000)
    assert found.wait_ms(0) == 4_001
    assert found.wait_ms(4_000) == 1
    assert found.wait_ms(4_001) == 0


def test_slower_bucket_decides() -> None:
    found = rate(10, 1_000)
    found.take(15, 1_500)
    assert found.wait_ms(0) == 501
    found.take(10, 0)
    assert found.wait_ms(0) == 1_501


def test_changed_limit_begins_with_full_buckets_and_the_same_limit_changes_nothing() -> None:
    found = rate(10)
    found.take(100, 0)
    found.set(10, 0)
    assert found.wait_ms(0) == 9_001
    found.set(20, 0)
    assert found.wait_ms(0) == 0
    found.take(100, 0)
    found.set(0, 0)
    assert not found.is_limited
    assert found.wait_ms(0) == 0


def test_clock_that_stands_still_or_goes_back_adds_nothing() -> None:
    found = rate(10)
    found.wait_ms(1_000)
    found.take(20, 0)
    assert found.wait_ms(1_000) == found.wait_ms(1_000) == 1_001
    assert found.wait_ms(500) == 1_001


@given(
    RATES,
    RATES,
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 50), st.integers(1, 5_000))),
)
def test_user_puts_at_most_a_second_in_advance_and_one_put_more(
    messages: int, bytes_: int, puts: list[tuple[int, int, int]]
) -> None:
    found, now_ms, served = rate(messages, bytes_), 0, [0, 0]
    for passed_ms, count, size in puts:
        now_ms += passed_ms
        if found.wait_ms(now_ms):
            continue
        for limit, before in zip((messages, bytes_), served, strict=True):
            assert not limit or before * 1_000 < limit * (now_ms + 1_000)
        found.take(count, size)
        served[0] += count
        served[1] += size


@given(RATES.filter(bool), st.integers(1, 10_000))
def test_wait_is_exact(messages: int, count: int) -> None:
    found = rate(messages)
    found.take(count, 0)
    wait_ms = found.wait_ms(0)
    if wait_ms:
        assert found.wait_ms(wait_ms - 1) == 1
    assert found.wait_ms(wait_ms) == 0


def test_only_connections_of_limited_users_are_watched() -> None:
    rates, own = PutRates(), rate()
    rates.watch(1, own)
    assert not rates.of
    own.set(1, 0)
    rates.watch(1, own)
    assert rates.of == {1: own}
    own.set(0, 0)
    rates.watch(1, own)
    assert not rates.of
    rates.forget(1)
