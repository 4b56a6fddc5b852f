"""When a session is to look at its clock: heartbeats, a silent connection, leases."""

import asyncio
from typing import TYPE_CHECKING

from qmgr_client.sansio.in_work import START_AFTER_MS

if TYPE_CHECKING:
    from qmgr_client.aio.session import Session

TICK_MAX_MS = 1_000
TICK_MIN_MS = 10


class Ticking:
    """The timers of a session."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._tick: asyncio.TimerHandle | None = None
        self._due_ms = 0
        self._soon: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look after heartbeats and leases, as often as they need it."""
        self.stop()
        self._due_ms = self._session.now_ms()
        self._on_tick()

    def stop(self) -> None:
        """Stop looking after them."""
        for timer in (self._tick, self._soon):
            if timer is not None:
                timer.cancel()
        self._soon = None

    def look_soon(self) -> None:
        """Schedule the start of the leases of messages that were just handed out."""
        if self._soon is None and self._session.core.consumers.has_fresh:
            self._soon = self._loop.call_later(START_AFTER_MS / 1000, self._on_soon)

    def look_at_started(self) -> None:
        """Have leases that started go on in time: the next tick may be too late for them."""
        renewal_ms = self._session.core.consumers.renewal_ms
        if not 0 < renewal_ms < TICK_MAX_MS:
            return
        if self._tick is None or self._tick.when() > self._loop.time() + renewal_ms / 1000:
            self.start()

    def _on_soon(self) -> None:
        self._soon = None
        self._session.core.renew_leases(self._session.now_ms())
        self._session.wake()
        self.look_at_started()
        self.look_soon()

    def _on_tick(self) -> None:
        session = self._session
        now_ms, core = session.now_ms(), session.core
        period_ms = min(max(core.welcome.heartbeat_ms // 4, 1), TICK_MAX_MS)
        if core.consumers.renewal_ms:
            period_ms = min(period_ms, max(core.consumers.renewal_ms, TICK_MIN_MS))
        # When the loop was held up, what has arrived meanwhile is still to be read: see first.
        if now_ms - self._due_ms <= period_ms:
            session.poll()
        self._due_ms = now_ms + period_ms
        self._tick = self._loop.call_later(period_ms / 1000, self._on_tick)
