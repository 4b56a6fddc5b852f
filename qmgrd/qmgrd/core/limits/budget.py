"""The time that a turn may take: nobody else is served while a turn runs.

The core reads no clock of its own. The daemon hands in its monotonic clock, the simulator a clock
that follows from the seed, and a test by default a clock that stands still.

    |  arrivals: 50 %  | work: 25 % | delivery: 25 %  of limits.turn_ms, at most

Each part of a turn has its share, and does at least one slice. So no part starves the next one, and
none uses what another one left: whoever waits for an answer waits for the end of the turn.
"""

from collections.abc import Callable
from typing import TypeAlias

ClockNs: TypeAlias = Callable[[], int]  # a monotonic clock in nanoseconds

ARRIVALS = 50
WORK = 25
DELIVERY = 25
SHARE = 10  # what one connection may use before its further requests wait for the next turn
LOOK_EACH = 16  # small pieces of work, from one look at the clock to the next
_MS_NS = 1_000_000


def still() -> int:
    """Return the time of a clock that stands still: no turn uses up its time."""
    return 0


class Budget:
    """The time of the turn that runs. Parts are percentages of the whole."""

    __slots__ = ("_turn_ns", "clock_ns", "end_ns", "share_ns")

    def __init__(self, turn_ms: int, clock_ns: ClockNs = still) -> None:
        self.clock_ns = clock_ns
        self._turn_ns = turn_ms * _MS_NS
        self.share_ns = self._turn_ns * SHARE // 100
        self.begin()

    def begin(self) -> None:
        """Start a turn, whose first part is that of the arrivals."""
        self.allow(ARRIVALS)

    def allow(self, part: int) -> None:
        """Let the next part of the turn, which starts now, take *part* percent of a whole one."""
        self.end_ns = self.clock_ns() + self._turn_ns * part // 100

    @property
    def is_over(self) -> bool:
        """Whether the time of this part of the turn is used up. To be asked once a slice."""
        return self.clock_ns() >= self.end_ns


ENDLESS = Budget(1)  # Its clock stands still.
