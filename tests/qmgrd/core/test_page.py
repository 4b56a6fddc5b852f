"""Pages of what is kept in order."""

from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedDict, SortedList

from qmgrd.core.page import page


@given(st.sets(st.integers(0, 30)), st.integers(1, 5))
def test_pages_have_everything_once_and_in_order(numbers: set[int], limit: int) -> None:
    found: list[int] = []
    after: int | None = -1
    while after is not None:
        part, after = page(SortedList(numbers), after, limit)
        assert len(part) <= limit
        assert after is None or after == part[-1]
        found += part
    assert found == sorted(numbers)


def test_keys_of_a_map_are_listed_from_any_place() -> None:
    assert page(SortedDict(b=1, a=2, c=3), "a1", 1) == (["b"], "b")
    assert page(SortedDict(b=1, a=2, c=3), "b", 1) == (["c"], None)
