"""The timer of a session. The timer calls the client core when work is due."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qmgr_client.aio.session import Session

NEVER_MS = 2**63


class SessionTimer:
    """The timer that calls :meth:`Session.tick` at the time that the core requests.

    Invariant: after :meth:`start`, a call is scheduled for ``_due_ms``. This time is never later
    than the time that the core requested at the last :meth:`update`.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._due_ms = NEVER_MS
        self._is_running = False

    def start(self) -> None:
        """Starts the timer."""
        self._is_running = True
        self.update()

    def stop(self) -> None:
        """Stops the timer."""
        self._is_running = False
        if self._handle is not None:
            self._handle.cancel()
        self._due_ms = NEVER_MS

    def update(self) -> None:
        """Brings the next call forward if the core has work that is due earlier."""
        due_ms = self._session.core.next_due_ms
        if due_ms < self._due_ms and self._is_running:
            self._schedule(due_ms)

    def _schedule(self, due_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._due_ms = due_ms
        pause_ms = max(due_ms - self._session.now_ms(), 0)
        self._handle = self._loop.call_later(pause_ms / 1000, self._on_due)

    def _on_due(self) -> None:
        self._due_ms = NEVER_MS
        self._session.tick()
        self.update()
