"""Waiting for the end of a job of the queue manager."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from qmgr_client.rows import JobRow
from qmgr_protocol import messages as m

POLL_FIRST_S, POLL_MAX_S = 0.02, 0.5
UNFINISHED = ("running", "waiting")


async def ended(ask: Callable[..., Awaitable[Any]], row: JobRow) -> JobRow:
    """Returns the row of a job once it has ended. *row* is an earlier row of the job.

    The final ``state`` is ``"done"``, ``"failed"``, ``"cancelled"``, or ``"aside"`` if a bug
    stopped the job.

    Raises:
        RequestError: JOB_UNKNOWN if the job ended more than an hour ago.
    """
    pause_s = POLL_FIRST_S
    while row["state"] in UNFINISHED:
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, POLL_MAX_S)
        row = await ask(m.JobShow, row["job"])
    return row
