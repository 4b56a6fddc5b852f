"""The store clock, which determines all stored deadlines."""

from qmgrd.core.layout.kv import Now


class StoreClock:
    """A clock that advances with the monotonic clock while the daemon runs.

    At a start, the clock advances by the wall clock time since the last turn. The advance is at
    least 0 and at most downtime_max_ms. Therefore, a jump of the wall clock by years moves
    deadlines by at most downtime_max_ms, and never backward.
    """

    def __init__(
        self, stored_ms: int, stored_wall_us: int, downtime_max_ms: int, mono_ms: int, wall_us: int
    ) -> None:
        away_ms = (wall_us - stored_wall_us) // 1000 if stored_wall_us else 0
        self._start_ms = stored_ms + min(max(away_ms, 0), downtime_max_ms)
        self._mono_ms = mono_ms

    def now(self, mono_ms: int, wall_us: int) -> Now:
        """Returns the store time and the wall clock time, given the clocks of the machine."""
        return Now(self._start_ms + max(mono_ms - self._mono_ms, 0), max(wall_us, 0))
