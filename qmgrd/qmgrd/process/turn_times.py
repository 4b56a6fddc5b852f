"""How long turns take. Nobody else is served during one, so this is what others wait for at most.

Counted in classes of powers of two: class ``n`` holds the turns below 2**n microseconds and not
below half of that. Taking note of a turn costs a shift and two additions.
"""

CLASSES = 40  # the last one begins at three days


class TurnTimes:
    """Counts since the start, and the longest since somebody last asked."""

    __slots__ = ("_counts", "_longest_us")

    def __init__(self) -> None:
        self._counts = [0] * CLASSES
        self._longest_us = 0

    def add(self, turn_ns: int) -> None:
        """Takes note of a turn that took *turn_ns*."""
        turn_us = turn_ns // 1000
        self._counts[min(turn_us.bit_length(), CLASSES - 1)] += 1
        if turn_us > self._longest_us:
            self._longest_us = turn_us

    def take_longest_us(self) -> int:
        """Returns the longest since this was last called, and begin anew."""
        longest_us, self._longest_us = self._longest_us, 0
        return longest_us

    def histogram(self) -> list[list[int]]:
        """Returns [below so many microseconds, turns] of each class that has any, shortest first."""
        return [[1 << n, count] for n, count in enumerate(self._counts) if count]
