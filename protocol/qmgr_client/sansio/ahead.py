"""Adapts how many messages are prefetched to how fast the application takes them.

A prefetched message is not available to other consumers. So it is about what the application takes
in half a second to two seconds, or in a small part of a short lease.
"""

FIRST = 8  # as long as nobody knows
FAST_MS, SLOW_MS = 500, 2_000  # taking half in less time doubles it, in more time halves it


class Ahead:
    """How many messages may be here, or on their way, that the application has not taken."""

    __slots__ = ("_fast_ms", "_half_at_ms", "_slow_ms", "half", "limit", "messages")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._set(min(FIRST, limit))
        self._half_at_ms: int | None = None  # when half of it was taken the last time
        self._fast_ms, self._slow_ms = FAST_MS, SLOW_MS

    def leased_for(self, lease_ms: int) -> None:
        """Keep it so short that no lease runs out in it."""
        self._fast_ms = min(FAST_MS, lease_ms // 16)
        self._slow_ms = min(SLOW_MS, lease_ms // 4)

    def _set(self, messages: int) -> None:
        self.messages = messages
        self.half = max(messages // 2, 1)  # so many are taken before more is asked for

    def half_taken(self, now_ms: int) -> None:
        """Adapt: the application has taken half of it since the last time."""
        before_ms, self._half_at_ms = self._half_at_ms, now_ms
        if before_ms is None:
            return
        if now_ms - before_ms < self._fast_ms:
            self._set(min(2 * self.messages, self.limit))
        elif now_ms - before_ms > self._slow_ms:
            self._set(self.half)
