"""Forgets the origins from which a queue has no message left in any state.

    row of the table: origin, highest timestamp
        └▶ does the index have a UID of that origin up to that timestamp?   no ─▶ delete the row

The index has a row for every message that is available, delayed or leased, or was lost in a restart
but is not yet removed, except messages that are found by their order (ordered.py). While such
messages exist, the origin of this queue manager stays. The index also has a row for every
remembered UID. Puts held by units of work have no row. Therefore, a queue with such puts keeps its
table until the next run. The name of an origin may begin with the name of another origin, so their
UIDs may be mixed in the index. If the job cannot decide after LOOKED_AT_MAX rows, it keeps the
origin.
"""

from itertools import groupby

from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import DONE, MORE, Job, JobStep
from qmgrd.core.jobs.slice import Rows, next_rows
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue import dedup
from qmgrd.core.queue.queue import Queue

LOOKED_AT_MAX = 100  # maximum number of rows of the index that are examined for one origin
# Maximum number of targets on a transmission queue. If the queue has more, its table stays.
TARGETS_MAX = 100


def step(context: Context, catalogue: Catalogue, job: Job) -> JobStep:
    """Examines a slice of all tables, queue by queue. ``done`` counts the deleted rows."""
    found, last = next_rows(context, job, keys.SPACE_ORIGIN)
    for queue_id, group in groupby(found, lambda row: keys.queue_id_of(row[0])):
        queue = catalogue.by_id.get(queue_id)
        if queue is None:
            continue  # The queue was deleted, and another job removes its rows.
        rows = list(group)
        gone, looked_at = evict(queue, context.tx, rows)
        job.row["examined"] += len(rows)
        job.row["done"] += gone
        context.count_read(looked_at + gone, 0)
    return DONE if last else MORE


def evict(queue: Queue, tx: Transaction, found: Rows) -> tuple[int, int]:
    """Deletes the *found* rows of the table of *queue* that its messages do not need.

    Returns:
        The number of deleted rows, and the number of examined rows.
    """
    if queue.uncommitted.arrivals:
        return 0, 0
    prefixes = _prefixes(queue, tx)
    gone, looked_at = 0, len(prefixes)
    for key, value in found:
        origin, highest = key[keys.POSITION_AT :], dedup.timestamp_of(key, value)
        is_there = len(prefixes) > TARGETS_MAX
        for prefix in prefixes:
            if is_there:
                break
            is_there, count = _is_there(tx, prefix + origin, highest)
            looked_at += count
        gone += not is_there and queue.origins.evict(tx, origin)
    return gone, looked_at


def _prefixes(queue: Queue, tx: Transaction) -> list[bytes]:
    """Returns the prefixes of origins in the UID index.

    A transmission queue has one for each target.
    """
    everything = queue.origins.index_prefix()
    if not queue.is_transmission or queue.is_publications:
        return [everything]
    found: list[bytes] = []
    start, stop = everything, keys.after(everything)
    while len(found) <= TARGETS_MAX:
        first = next(tx.scan(start, stop), None)
        if first is None:
            break
        found.append(keys.up_to_target(first[0]))
        start = keys.after(found[-1])
    return found


def _is_there(tx: Transaction, start: bytes, highest: int) -> tuple[bool, int]:
    """Returns whether a UID that needs the row exists or may exist, and the number of examined
    keys.
    """
    stop = keys.after(start)
    if highest < dedup.TIMESTAMP_MAX:
        stop = start + (highest + 1).to_bytes(8, "big")
    for count, (key, _) in enumerate(tx.scan(start, stop), 1):
        if len(key) == len(start) + 8 or count == LOOKED_AT_MAX:
            # Longer keys belong to another origin, whose name begins with this name.
            return True, count
    return False, 0
