"""Moving a message from one queue to another of the same queue manager, in one turn.

Its record stays as it is, and so do its body rows: what changes is the entry, and where it stands.
On the other queue it is a new arrival with its counts at zero. It keeps its UID, so one that is
there already is not there twice.
"""

from typing import NamedTuple

from qmgrd.core import entry as entries
from qmgrd.core import keys, lane, notes
from qmgrd.core.context import Context
from qmgrd.core.dedup import Verdict
from qmgrd.core.queue import Queue


class Place(NamedTuple):
    """Where a message is to go."""

    queue: Queue
    target: str = ""  # on a transmission queue: the queue behind the link


def transfer(
    context: Context, source: Queue, key: bytes, value: bytes, place: Place, *, expires_ms: int,
    note: bytes,
) -> bool:  # fmt: skip
    """Move the message under *key* of *source*; return whether *place* took it.

    Whoever calls counts why it left *source*, and ends its lease.
    """
    tx, queue = context.tx, place.queue
    entry = entries.decode(value)
    trailer, bound_for = entries.uid_trailer(entry), place.target.encode()
    if queue.held and queue.origins.index_key(trailer, bound_for) in queue.held:
        return False
    verdict = queue.origins.judge(tx, trailer, bound_for)
    if verdict is Verdict.DUPLICATE and queue.origins.place(tx, trailer, bound_for) is None:
        verdict = Verdict.SLOW  # It was consumed there, and is remembered; this one is alive.
    if verdict is Verdict.DUPLICATE:
        queue.counters.duplicates += 1
        lane.remove(source, tx, key, value)
        context.touch(source)
        context.touch(queue)
        return True
    if not queue.has_room(1, entries.record_bytes(entry)):
        return False
    front, (priority, _) = entries.front(tx, entry), keys.place(key)
    lane.unlink(source, tx, key, value)
    arrival = queue.next_arrival()
    flags = entry.flags & ~entries.NOTED | (entries.NOTED if note else 0)
    moved = entry._replace(
        flags=flags, delivered=0, failed=0, expires_ms=expires_ms, due_ms=0, target=place.target
    )
    rows = lane.add(queue, tx, moved, front, trailer, priority, arrival)
    if note:
        notes.write(tx, queue.id, arrival, note)
    queue.origins.raise_to(tx, trailer[:-8], int.from_bytes(trailer[-8:], "big"))
    counters = queue.counters
    counters.puts += 1
    counters.fast += verdict is Verdict.FAST
    counters.slow += verdict is Verdict.SLOW
    context.rows += 2 * rows
    context.touch(source)
    context.touch(queue)
    return True
