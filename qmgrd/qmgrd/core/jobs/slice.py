"""The rows that a job processes in a turn, and the job's selector."""

from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import SLICE_ROWS, Job
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import compile_weight, selection, weight
from qmgrd.core.selector.selector import Selector

Rows = list[tuple[bytes, bytes]]


def selector_of(context: Context, job: Job, queue: Queue) -> Selector | None:
    """Returns the selector of *job* on *queue*. The selector is compiled once for all slices."""
    if job.wanted is None:
        where = job.row["where"]
        context.count_read(compile_weight(where), 0)
        job.wanted = selection(queue, where, b"", b"")
    return job.wanted.selector


def next_rows(
    context: Context, job: Job, prefix: bytes, selector: Selector | None = None
) -> tuple[Rows, bool]:
    """Returns the next rows under *prefix*, and whether they are the last. Moves the cursor.

    A slice has SLICE_ROWS rows, including the body rows of long messages and the weight of
    *selector*, or fewer in a small map. A waiting job receives one row, to check whether it must
    still wait.
    """
    rows_max = 1 if job.row["state"] == "waiting" else min(SLICE_ROWS, context.slice_rows)
    found: Rows = []
    start, rows, last = max(job.row["cursor"], prefix), 0, True
    for key, value in context.tx.scan(start, keys.after(prefix)):
        if rows >= rows_max:
            last = False
            break
        found.append((key, value))
        rows += weight(selector, context.tx, value)
        if key.startswith(keys.SPACE_MESSAGE):
            rows += entries.body_rows(entries.decode(value))
    context.count_read(rows, 0)
    if found:
        job.row["cursor"] = found[-1][0] + b"\0"
    return found, last
