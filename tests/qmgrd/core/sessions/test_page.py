"""Tests of pages of an ordered collection."""

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.limits.budget import ENDLESS, LOOK_EACH, SHARE, Budget
from qmgrd.core.sessions.page import page, shown
from tests.qmgrd.core.ticking import MS_NS, Ticking


@given(st.sets(st.integers(0, 30)), st.integers(1, 5))
def test_pages_have_everything_once_and_in_order(numbers: set[int], limit: int) -> None:
    found: list[int] = []
    after: int | None = -1
    while after is not None:
        part, after = page(sorted(numbers), after, limit)
        assert len(part) <= limit
        assert after is None or after == part[-1]
        found += part
    assert found == sorted(numbers)


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.integers(1, 5))
def test_keys_that_are_not_shown_do_not_exist(
    numbers: set[int], hidden: set[int], limit: int
) -> None:
    """No page shows by its length or its end that other keys exist."""
    for after in range(-1, 31):
        shown_only = page(sorted(numbers - hidden), after, limit)
        assert page(sorted(numbers), after, limit, lambda x: x not in hidden) == shown_only


def test_keys_are_listed_from_any_place() -> None:
    assert page(["a", "b", "c"], "a1", 1) == (["b"], "b")
    assert page(["a", "b", "c"], "b", 1) == (["c"], None)


def test_page_is_cut_where_its_rows_take_longer_than_a_share() -> None:
    clock, keys = Ticking(), list(range(1_000))

    def show(key: int) -> int:
        clock.now_ns += MS_NS // 8
        return -key

    rows, further = shown(keys, 999, show, Budget(100, clock))
    assert rows == [-key for key in range(8 * SHARE)]  # SHARE % of 100 ms, in steps of LOOK_EACH
    assert further == 8 * SHARE - 1
    assert not len(rows) % LOOK_EACH


def test_page_that_is_not_cut_continues_where_it_ended() -> None:
    keys = list(range(100))
    assert shown(keys, 99, str, ENDLESS) == (list(map(str, keys)), 99)
    assert shown(keys, None, str, ENDLESS) == (list(map(str, keys)), None)
    assert shown([], None, str, ENDLESS) == ([], None)
