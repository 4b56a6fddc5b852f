"""Checks of publications: the number of holders of each, and whether it is parked.

references, including those of ended subscriptions until a job removes them ─┐
the topic, if it retains the publication                                     ├─▶ holders
the delivery of its batch, while it runs                                     ─┘
"""

from collections import Counter

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.sim.audit_rows import Stored, rows_of
from tests.sim.ledger import require
from tests.sim.node import Node


def publications_are_held(node: Node, stored: list[Stored]) -> None:
    """Checks that each publication has at least one holder, and as many as its row states."""
    holders = Counter(one.arrival for one in stored if one.entry.shared)
    for _, row in rows.scan(node.store, keys.SPACE_RETAINED):
        holders[int.from_bytes(row, "big")] += 1
    there = {one.arrival for one in stored if one.queue_id == keys.PUBLICATIONS_ID}
    first = stop = 0
    for _, row in rows.scan(node.store, keys.FAN_OUT):
        first, stop, _ = keys.FAN_OUT_ROW.unpack(row)
    holders.update(arrival for arrival in there if first <= arrival < stop)
    waiting = {arrival for arrival in there if first and arrival >= stop}
    said = {
        int.from_bytes(key[1:], "big"): int.from_bytes(row, "big")
        for key, row in rows.scan(node.store, keys.SPACE_HOLDERS)
    }
    fact = f"{node.name}: {dict(holders.items() ^ said.items())} of {sorted(there)}"
    require(dict(holders) == said, "publications_are_held", fact)
    odd = (there - waiting) ^ said.keys()
    require(not odd, "publications_are_held", f"{node.name}: {sorted(odd)} without a holder")


def parked_is_on_the_list(node: Node, stored: list[Stored]) -> None:
    """Checks that each parked publication, and no other, is in the index once."""
    expected = {
        keys.parked(one.arrival, one.queue_id): one.key[keys.POSITION_AT + 1 :][:1]
        for one in stored
        if one.is_parked
    }
    found = dict(rows_of(node.store, keys.SPACE_PARKED))
    odd = [key.hex() for key in found.keys() ^ expected.keys()]
    require(found == expected, "parked_is_on_the_list", f"{node.name}: {odd[:5]}")
