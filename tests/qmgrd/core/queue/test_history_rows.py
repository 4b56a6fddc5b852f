"""Tests that seeks find the extent of the stored history, even if the state row is wrong."""

from typing import Any

import pytest

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.history_rows import cursor, find, read_state
from tests.memory_store import MemoryStore


def stored(first: int, last: int) -> MemoryStore:
    tx = MemoryStore()
    for seq in range(first, last + 1):
        rows.put(tx, keys.history(seq), b"row")
    return tx


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 9), (70, 400), (2**40, 2**40 + 3)])
def test_rows_are_found(first: int, last: int) -> None:
    assert find(stored(first, last)) == (first, last + 1)


def test_empty_history_begins_at_the_next_row() -> None:
    assert find(MemoryStore()) == (1, 1)
    assert read_state(MemoryStore(), 1, 1) == (1, 1, 0, 0)


def test_state_that_matches_the_rows_is_accepted() -> None:
    tx = stored(3, 5)
    rows.put(tx, keys.HISTORY, keys.HISTORY_ROW.pack(2, 8, 100, 1))
    assert read_state(tx, 3, 6) == (2, 8, 100, 1)


@pytest.mark.parametrize("state", [(1, 5, 0, 0), (9, 8, 0, 0), (4, 8, 0, 0), (1, 2**60, 0, 0)])
def test_impossible_state_is_invalid(state: tuple[int, int, int, int]) -> None:
    tx = stored(3, 5)
    rows.put(tx, keys.HISTORY, keys.HISTORY_ROW.pack(*state))
    with pytest.raises((rows.RowInvalid, ValueError)):
        read_state(tx, 3, 6)


@pytest.mark.parametrize("row", [[], {}, {"position": 10}, {"position": 1, "lost": -1}])
def test_impossible_cursor_is_invalid(row: Any) -> None:
    with pytest.raises((ValueError, KeyError)):
        cursor(row, 9)


def test_cursor_keeps_what_is_known_of_it() -> None:
    assert cursor({"position": 9, "lost": 3, "later": 1}, 9) == {"position": 9, "lost": 3}
