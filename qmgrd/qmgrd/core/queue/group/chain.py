"""The groups of a queue that have their turn, in the order of their turns: two ranges of the store.

    chain     place ──▶ group    its due member can be got, and nobody stopped it
    complete  place ──▶ group    of these the ones that are all there, but for what has left

A getter that begins complete groups only reads the second range. It passes no incomplete group,
however many are in front of the first complete one. The row of a group says whether the group is
in either. Rows of an older version do not: at the first start a job looks at all groups once.
"""

from collections.abc import Iterator

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.group.row import NO_PLACE, GroupRow

Turn = tuple[bytes, bytes]  # place and id of a group


def move(tx: Transaction, queue_id: int, group_id: bytes, row: GroupRow, place: bytes) -> bool:
    """Move a group to *place*, or out of both ranges; return whether that changed anything."""
    is_listed = bool(place) and row.is_rest_ready
    if (row.place, row.is_listed) == (place, is_listed):
        return False
    if row.place != place:
        if row.place:
            tx.delete(keys.chain(queue_id, row.place))
        if place:
            tx.put(keys.chain(queue_id, place), group_id)
    if row.is_listed:
        tx.delete(keys.complete(queue_id, row.place))
    if is_listed:
        tx.put(keys.complete(queue_id, place), group_id)
    row.place, row.is_listed = place, is_listed
    return True


def take_out(tx: Transaction, queue_id: int, group_id: bytes, row: GroupRow) -> None:
    """Remove a group from both ranges."""
    move(tx, queue_id, group_id, row, NO_PLACE)


def behind(
    tx: Transaction, queue_id: int, heads: list[int], *, is_complete: bool
) -> Iterator[Turn]:
    """Yield the groups in the order of their turns, from the lowest arrival of each priority on.

    Args:
        heads: the lowest arrival of interest by priority; read again whenever a priority begins.
        is_complete: whether only groups are of interest that are all there.
    """
    key_of = keys.complete if is_complete else keys.chain
    stop = keys.after(key_of(queue_id, b""))
    rank = 0
    while rank >= 0:
        start = key_of(queue_id, keys.PLACE.pack(rank, heads[keys.PRIORITY_TOP - rank]))
        at, rank = rank, -1
        for key, group_id in tx.scan(start, stop):
            place = key[-keys.PLACE.size :]
            if place[0] != at:
                at = place[0]
                if place < keys.PLACE.pack(at, heads[keys.PRIORITY_TOP - at]):
                    rank = at
                    break  # Behind are some that were stepped over.
            yield place, group_id
