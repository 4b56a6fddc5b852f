"""The rows that lead to a message, beside its UID: by correlation id, by group, by time.

    correlation id ────▶ place: 9 - priority, arrival     only of what can be got
    group, number  ─┬──▶ lane and place                   of members (groups.py)
    due ────────────┘                                     of what has a time
    arrival ────────▶    its note                         of what failed, or is a dead letter

They are made from what the message holds, so whoever removes it makes them once more.
"""

from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from qmgrd.core.layout.entry import Entry


def selected_by(front: bytes) -> tuple[bytes, tuple[bytes, int] | None]:
    """Return correlation id, group and number of a record that begins with *front*."""
    if len(front) < records.HEAD_BYTES:
        return b"", None
    correlation, group_flags = front[records.CORRELATION_LENGTH_AT], front[records.GROUP_FLAGS_AT]
    start = records.HEAD_BYTES + correlation
    correlation_id = front[records.HEAD_BYTES : start]
    if not group_flags or len(front) < start + records.GROUP.size:
        return correlation_id, None
    group_id, number = records.GROUP.unpack_from(front, start)
    return correlation_id, (group_id, number)


def is_last(front: bytes) -> bool:
    """Return whether a record that begins with *front* is the last of its group."""
    return bool(front[records.GROUP_FLAGS_AT] & records.LAST_IN_GROUP)


def correlation_key(queue_id: int, front: bytes, priority: int, arrival: int) -> bytes:
    """Return the key by which a message that can be got is found by correlation id, or nothing."""
    correlation_id = selected_by(front)[0]
    if not correlation_id:
        return b""
    place = keys.PLACE.pack(keys.PRIORITY_TOP - priority, arrival)
    return keys.correlation(queue_id, correlation_id) + place


def timed_keys(queue_id: int, entry: Entry, lane: int, priority: int, arrival: int) -> list[bytes]:
    """Return the keys of its row in the schedule, and of its note."""
    found = []
    if entry.due_ms:
        found.append(keys.due(entry.due_ms, queue_id, lane, priority, arrival))
    if entry.noted:
        found.append(keys.note(queue_id, arrival))
    return found
