"""The counters of a queue as a stored row."""

from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.layout.counters import Counters

FIELDS = len(astuple(Counters()))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=FIELDS, max_size=FIELDS))
def test_decode_reads_what_was_encoded(values: list[int]) -> None:
    counters = Counters(*values)
    assert Counters.decode(counters.encode()) == counters


def test_row_of_an_older_version_starts_new_counters_at_zero() -> None:
    row = Counters(next_arrival=5, depth=3).encode()
    assert Counters.decode(row[:16]) == Counters(next_arrival=5, depth=3)


def test_row_of_a_newer_version_is_read_as_far_as_known() -> None:
    assert Counters.decode(Counters(depth=3).encode() + b"\1" * 8) == Counters(depth=3)
