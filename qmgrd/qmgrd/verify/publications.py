"""Publications. The numbers of holders are correct, and parked publications are in the index.

reference on a subscription ──▶ publication ◀── number of holders
entry in the lane of parked publications ◀──▶ row of the index
"""

from collections import Counter
from dataclasses import dataclass, field

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.verify.finding import Findings


@dataclass
class SubscriptionReferences:
    """The references that subscriptions hold."""

    # The number of references by publication.
    references: Counter[int] = field(default_factory=Counter)
    parked: dict[bytes, bytes] = field(default_factory=dict)  # the rows that the index should have


def check_publications(found: Findings, tx: Transaction, held: SubscriptionReferences) -> None:
    """Checks the rows of publications against the subscriptions."""
    _check_holders(found, tx, held)
    _check_parked(found, tx, held)


def _check_holders(found: Findings, tx: Transaction, held: SubscriptionReferences) -> None:
    expected = Counter(held.references)
    for key, row in _unsealed(found, tx, keys.SPACE_RETAINED):
        arrival = int.from_bytes(row, "big")
        expected[arrival] += 1
        if tx.get(keys.publication(arrival)) is None:
            topic = key[keys.REST].decode(errors="replace")
            found.add("retained", key, f"topic {topic} retains {arrival}, which does not exist")
    first = stop = 0
    for _, row in _unsealed(found, tx, keys.FAN_OUT):
        first, stop, _ = keys.FAN_OUT_ROW.unpack(row)
    stored = {
        int.from_bytes(key[keys.REST], "big"): int.from_bytes(row, "big")
        for key, row in _unsealed(found, tx, keys.SPACE_HOLDERS)
    }
    is_pending = first != 0
    prefix = keys.lane(keys.PUBLICATIONS_ID, keys.LANE_READY)
    for key, _ in tx.scan(prefix, keys.after(prefix)):
        arrival = keys.place(key)[1]
        found.looked_at(1)
        if is_pending and arrival >= stop:
            continue  # The fan-out of this publication has not begun.
        if is_pending and first <= arrival < stop:
            expected[arrival] += 1  # The fan-out holds the publication until it is finished.
        if expected[arrival] != stored.get(arrival, 0) or not expected[arrival]:
            what = f"publication {arrival} has {expected[arrival]} holders, but its row states "
            found.add(
                "holders", keys.reference_count(arrival), what + str(stored.get(arrival, "nothing"))
            )
    for arrival in stored:
        if tx.get(keys.publication(arrival)) is None:
            what = f"publication {arrival} does not exist, but a row counts its holders"
            found.add("holders", keys.reference_count(arrival), what)


def _check_parked(found: Findings, tx: Transaction, held: SubscriptionReferences) -> None:
    present = dict(tx.scan(keys.SPACE_PARKED, keys.after(keys.SPACE_PARKED)))
    found.looked_at(len(present))
    for key in sorted(present.keys() ^ held.parked.keys()):
        what = "refers to no parked publication" if key in present else "is missing"
        found.add("parked", key, f"a row of the index of parked publications {what}")
    for key in present.keys() & held.parked.keys():
        if present[key] != held.parked[key]:
            found.add(
                "parked", key, "a row of the index of parked publications has another priority"
            )


def _unsealed(found: Findings, tx: Transaction, space: bytes) -> list[tuple[bytes, bytes]]:
    sound = []
    for key, value in tx.scan(space, keys.after(space)):
        try:
            sound.append((key, rows.unseal(key, value)))
        except rows.RowDamaged as error:
            found.add("seal", key, error.text.partition(";")[0])
    return sound
