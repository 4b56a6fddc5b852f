"""Tests that Committed reports stamps and duplicates in the shortest possible runs."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.context.committed import add_matches, add_stamps


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=20))
def test_stamps_are_reported_in_runs(steps: list[tuple[int, int]]) -> None:
    runs: list[list[int]] = []
    expected: dict[int, int] = {}
    index = timestamp = 0
    for gap, count in steps:
        index, timestamp = index + gap % 2, timestamp + 1 + gap // 2 if gap > 1 else timestamp
        add_stamps(runs, index, timestamp, count)
        expected |= {index + n: timestamp + n for n in range(count)}
        index, timestamp = index + count, timestamp + count
    assert {a + n: t + n for a, t, count in runs for n in range(count)} == expected
    for (a, t, count), (b, u, _) in pairwise(runs):
        assert (a + count, t + count) != (b, u)


def test_duplicates_are_reported_in_runs() -> None:
    runs: list[list[int]] = []
    add_matches(runs, [1, 2, 4, 5], 3)
    add_matches(runs, [6], 3)
    add_matches(runs, [7], 2)
    assert runs == [[1, 2, 3], [4, 3, 3], [7, 1, 2]]
