"""A job of the queue manager, for whoever waits for its end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from qmgr_client.rows import JobRow
from qmgr_protocol import messages as m

POLL_FIRST_S, POLL_MAX_S = 0.02, 0.5
GOES_ON = ("running", "waiting")


async def ended(ask: Callable[..., Awaitable[Any]], row: JobRow) -> JobRow:
    """Return the row of a job once it is over, from the *row* that it began with.

    Its "state" is then "done", "failed", "cancelled", or "aside": a bug stopped it.

    Raises:
        RequestError: JOB_UNKNOWN, it ended more than an hour ago.
    """
    pause_s = POLL_FIRST_S
    while row["state"] in GOES_ON:
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, POLL_MAX_S)
        row = await ask(m.JobShow, row["job"])
    return row
