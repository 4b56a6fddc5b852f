"""The times at which a shell must call the tick method of the client core."""

from qmgr_client.sansio.consumers import Consumers

POLL_MIN_MS, POLL_MAX_MS = 10, 1_000


class TickTimes:
    """The times of the next poll of the connection and of the next start of leases.

    A poll sends heartbeats and renewals, and ends expired leases and connections.
    """

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers
        self._poll_due_ms = 0

    @property
    def next_due_ms(self) -> int:
        """The time of the next tick."""
        start_due_ms = self._consumers.start_due_ms
        return self._poll_due_ms if start_due_ms is None else min(self._poll_due_ms, start_due_ms)

    def restart(self, heartbeat_ms: int, now_ms: int) -> None:
        """Schedules the first poll of a new connection."""
        self._poll_due_ms = now_ms + self._period_ms(heartbeat_ms)

    def leases_started(self, heartbeat_ms: int, now_ms: int) -> None:
        """Brings the next poll forward if it is too late to renew a started lease."""
        self._poll_due_ms = min(self._poll_due_ms, now_ms + self._period_ms(heartbeat_ms))

    def ticked(self, heartbeat_ms: int, now_ms: int) -> bool:
        """Schedules the next tick, and returns whether to poll now.

        If the shell was delayed for more than a period, the socket may have unread bytes. The shell
        reads these bytes before the next poll, so the connection does not expire by mistake.
        """
        if now_ms < self._poll_due_ms:
            return False
        period_ms = self._period_ms(heartbeat_ms)
        is_late = now_ms - self._poll_due_ms > period_ms
        self._poll_due_ms = now_ms + period_ms
        return not is_late

    def _period_ms(self, heartbeat_ms: int) -> int:
        """Returns the time between polls."""
        period_ms = min(max(heartbeat_ms // 4, 1), POLL_MAX_MS)
        renewal_ms = self._consumers.renewal_ms
        return min(period_ms, max(renewal_ms, POLL_MIN_MS)) if renewal_ms else period_ms
