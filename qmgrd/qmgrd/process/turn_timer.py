"""Starts a turn when the core has work that is due.

Most turns do not change when the next work is due, or make it due later. So a timer that rings
early is kept: it costs a call each time it rings, but no call in each turn.
"""

import asyncio
from collections.abc import Callable


class TurnTimer:
    """The one timer of the loop that starts turns.

    Invariant: after :meth:`set`, a timer rings no later than the next work is due.
    """

    def __init__(
        self, due_ms: Callable[[], int | None], now_ms: Callable[[], int], call: Callable[[], None]
    ) -> None:
        """Creates a timer that is not set.

        Args:
            due_ms: A function that returns the time of the next work, or None.
            now_ms: A function that returns the current time by the same clock.
            call: A function that starts a turn.
        """
        self._due_ms = due_ms
        self._now_ms = now_ms
        self._call = call
        self._handle: asyncio.TimerHandle | None = None
        self._rings_ms = 0  # the time of _handle

    def set(self) -> None:
        """Sets the timer, unless it already rings in time."""
        due_ms = self._due_ms()
        if due_ms is None or (self._handle is not None and self._rings_ms <= due_ms):
            return
        self.cancel()
        wait_s = max(due_ms - self._now_ms(), 0) / 1000
        self._rings_ms = due_ms
        self._handle = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def cancel(self) -> None:
        """Stops the timer until it is set again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        """Starts a turn if work is due now. Otherwise sets the timer again."""
        self._handle = None
        due_ms = self._due_ms()
        if due_ms is not None and due_ms <= self._now_ms():
            self._call()
        else:
            self.set()
