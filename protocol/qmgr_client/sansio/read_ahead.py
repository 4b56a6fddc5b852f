"""The number of messages to prefetch, adapted to the speed of the application.

A prefetched message is not available to other consumers. Therefore, a consumer prefetches only as
many messages as the application takes in half a second to two seconds, or in a small part of a
short lease.
"""

FIRST_MESSAGES = 8  # number of messages to prefetch until the speed of the application is known
# The number is doubled if the application takes half that many messages within FAST_MS. The number
# is halved if this takes longer than SLOW_MS.
FAST_MS, SLOW_MS = 500, 2_000


class ReadAhead:
    """The maximum number of messages that are prefetched or in transit from the queue manager."""

    __slots__ = ("_fast_ms", "_half_at_ms", "_slow_ms", "half", "limit", "messages")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._set(min(FIRST_MESSAGES, limit))
        self._half_at_ms: int | None = None  # time of the last call of half_taken
        self._fast_ms, self._slow_ms = FAST_MS, SLOW_MS

    def leased_for(self, lease_ms: int) -> None:
        """Limits the number so that no lease ends before the application takes the message."""
        self._fast_ms = min(FAST_MS, lease_ms // 16)
        self._slow_ms = min(SLOW_MS, lease_ms // 4)

    def _set(self, messages: int) -> None:
        self.messages = messages
        # Number of taken messages after which the consumer requests more.
        self.half = max(messages // 2, 1)

    def half_taken(self, now_ms: int) -> None:
        """Adapts the number. The application has taken half of it since the last call."""
        before_ms, self._half_at_ms = self._half_at_ms, now_ms
        if before_ms is None:
            return
        if now_ms - before_ms < self._fast_ms:
            self._set(min(2 * self.messages, self.limit))
        elif now_ms - before_ms > self._slow_ms:
            self._set(self.half)
