"""The groups of a queue that a consumer can begin, in the order of their places, as two ranges.

    chain     place ──▶ group    groups that are not stopped and whose due member is available
    complete  place ──▶ group    groups of the chain whose remaining members are all available

A consumer that begins only complete groups reads the second range, so it need not skip incomplete
groups. The row of a group states whether the group is in the ranges. Rows of an older version do
not state it, so a job checks all groups once at the first start.
"""

from collections.abc import Iterator

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.group.row import NO_PLACE, GroupRow

Turn = tuple[bytes, bytes]  # the place and the group id


def move(tx: Transaction, queue_id: int, group_id: bytes, row: GroupRow, place: bytes) -> bool:
    """Moves a group to *place*, or out of both ranges. Returns whether any row changed."""
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
    """Removes a group from both ranges."""
    move(tx, queue_id, group_id, row, NO_PLACE)


def behind(
    tx: Transaction, queue_id: int, heads: list[int], *, is_complete: bool
) -> Iterator[Turn]:
    """Yields the groups in the order of their places, starting at the positions *heads*.

    Args:
        tx: The transaction of the turn.
        queue_id: The id of the queue.
        heads: The lowest arrival number to yield, by priority. The function reads an item only when
            it reaches its priority.
        is_complete: Whether to yield only complete groups.
    """
    key_of = keys.complete if is_complete else keys.chain
    stop = keys.after(key_of(queue_id, b""))
    rank = 0
    while rank >= 0:
        start = key_of(queue_id, keys.PLACE.pack(rank, heads[keys.PRIORITY_TOP - rank]))
        at, rank = rank, -1
        for key, group_id in tx.scan(start, stop):
            place = key[-keys.PLACE.size :]
            if place[keys.PLACE_RANK_AT] != at:
                at = place[keys.PLACE_RANK_AT]
                if place < keys.PLACE.pack(at, heads[keys.PRIORITY_TOP - at]):
                    rank = at
                    break  # The groups up to this position were skipped, so seek past them.
            yield place, group_id
