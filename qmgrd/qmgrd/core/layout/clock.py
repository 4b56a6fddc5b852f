"""The store's own clock, by which every stored deadline runs."""

from qmgrd.core.layout.kv import Now


class StoreClock:
    """Advances with the monotonic clock while the daemon runs.

    A start advances it by the wall clock time since the last turn, at least 0 and at most
    downtime_max_ms. So if the wall clock jumps by years, deadlines move by no more than that, and
    never backwards.
    """

    def __init__(
        self, stored_ms: int, stored_wall_us: int, downtime_max_ms: int, mono_ms: int, wall_us: int
    ) -> None:
        away_ms = (wall_us - stored_wall_us) // 1000 if stored_wall_us else 0
        self._start_ms = stored_ms + min(max(away_ms, 0), downtime_max_ms)
        self._mono_ms = mono_ms

    def now(self, mono_ms: int, wall_us: int) -> Now:
        """Returns both clocks, given those of the machine."""
        return Now(self._start_ms + max(mono_ms - self._mono_ms, 0), max(wall_us, 0))
