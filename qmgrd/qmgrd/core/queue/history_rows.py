"""Finds the stored rows of the history, and checks its stored state against these rows."""

from typing import Any

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.value_checks import number, typed

_END = 2**63  # the upper bound of row numbers


def find(tx: Transaction) -> tuple[int, int]:
    """Returns the number of the first stored row, and the number after the last stored row.

    The function finds the last row by a binary search, with one seek per bit of the number.
    """
    first = _at_or_behind(tx, 0)
    if first is None:
        return 1, 1
    low, high = first, _END  # A row exists at or after low. No row exists at or after high.
    while high - low > 1:
        middle = (low + high) // 2
        if _at_or_behind(tx, middle) is None:
            high = middle
        else:
            low = middle
    return first, high


def _at_or_behind(tx: Transaction, seq: int) -> int | None:
    found = next(tx.scan(keys.history(seq), keys.after(keys.SPACE_HISTORY)), None)
    return None if found is None else keys.seq_of(found[0])


def read_state(tx: Transaction, first: int, next_: int) -> tuple[int, int, int, int]:
    """Returns the stored state: the first and the next row number, the bytes and the dropped rows.

    Args:
        tx: The transaction of the turn.
        first: The number of the first stored row.
        next_: The number after the last stored row.

    Raises:
        RowDamaged: The checksum of the state is wrong.
        RowInvalid: The state does not include all stored rows.
        ValueError: A number of the state is out of range.
    """
    row = rows.find(tx, keys.HISTORY)
    if row is None and next_ == 1:
        return 1, 1, 0, 0
    if row is None:
        why = f"it is missing, although row {first} exists"
        raise rows.RowInvalid("the state of the history", why)
    known = keys.HISTORY_ROW.unpack(row)
    if known[1] < next_ or known[0] > known[1] or (known[0] > first and next_ > 1):
        why = f"rows {first} to {next_ - 1} exist, but the stored next row is {known[1]}"
        raise rows.RowInvalid("the state of the history", why)
    for value in known:
        number(value, "a number in the state of the history")
    return known[0], known[1], known[2], known[3]


def cursor(row: Any, last: int) -> dict[str, int]:
    """Returns the fields in the *row* of an export cursor.

    Args:
        row: The decoded row of the cursor.
        last: The number of the last row of the history.

    Raises:
        ValueError, KeyError: The row is invalid.
    """
    typed(dict, row, "the row")
    number(row["position"], "the position", 0, last)
    known = ("position", "created_us", "committed_us", "lost")
    return {name: number(row[name], name) for name in known if name in row}
