"""Adapts how many messages are prefetched to how fast the application takes them.

A prefetched message is not available to other consumers. So a consumer prefetches what the
application takes in half a second to two seconds, or in a small part of a short lease.
"""

FIRST_MESSAGES = 8  # until the speed of the application is known
FAST_MS, SLOW_MS = 500, 2_000  # Half taken in less time doubles the number; in more time halves it.


class ReadAhead:
    """The number of messages that may be prefetched, or be on their way from the queue manager."""

    __slots__ = ("_fast_ms", "_half_at_ms", "_slow_ms", "half", "limit", "messages")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._set(min(FIRST_MESSAGES, limit))
        self._half_at_ms: int | None = None  # when the application had last taken half
        self._fast_ms, self._slow_ms = FAST_MS, SLOW_MS

    def leased_for(self, lease_ms: int) -> None:
        """Keeps the number so small that no lease ends before its message is taken."""
        self._fast_ms = min(FAST_MS, lease_ms // 16)
        self._slow_ms = min(SLOW_MS, lease_ms // 4)

    def _set(self, messages: int) -> None:
        self.messages = messages
        self.half = max(messages // 2, 1)  # Once so many are taken, more are requested.

    def half_taken(self, now_ms: int) -> None:
        """Adapts the number. The application has taken half of it since the last call."""
        before_ms, self._half_at_ms = self._half_at_ms, now_ms
        if before_ms is None:
            return
        if now_ms - before_ms < self._fast_ms:
            self._set(min(2 * self.messages, self.limit))
        elif now_ms - before_ms > self._slow_ms:
            self._set(self.half)
