"""Tests of the conditions that a query sets for columns: names and bounds, in combination."""

from hypothesis import given
from hypothesis import strategies as st

from qmgr_tables.filters import Filters, earlier, is_within, later

BOUND = st.none() | st.integers(-5, 5)


def test_names_are_narrowed_and_never_widened() -> None:
    some = Filters().with_names("queues", frozenset("AB"))
    assert [some.allows("queues", name) for name in "ABC"] == [True, True, False]
    assert some.allows("managers", "C")
    none = some.with_names("queues", frozenset("C"))
    assert not any(none.allows("queues", name) for name in "ABC")


@given(value=st.integers(-6, 6), one=st.tuples(BOUND, BOUND), other=st.tuples(BOUND, BOUND))
def test_two_pairs_of_bounds_hold_both(
    value: int, one: tuple[int | None, int | None], other: tuple[int | None, int | None]
) -> None:
    both = Filters().with_bounds("us", *one).with_bounds("us", *other)
    assert is_within(value, both.since_us, both.until_us) == (
        is_within(value, *one) and is_within(value, *other)
    )


def test_start_is_inclusive_end_exclusive_and_what_is_unknown_lies_in_no_bounds() -> None:
    assert [is_within(value, 2, 4) for value in range(1, 6)] == [False, True, True, False, False]
    assert is_within(None, None, None)
    assert not is_within(None, 1, None)
    assert not is_within(None, None, 1)


def test_none_is_no_bound() -> None:
    assert (later(None, 3), later(None, None), later(4, 3)) == (3, None, 4)
    assert (earlier(None, 3), earlier(None, None), earlier(4, 3)) == (3, None, 3)
