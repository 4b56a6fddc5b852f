"""Tests of the size of a batch."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_tables.stream.limit import admitted
from qmgr_tables.stream.source import Offsets

EVENTS, BYTES = 10, 100  # number of events in each row, and of bytes


def sizes(_: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
    for seq in range(after + 1, until + 1):
        yield seq, EVENTS, BYTES


def take(start: Offsets, ends: Offsets, rows: int | None, size: int | None = None) -> Offsets:
    return admitted(start, ends, sizes, rows, size)


def test_without_a_limit_all_is_taken_unseen() -> None:
    assert admitted({"a": 1}, {"a": 9, "b": 3}, None, None, None) == {"a": 9, "b": 3}  # type: ignore[arg-type]


def test_rows_and_bytes_are_held_to() -> None:
    assert take({"a": 0}, {"a": 9}, 39) == {"a": 3}
    assert take({"a": 0}, {"a": 9}, 40) == {"a": 4}
    assert take({"a": 0}, {"a": 9}, None, 250) == {"a": 2}
    assert take({"a": 0}, {"a": 9}, 50, 250) == {"a": 2}
    assert take({"a": 0}, {"a": 9}, 50, 10_000) == {"a": 5}


def test_one_row_is_taken_however_long_it_is() -> None:
    assert take({"a": 0}, {"a": 9}, 1) == {"a": 1}
    assert take({"a": 0, "b": 0}, {"a": 9, "b": 3}, 1) == {"a": 1, "b": 0}
    assert take({"a": 9}, {"a": 9}, 1) == {"a": 9}


def test_stores_share_and_what_one_leaves_another_has() -> None:
    assert take({"a": 0, "b": 0}, {"a": 50, "b": 60}, 100) == {"a": 5, "b": 5}
    assert take({"a": 0, "b": 0}, {"a": 2, "b": 60}, 100) == {"a": 2, "b": 8}


def test_what_is_new_or_away_or_was_restored_is_no_reason_to_read() -> None:
    assert take({"a": 5}, {"a": 5, "b": 7}, 10) == {"a": 5, "b": 7}
    assert take({"a": 5, "c": 1}, {"a": 5, "c": 1}, 10) == {"a": 5, "c": 1}
    assert take({"a": 5}, {"a": 3}, 10) == {"a": 3}


def test_what_is_gone_is_in_no_offset_any_more() -> None:
    for rows in (None, 10, 20):
        assert take({"a": 5, "c": 1}, {"a": 6}, rows) == {"a": 6}
    assert take({"a": 5}, {}, 10) == {}


def test_place_behind_the_last_row_is_come_to_also_where_there_is_none() -> None:
    """Messages that were consumed leave only their arrival numbers."""

    def sparse(_: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        yield from ((seq, 1, BYTES) for seq in (3, 8) if after < seq <= until)
        yield until, 0, 0

    assert admitted({"a": 0}, {"a": 9}, sparse, 1, None) == {"a": 3}
    assert admitted({"a": 3}, {"a": 9}, sparse, 1, None) == {"a": 9}
    assert admitted({"a": 8, "b": 0}, {"a": 9, "b": 9}, sparse, 1, None) == {"a": 9, "b": 3}
    assert admitted({"a": 8, "b": 8}, {"a": 9, "b": 9}, sparse, 1, None) == {"a": 9, "b": 9}


def test_who_has_nothing_left_keeps_nobody_from_a_share() -> None:
    """A busy queue that becomes empty repeatedly has the longest backlog each time."""

    def emptied(name: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        if name.startswith("quiet"):
            yield after + 1, 1, BYTES
        yield until, 0, 0

    ends = {"quiet": 1, "quiet too": 2, "busy": 1_000}
    start = dict.fromkeys(ends, 0)
    assert admitted(start, ends, emptied, 1, None) == {"quiet": 1, "quiet too": 0, "busy": 1_000}
    assert admitted(start, ends, emptied, 2, None) == {"quiet": 1, "quiet too": 2, "busy": 1_000}


def test_who_has_no_share_is_not_asked() -> None:
    asked: list[str] = []

    def counted(name: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        asked.append(name)
        return sizes(name, after, until)

    assert admitted(dict.fromkeys("abc", 0), dict.fromkeys("abc", 9), counted, 20, None) == {
        "a": 1,
        "b": 1,
        "c": 0,
    }
    assert asked == ["a", "b", "c", "a"]


@pytest.mark.parametrize(("rows", "size"), [(10, None), (20, None), (None, 100), (None, 250)])
def test_where_there_are_fewer_rows_than_queues_these_take_turns(
    rows: int | None, size: int | None
) -> None:
    """Some queues always have far longer backlogs than the others."""
    start = dict.fromkeys("abcde", 0)
    ends = {"a": 3, "b": 10**6, "c": 10**5, "d": 2, "e": 10**6}
    for _ in range(20):
        start = take(start, ends, rows, size)
    assert all(start.values())


stores = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 30))


@given(stores, stores, st.integers(1, 400), st.integers(1, 4_000))
def test_batches_come_to_the_end_and_keep_to_the_limits(
    start: Offsets, ends: Offsets, rows: int, size: int
) -> None:
    behind = {store_id: max(end, start.get(store_id, 0)) for store_id, end in ends.items()}
    while True:
        found = take(start, behind, rows, size)
        assert found.keys() == behind.keys()
        common = start.keys() & found.keys()
        read = sum(found[one] - start[one] for one in common)
        assert all(start[one] <= found[one] for one in common)
        assert read <= 1 or (read * EVENTS <= rows and read * BYTES <= size)
        if found == start:
            break
        start = found
    assert start == behind
