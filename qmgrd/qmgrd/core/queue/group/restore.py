"""Reads the row of a group. Rebuilds an invalid row from the members of the group."""

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.row import GroupRow


def read(
    tx: Transaction, queue_id: int, queue: str, group_id: bytes, made: dict[bytes, None]
) -> tuple[GroupRow | None, bytes]:
    """Returns the row of a group, or None, and the stored form of the row.

    An invalid row is rebuilt from the members. Its group is added to *made*, and its stored form
    counts as empty.

    Raises:
        RowDamaged: The checksum of the row is wrong.
    """
    stored = rows.find(tx, keys.group_row(queue_id, group_id), queue)
    if stored is None:
        return None, b""
    try:
        return GroupRow.decode(stored), stored
    except rows.NONSENSE:
        made[group_id] = None
        return restored(tx, queue_id, group_id), b""


def restored(tx: Transaction, queue_id: int, group_id: bytes) -> GroupRow:
    """Builds a row from the members of a group. Numbers below the first count as consumed."""
    row = GroupRow()
    prefix = group_index.prefix_of(queue_id, group_id)
    for key, value in tx.scan(prefix, keys.after(prefix)):
        if not group_index.is_sound(key, value):
            continue
        run = group_index.decode(key, value)
        count = run.last - run.first + 1
        if not row.highest:
            row.done = run.first - 1
        if run.position[keys.LANE_AT] == keys.LANE_GROUPED:
            row.count += count
        else:
            row.waiting += count
        row.highest = run.last
        arrival = keys.arrival_of(run.position)
        row.lowest = row.born = min(row.lowest or arrival, arrival)
    return row
