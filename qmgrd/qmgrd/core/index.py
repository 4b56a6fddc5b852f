"""The rows that lead to a message, beside its UID: by correlation id, by group, by time.

    correlation id ─┐
    group, number  ─┼──▶ place: 9 - priority, arrival     only of what can be got
    due ────────────┘    lane and place                   of what has a time
    arrival ────────▶    its note                         of what failed, or is a dead letter

They are made from what the message holds, so whoever removes it makes them once more.
"""

from qmgr_protocol import record as records
from qmgrd.core import keys
from qmgrd.core.entry import Entry


def selected_by(front: bytes) -> tuple[bytes, tuple[bytes, int] | None]:
    """Return correlation id, group and number of a record that begins with *front*."""
    if len(front) < records.HEAD_BYTES:
        return b"", None
    correlation, group_flags = front[records.CORRELATION_LENGTH_AT], front[17]
    start = records.HEAD_BYTES + correlation
    correlation_id = front[records.HEAD_BYTES : start]
    if not group_flags or len(front) < start + records.GROUP.size:
        return correlation_id, None
    group_id, number = records.GROUP.unpack_from(front, start)
    return correlation_id, (group_id, number)


def selection_keys(queue_id: int, front: bytes, priority: int, arrival: int) -> list[bytes]:
    """Return the keys by which a message that can be got is found, its UID apart."""
    correlation_id, group = selected_by(front)
    place = keys.PLACE.pack(keys.PRIORITY_TOP - priority, arrival)
    found = []
    if correlation_id:
        found.append(keys.correlation(queue_id, correlation_id) + place)
    if group is not None:
        found.append(keys.group(queue_id, *group) + place)
    return found


def timed_keys(queue_id: int, entry: Entry, lane: int, priority: int, arrival: int) -> list[bytes]:
    """Return the keys of its row in the schedule, and of its note."""
    found = []
    if entry.due_ms:
        found.append(keys.due(entry.due_ms, queue_id, lane, priority, arrival))
    if entry.noted:
        found.append(keys.note(queue_id, arrival))
    return found
