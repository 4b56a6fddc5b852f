"""The campaign's view of the daemon: latencies of good clients, memory and exits."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple, TypeAlias

Windows: TypeAlias = dict[str, list[list[float]]]  # milliseconds per operation, by kind of window

TICK_S = 0.005
SAMPLES_MIN = 100  # minimum number of samples per window that gives a meaningful p99
WINDOWS_MIN = 2


class Mark(NamedTuple):
    """The start of an operation, and the state of the watch at that moment."""

    what: str
    at_s: float
    lag_s: float
    epoch: int


class Watch:
    """Latencies by window. A window is calm or under attack.

    Operations that overlap a kill of the daemon are not counted. The time that this process or the
    daemon waited for a processor is subtracted.
    """

    def __init__(self, windows: Windows | None = None) -> None:
        """Begins with the given earlier measurements, if any.

        Args:
            windows: Earlier measurements, to which new ones are added.
        """
        self.windows: Windows = windows if windows is not None else {"calm": [], "attack": []}
        self.longest_ms, self.longest_what = 0.0, ""
        self.operations = 0
        self.rss_max_mib = 0
        self.definitions_mib = 0  # part of the memory that the definitions of the store use
        self._now: list[float] | None = None
        self._lag_s = 0.0  # total delay caused by other programs
        self._daemon: Path | None = None
        self._waited_ns = 0  # waiting time of the current daemon
        self._epoch = 0  # odd number while the daemon is down or has just restarted

    @property
    def is_disturbed(self) -> bool:
        """True if the daemon is down because the campaign killed it, or has just returned."""
        return bool(self._epoch % 2)

    def disturb(self) -> None:
        """Begins a period in which no operation is counted."""
        self._epoch += not self.is_disturbed

    def settle(self) -> None:
        """Ends the period that :meth:`disturb` began."""
        self._epoch += self.is_disturbed

    def open(self, kind: str) -> None:
        """Begins a window, and ends the previous one."""
        self._now = []
        self.windows[kind].append(self._now)

    def close(self) -> None:
        """Ends the window."""
        self._now = None

    def start(self, what: str) -> Mark:
        """Returns the start of an operation, for :meth:`done`."""
        return Mark(what, time.monotonic(), self._lag_s, self._epoch)

    def done(self, mark: Mark) -> None:
        """Counts an operation that was answered."""
        self.operations += 1
        if mark.epoch != self._epoch or self.is_disturbed:
            return
        took_s = time.monotonic() - mark.at_s - (self._lag_s - mark.lag_s)
        took_ms = max(took_s, 0.0) * 1_000
        if self._now is not None:
            self._now.append(took_ms)
        if took_ms > self.longest_ms:
            self.longest_ms, self.longest_what = took_ms, mark.what

    async def keep_lag(self) -> None:
        """Measures the delay of this process and the daemon, until cancelled."""
        while True:
            due_s = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            self._lag_s += max(0.0, time.monotonic() - due_s - TICK_S) + self._waited_s()

    def _waited_s(self) -> float:
        """Returns how long the daemon's main thread waited for a processor since the last call."""
        if self._daemon is None:
            return 0.0
        try:
            now_ns = int(self._daemon.read_text().split()[1])
        except OSError:
            return 0.0  # The daemon has ended.
        waited_ns, self._waited_ns = now_ns - self._waited_ns, now_ns
        return max(waited_ns, 0) / 1e9

    def look_at(self, pid: int) -> int:
        """Returns the daemon's current own memory in MiB; 0 if the daemon has ended."""
        self._daemon = Path(f"/proc/{pid}/task/{pid}/schedstat")
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return 0
        line = next((x for x in text.splitlines() if x.startswith("RssAnon:")), "RssAnon: 0 kB")
        mib = int(line.split()[1]) // 1024
        self.rss_max_mib = max(self.rss_max_mib, mib)
        return mib

    def median_p99_ms(self, kind: str) -> float:
        """Returns the median p99 of the windows of type *kind*; 0 if there are too few windows."""
        found = [p99(window) for window in self.windows[kind] if len(window) >= SAMPLES_MIN]
        return median(found) if len(found) >= WINDOWS_MIN else 0.0

    @property
    def p99_ratio(self) -> float:
        """The median p99 under attack divided by the calm one; 0 if there are too few windows."""
        calm_ms = self.median_p99_ms("calm")
        return self.median_p99_ms("attack") / calm_ms if calm_ms else 0.0


def p99(window: Sequence[float]) -> float:
    """Returns the 99th percentile; 0 for fewer than two values."""
    return quantiles(window, n=100)[98] if len(window) > 1 else 0.0
