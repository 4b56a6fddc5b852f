"""How many messages a consumer has sent ahead of its application: as it is fast, up to a limit.

What lies here unseen is kept from other consumers, and a retry comes behind it. So it is about what
the application takes in half a second to two seconds.
"""

FIRST = 8  # as long as nobody knows
FAST_MS, SLOW_MS = 500, 2_000  # half of it is taken in less: twice as much; in more: half as much


class Ahead:
    """How many messages may be here, or on their way, that the application has not taken."""

    __slots__ = ("_half_at_ms", "limit", "messages")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.messages = min(FIRST, limit)
        self._half_at_ms: int | None = None  # when half of it was taken the last time

    @property
    def half(self) -> int:
        """How many the application takes before more is asked for."""
        return max(self.messages // 2, 1)

    def half_taken(self, now_ms: int) -> None:
        """Adapt: the application has taken half of it since the last time."""
        before_ms, self._half_at_ms = self._half_at_ms, now_ms
        if before_ms is None:
            return
        if now_ms - before_ms < FAST_MS:
            self.messages = min(2 * self.messages, self.limit)
        elif now_ms - before_ms > SLOW_MS:
            self.messages = self.half
