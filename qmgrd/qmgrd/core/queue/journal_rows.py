"""Finds out which rows of the journal are stored, from the rows and from the row of its state."""

from typing import Any

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.value_checks import number, typed

_END = 2**63  # No row has a higher number.


def find(tx: Transaction) -> tuple[int, int]:
    """Returns the first stored row, and the number after the last, with one seek per bit."""
    first = _at_or_behind(tx, 0)
    if first is None:
        return 1, 1
    low, high = first, _END  # A row exists at or after low, and none at or after high.
    while high - low > 1:
        middle = (low + high) // 2
        if _at_or_behind(tx, middle) is None:
            high = middle
        else:
            low = middle
    return first, high


def _at_or_behind(tx: Transaction, seq: int) -> int | None:
    found = next(tx.scan(keys.history(seq), keys.after(keys.SPACE_HISTORY)), None)
    return None if found is None else int.from_bytes(found[0][1:], "big")


def read_state(tx: Transaction, first: int, next_: int) -> tuple[int, int, int, int]:
    """Returns the first row, the next row, the bytes and the dropped rows of the stored state.

    Args:
        tx: the turn's.
        first: the first row that is stored.
        next_: the number after the last row.

    Raises:
        RowDamaged: its checksum is wrong.
        RowInvalid: rows exist that it does not include.
        ValueError: it cannot be true.
    """
    row = rows.find(tx, keys.HISTORY)
    if row is None and next_ == 1:
        return 1, 1, 0, 0
    if row is None:
        raise rows.RowInvalid("where the journal stands", f"missing, though row {first} exists")
    known = keys.HISTORY_ROW.unpack(row)
    if known[1] < next_ or known[0] > known[1] or (known[0] > first and next_ > 1):
        why = f"rows {first} to {next_ - 1} exist, yet the next is to be {known[1]}"
        raise rows.RowInvalid("where the journal stands", why)
    for value in known:
        number(value, "where the journal stands")
    return known[0], known[1], known[2], known[3]


def cursor(row: Any, last: int) -> dict[str, int]:
    """Returns the fields in the *row* of an export cursor; *last* is the last row of history.

    Raises:
        ValueError, KeyError: it makes no sense.
    """
    typed(dict, row, "the row")
    number(row["position"], "its position", 0, last)
    known = ("position", "created_us", "committed_us", "lost")
    return {name: number(row[name], name) for name in known if name in row}
