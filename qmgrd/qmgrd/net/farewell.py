"""The time that a daemon that stops gives its peers to read what was written to them."""

import asyncio
from collections.abc import Callable, Mapping

from qmgrd.net.session import SocketSession

DRAIN_MAX_MS = 2_000  # time to read the data written to them
LEAVE_MAX_MS = 250  # time to then close their end of the connection
_LOOK_S = 0.01


async def wait_for_peers(sessions: Mapping[int, SocketSession], now_ms: Callable[[], int]) -> None:
    """Returns when all *sessions* have ended, or their time is up. All have received a goodbye."""
    goodbye_ms = now_ms()
    while sessions and (waited_ms := now_ms() - goodbye_ms) < DRAIN_MAX_MS:
        if waited_ms > LEAVE_MAX_MS and not any(s.unwritten_bytes() for s in sessions.values()):
            return
        await asyncio.sleep(_LOOK_S)
