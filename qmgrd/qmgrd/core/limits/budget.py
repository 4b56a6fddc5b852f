"""Limits the time of a turn, because the daemon serves no other client while a turn runs.

The core reads no clock. The daemon passes its monotonic clock. The simulator passes a clock that
depends on the seed. By default, a test passes a clock that never advances.

    |  arrivals: 50 %  | work: 25 % | delivery: 25 %  of limits.turn_ms, at most

Each part of a turn has a share of the time, and does at least one slice of work. Therefore, no part
starves the next one. A part never uses time that an earlier part did not need, because clients wait
for the end of the turn.
"""

from collections.abc import Callable
from typing import TypeAlias

ClockNs: TypeAlias = Callable[[], int]  # a monotonic clock in nanoseconds

ARRIVALS = 50
WORK = 25
DELIVERY = 25
SHARE = 10  # percentage for one connection; its further requests wait for the next turn
LOOK_EACH = 16  # number of small pieces of work between two reads of the clock
_MS_NS = 1_000_000


def frozen_clock() -> int:
    """Returns 0, like a clock that never advances. With it, no turn uses up its time."""
    return 0


class Budget:
    """The time of the current turn. A part of the turn is a percentage of the whole time."""

    __slots__ = ("_turn_ns", "clock_ns", "end_ns", "share_ns")

    def __init__(self, turn_ms: int, clock_ns: ClockNs = frozen_clock) -> None:
        self.clock_ns = clock_ns
        self._turn_ns = turn_ms * _MS_NS
        self.share_ns = self._turn_ns * SHARE // 100
        self.begin()

    def begin(self) -> None:
        """Starts a turn with the part for arrivals."""
        self.allow(ARRIVALS)

    def allow(self, part: int) -> None:
        """Starts the next part of the turn, which may take *part* percent of the time."""
        self.end_ns = self.clock_ns() + self._turn_ns * part // 100

    @property
    def is_over(self) -> bool:
        """Whether the time of this part is used up. Callers check this property once per slice."""
        return self.clock_ns() >= self.end_ns


ENDLESS = Budget(1)  # The budget's clock never advances.
