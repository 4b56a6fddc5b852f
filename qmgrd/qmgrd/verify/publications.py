"""Publications: each is held by as many as its row says, and what is parked is on the list.

reference on a subscription ──▶ publication ◀── how many hold it
entry in the lane of what is parked ◀──▶ row of the index
"""

from collections import Counter
from dataclasses import dataclass, field

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.verify.finding import Findings


@dataclass
class Held:
    """What was seen of subscriptions."""

    references: Counter[int] = field(default_factory=Counter)  # by publication
    parked: dict[bytes, bytes] = field(default_factory=dict)  # rows of the index that are to be


def check_publications(found: Findings, tx: Transaction, held: Held) -> None:
    """Holds the rows of publications against what was seen of the subscriptions."""
    _check_holders(found, tx, held)
    _check_parked(found, tx, held)


def _check_holders(found: Findings, tx: Transaction, held: Held) -> None:
    expected = Counter(held.references)
    for key, row in _unsealed(found, tx, keys.SPACE_RETAINED):
        arrival = int.from_bytes(row, "big")
        expected[arrival] += 1
        if tx.get(keys.publication(arrival)) is None:
            topic = key[1:].decode(errors="replace")
            found.add("retained", key, f"topic {topic} retained {arrival}, which is not there")
    first = stop = 0
    for _, row in _unsealed(found, tx, keys.FAN_OUT):
        first, stop, _ = keys.FAN_OUT_ROW.unpack(row)
    said = {
        int.from_bytes(key[1:], "big"): int.from_bytes(row, "big")
        for key, row in _unsealed(found, tx, keys.SPACE_HOLDERS)
    }
    is_pending = first != 0
    prefix = keys.lane(keys.PUBLICATIONS_ID, keys.LANE_READY)
    for key, _ in tx.scan(prefix, keys.after(prefix)):
        arrival = keys.place(key)[1]
        found.looked_at(1)
        if is_pending and arrival >= stop:
            continue  # It goes out from there on.
        if is_pending and first <= arrival < stop:
            expected[arrival] += 1  # Until all of it is out.
        if expected[arrival] != said.get(arrival, 0) or not expected[arrival]:
            what = f"publication {arrival} has {expected[arrival]} holders, its row says "
            found.add("holders", keys.holders(arrival), what + str(said.get(arrival, "nothing")))
    for arrival in said:
        if tx.get(keys.publication(arrival)) is None:
            what = f"publication {arrival} is not there, and has a row that counts its holders"
            found.add("holders", keys.holders(arrival), what)


def _check_parked(found: Findings, tx: Transaction, held: Held) -> None:
    there = dict(tx.scan(keys.SPACE_PARKED, keys.after(keys.SPACE_PARKED)))
    found.looked_at(len(there))
    for key in sorted(there.keys() ^ held.parked.keys()):
        what = "names nothing that is parked" if key in there else "is missing"
        found.add("parked", key, f"a row of the index of what is parked {what}")
    for key in there.keys() & held.parked.keys():
        if there[key] != held.parked[key]:
            found.add("parked", key, "a row of the index of what is parked names another priority")


def _unsealed(found: Findings, tx: Transaction, space: bytes) -> list[tuple[bytes, bytes]]:
    sound = []
    for key, value in tx.scan(space, keys.after(space)):
        try:
            sound.append((key, rows.unseal(key, value)))
        except rows.RowDamaged as error:
            found.add("seal", key, error.text.partition(";")[0])
    return sound
