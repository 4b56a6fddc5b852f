"""History.

Its rows have no gaps in the range that its state says, and its cursors are valid.
"""

import struct

from qmgr_protocol import history
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import FrameMalformed
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.verify.finding import Findings

_NONSENSE = (FrameMalformed, ValueError, TypeError, KeyError, struct.error)


def check_history(found: Findings, tx: Transaction) -> None:
    """Checks the history's state against its rows."""
    first = next_ = 1
    size = 0
    try:
        state = rows.find(tx, keys.HISTORY)
        if state is not None:
            first, next_, size, _ = keys.HISTORY_ROW.unpack(state)
    except (rows.RowDamaged, struct.error) as error:
        found.add("seal", keys.HISTORY, f"the history's state: {error}")
        return
    present_bytes, seqs = 0, range(first, next_)
    expected = iter(seqs)
    for key, value in tx.scan(keys.SPACE_HISTORY, keys.after(keys.SPACE_HISTORY)):
        found.looked_at(1)
        seq = int.from_bytes(key[keys.REST], "big")
        if seq != next(expected, None):
            found.add(
                "history", key, f"row {seq} of history is outside of the range {first} to {next_}"
            )
            return
        present_bytes += len(value) - rows.SEAL_BYTES
        try:
            history.decode(rows.unseal(key, value))
        except (rows.RowDamaged, history.HistoryMalformed) as error:
            found.add("seal", key, f"row {seq} of history: {error}")
    missing = next(expected, None)
    if missing is not None:
        found.add("history", keys.history(missing), f"row {missing} of history is missing")
    elif present_bytes != size:
        what = f"history has {present_bytes} bytes, but its state says {size}"
        found.add("history", keys.HISTORY, what)
    _check_cursors(found, tx, first, next_)


def _check_cursors(found: Findings, tx: Transaction, first: int, next_: int) -> None:
    for key, value in tx.scan(keys.SPACE_CURSOR, keys.after(keys.SPACE_CURSOR)):
        found.looked_at(1)
        name = key[keys.REST].decode(errors="replace")
        try:
            position = unpack(rows.unseal(key, value))["position"]
            if not first - 1 <= position < next_:
                where = f"{position}, but history has rows {first} to {next_ - 1}"
                found.add("history", key, f"export cursor {name} is at {where}")
        except rows.RowDamaged as error:
            found.add("seal", key, error.text.partition(";")[0])
        except _NONSENSE as error:
            found.add("content", key, f"export cursor {name}: {type(error).__name__}: {error}")
