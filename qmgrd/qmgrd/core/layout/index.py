"""The index rows of a message, in addition to its UID: by correlation id, group and time.

    correlation id ────▶ place: 9 - priority, arrival     of messages that are not delayed
    group, number  ─┬──▶ lane and place                   of members (groups.py)
    due ────────────┘                                     of messages with an expiry or a delay
    arrival ────────▶    note                             of failed messages and dead letters

The keys of these rows are derived from the message. When a message is removed, its keys are derived
again.
"""

from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from qmgrd.core.layout.entry import Entry


def selected_by(front: bytes) -> tuple[bytes, tuple[bytes, int] | None]:
    """Returns the correlation id, the group id and the group number of a record with the given
    *front*.
    """
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
    """Returns whether a record with the given *front* is the last of its group."""
    return bool(front[records.GROUP_FLAGS_AT] & records.LAST_IN_GROUP)


def correlation_key(queue_id: int, front: bytes, priority: int, arrival: int) -> bytes:
    """Returns the index key of a message's correlation id, or b"" if the message has none."""
    correlation_id = selected_by(front)[0]
    if not correlation_id:
        return b""
    place = keys.PLACE.pack(keys.PRIORITY_TOP - priority, arrival)
    return keys.correlation(queue_id, correlation_id) + place


def timed_keys(queue_id: int, entry: Entry, lane: int, priority: int, arrival: int) -> list[bytes]:
    """Returns the keys of a message's row in the schedule and of its note, if they exist."""
    found = []
    if entry.due_ms:
        found.append(keys.due(entry.due_ms, queue_id, lane, priority, arrival))
    if entry.noted:
        found.append(keys.note(queue_id, arrival))
    return found
