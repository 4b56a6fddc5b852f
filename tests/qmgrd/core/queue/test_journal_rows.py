"""Which rows of history are stored: found out by seeks, whatever the row about them says."""

from typing import Any

import pytest

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.journal_rows import cursor, find, read_state
from tests.memory_store import MemoryStore


def stored(first: int, last: int) -> MemoryStore:
    tx = MemoryStore()
    for seq in range(first, last + 1):
        rows.put(tx, keys.history(seq), b"row")
    return tx


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 9), (70, 400), (2**40, 2**40 + 3)])
def test_rows_are_found(first: int, last: int) -> None:
    assert find(stored(first, last)) == (first, last + 1)


def test_without_rows_the_first_is_the_next() -> None:
    assert find(MemoryStore()) == (1, 1)
    assert read_state(MemoryStore(), 1, 1) == (1, 1, 0, 0)


def test_state_that_agrees_with_the_rows_is_taken() -> None:
    tx = stored(3, 5)
    rows.put(tx, keys.HISTORY, keys.HISTORY_ROW.pack(2, 8, 100, 1))
    assert read_state(tx, 3, 6) == (2, 8, 100, 1)


@pytest.mark.parametrize("state", [(1, 5, 0, 0), (9, 8, 0, 0), (4, 8, 0, 0), (1, 2**60, 0, 0)])
def test_state_that_cannot_be_true_makes_no_sense(state: tuple[int, int, int, int]) -> None:
    tx = stored(3, 5)
    rows.put(tx, keys.HISTORY, keys.HISTORY_ROW.pack(*state))
    with pytest.raises((rows.RowSenseless, ValueError)):
        read_state(tx, 3, 6)


@pytest.mark.parametrize("row", [[], {}, {"position": 10}, {"position": 1, "lost": -1}])
def test_cursor_that_cannot_be_true_makes_no_sense(row: Any) -> None:
    with pytest.raises((ValueError, KeyError)):
        cursor(row, 9)


def test_cursor_keeps_what_is_known_of_it() -> None:
    assert cursor({"position": 9, "lost": 3, "later": 1}, 9) == {"position": 9, "lost": 3}
