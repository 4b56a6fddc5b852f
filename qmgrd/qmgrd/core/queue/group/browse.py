"""Browses in logical order: ungrouped messages and groups by their places, members by number.

A cursor contains a place, the number in the group at that place, 1 for the logical order, and the
group id. Therefore, a browse continues the group after that number, even if the place of the group
has changed. A browse misses groups before its cursor that become complete later. If members are
consumed after the browse has passed their group, the group moves to a later place. The browse then
shows the group again.
"""

import struct
from collections.abc import Iterator
from heapq import merge

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import LOGICAL
from qmgr_protocol.record import GROUP_NUMBER_MAX
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.browse import Cursor, Found
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.queue import Queue

_START = [keys.PRIORITY_TOP, 0, 0, LOGICAL]
_NONE = [0, 0, 0]  # the group id of ungrouped messages in a cursor
_GROUP = struct.Struct(">QQQ")


def check_cursor(after: Cursor | None, order: int) -> None:
    """Raises INCONSISTENT_BROWSE (MQRC 2259) if a browse continues in a different order."""
    if after is None:
        return
    was = after[3] if len(after) > 3 else 0
    if was != order or (order == LOGICAL and not _is_sound(after)):
        raise RequestError(
            ErrorCode.INCONSISTENT_BROWSE,
            "the browse began in a different order; begin again without a cursor",
        )


def _is_sound(after: Cursor) -> bool:
    number, group = after[2], after[4:7] or _NONE
    if after[0] > keys.PRIORITY_TOP or type(number) is not int or len(group) != len(_NONE):
        return False
    return 0 <= number <= GROUP_NUMBER_MAX and all(
        type(part) is int and 0 <= part < 1 << 64 for part in group
    )


def in_logical_order(
    queue: Queue, tx: Transaction, after: Cursor | None, *, all_available: bool
) -> Iterator[Found]:
    """Yields keys, entries and cursors in logical order, starting after the cursor *after*.

    For an incomplete group that is skipped, the entry is empty.
    """
    priority, arrival, number, _, *group = (after or _START)[:7]
    begun = _GROUP.pack(*(group or _NONE))
    yield from _members(queue, tx, [priority, arrival], begun, number)
    place = keys.PLACE.pack(keys.PRIORITY_TOP - priority, arrival)
    ready = keys.lane(queue.id, keys.LANE_READY)
    chain = keys.complete(queue.id, b"") if all_available else keys.chain(queue.id, b"")
    turns = merge(
        tx.scan(ready + place, keys.after(ready)),
        tx.scan(chain + place, keys.after(chain)),
        key=_place,
    )
    for key, value in turns:
        is_same = after is not None and _place((key, value)) == place
        if key.startswith(chain):
            if value == begun:
                continue
            rank, at = keys.PLACE.unpack(_place((key, value)))
            where = [keys.PRIORITY_TOP - rank, at]
            if not all_available or queue.groups.is_complete(tx, value):
                yield from _members(queue, tx, where, value, 0)
            else:
                yield key, b"", [*where, GROUP_NUMBER_MAX, LOGICAL, *_GROUP.unpack(value)]
        elif not is_same:
            yield key, value, [*keys.place(key), 0, LOGICAL, *_NONE]


def _place(row: tuple[bytes, bytes]) -> bytes:
    return row[0][-keys.PLACE.size :]


def without_incomplete(queue: Queue, tx: Transaction, found: Iterator[Found]) -> Iterator[Found]:
    """Yields the messages *found*. The entries of members of incomplete groups are empty."""
    for key, value, cursor in found:
        group = index.selected_by(entries.front(tx, entries.decode(value)))[1]
        if group is None or key[keys.POSITION_AT] == keys.LANE_READY:
            yield key, value, cursor
        else:
            yield key, value if queue.groups.is_complete(tx, group[0]) else b"", cursor


def _members(
    queue: Queue, tx: Transaction, where: Cursor, group_id: bytes, number: int
) -> Iterator[Found]:
    """Yields the members after *number* up to the first gap.

    Their cursors have the place *where*.
    """
    row = queue.groups.peek(tx, group_id)
    if row is None or not row.place:
        return
    wanted = row.after(max(row.due, number + 1))
    prefix = keys.of_queue(keys.SPACE_MESSAGE, queue.id)
    start = keys.group(queue.id, group_id, wanted)
    members = group_index.under(tx, group_index.prefix_of(queue.id, group_id), start)
    for key, position in members:
        found = keys.number_of(key)
        if found != wanted or position[keys.LANE_AT] != keys.LANE_GROUPED:
            return
        value = tx.get(prefix + position)
        if value is not None:
            cursor = [*where, found, LOGICAL, *_GROUP.unpack(group_id)]
            yield prefix + position, value, cursor
        wanted = row.after(found + 1)
