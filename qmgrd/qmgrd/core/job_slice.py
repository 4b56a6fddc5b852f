"""The rows that a job works on in a turn."""

from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core.context import Context
from qmgrd.core.job import SLICE_ROWS, Job

Rows = list[tuple[bytes, bytes]]


def next_rows(context: Context, job: Job, prefix: bytes) -> tuple[Rows, bool]:
    """Return the next rows under *prefix* and whether they are the last; move the cursor.

    They are SLICE_ROWS, counting the body rows of long messages; fewer in a small map.
    """
    weight_max = min(SLICE_ROWS, context.turn_rows)
    found: Rows = []
    start, weight, last = max(job.row["cursor"], prefix), 0, True
    for key, value in context.tx.scan(start, keys.after(prefix)):
        if weight >= weight_max:
            last = False
            break
        found.append((key, value))
        weight += 1
        if key.startswith(keys.SPACE_MESSAGE):
            weight += entries.body_rows(entries.decode(value))
    context.rows += 2 * weight
    if found:
        job.row["cursor"] = found[-1][0] + b"\0"
    return found, last
