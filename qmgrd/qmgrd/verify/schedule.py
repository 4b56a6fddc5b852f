"""The schedule. Each row refers to a message, a remembered UID or a group that is due at that time.

index.py checks that each message has its row in the schedule. groups.py does the same for groups.
Rows of deleted queues are not a fault, because they are removed when they are due.
"""

from collections import Counter
from dataclasses import dataclass, field

from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys, schedule
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.dedup import OriginTable
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.verify.definitions import NONSENSE, Defined
from qmgrd.verify.finding import Findings

STEP_ROWS = 10_000  # number of rows between two progress reports


@dataclass
class Remembered:
    """The remembered UIDs, as the number of their index rows by queue id."""

    counts: Counter[int] = field(default_factory=Counter)

    def positions(self, tx: Transaction, queue_id: int) -> set[bytes]:
        """Returns the positions of the queue's remembered UIDs that have a row in the schedule."""
        return {
            key[-keys.POSITION.size :]
            for key, _ in tx.scan(keys.SPACE_DUE, keys.after(keys.SPACE_DUE))
            if len(key) == keys.DUE.size and keys.DUE.unpack(key)[2] == queue_id
        }


def check_schedule(found: Findings, tx: Transaction, defined: Defined) -> Remembered:
    """Checks every row of the schedule of the queues in *defined*."""
    remembered = Remembered()
    count = 0
    for key, value in tx.scan(keys.SPACE_DUE, keys.after(keys.SPACE_DUE)):
        count += 1
        if count % STEP_ROWS == 0:
            found.looked_at(STEP_ROWS)
        if len(key) != keys.DUE.size:
            found.add("key", key, f"the key has {len(key)} bytes, not {keys.DUE.size}")
            continue
        _, _, queue_id, lane, _, _ = keys.DUE.unpack(key)
        name = defined.queues.get(queue_id)
        if name is None:
            continue
        if lane == keys.LANE_REMEMBERED:
            position = tx.get(OriginTable(queue_id).index_key(value))
            if position == key[-keys.POSITION.size :]:
                remembered.counts[queue_id] += 1
                continue
        elif lane == keys.LANE_GROUP:
            if _has_group(tx, key, value, queue_id):
                continue
        elif _has_message(tx, key, queue_id):
            continue
        what = f"a row of queue {name} at {schedule.due_of(key)} refers to no message or group"
        found.add("due-orphan", key, what)
    found.looked_at(count % STEP_ROWS)
    return remembered


def _has_message(tx: Transaction, key: bytes, queue_id: int) -> bool:
    """Returns whether a message is due at that time, or was reported with another due time."""
    position = key[-keys.POSITION.size :]
    value = tx.get(keys.of_queue(keys.SPACE_MESSAGE, queue_id) + position)
    if value is None:
        return False
    entry = entries.decode(value)
    if entry.flags == entries.UNREADABLE or entry.due_ms == schedule.due_of(key):
        return True
    own = entry.due_ms.to_bytes(8, "big")
    return entry.due_ms > 0 and tx.get(key[keys.SPACE] + own + key[keys.AFTER_DUE]) is None


def _has_group(tx: Transaction, key: bytes, group_id: bytes, queue_id: int) -> bool:
    """Returns whether a group is due at that time, or was reported before."""
    row_key = keys.group_row(queue_id, group_id)
    try:
        data = rows.find(tx, row_key)
        row = None if data is None else GroupRow.decode(data)
        if row is None:
            members = keys.of_queue(keys.SPACE_GROUP, queue_id) + group_id
            return next(tx.scan(members, keys.after(members)), None) is not None
        own = keys.due(row.due_ms, queue_id, keys.LANE_GROUP, 0, row.born)
    except NONSENSE:
        return True
    return own == key or (row.due_ms > 0 and tx.get(own) is None)
