"""Durations of turns, from their begin until their outcomes are sent.

On a fast disk, a turn blocks all other work, so its duration is the longest time that others wait.
On a slow disk, later turns may begin before it ends.

Turns are counted in power-of-two classes. Class ``n`` contains turns that took from 2**(n-1) up to
2**n microseconds. Adding a turn costs a shift and two additions.
"""

from collections import deque

CLASSES = 40  # number of classes; the last one begins at three days


class TurnTimes:
    """The durations of turns since the start, and the longest turn since it was last read."""

    __slots__ = ("_begun_ns", "_counts", "_longest_us")

    def __init__(self) -> None:
        self._counts = [0] * CLASSES
        self._longest_us = 0
        self._begun_ns: deque[int] = deque()  # begins of the turns that have not ended

    def begin(self, now_ns: int) -> None:
        """Adds a turn that begins at *now_ns*."""
        self._begun_ns.append(now_ns)

    def end(self, now_ns: int) -> None:
        """Ends the first turn that has not ended."""
        self.add(now_ns - self._begun_ns.popleft())

    def forget(self) -> None:
        """Forgets the turns that have not ended, because they failed."""
        self._begun_ns.clear()

    def add(self, turn_ns: int) -> None:
        """Adds a turn that took *turn_ns*."""
        turn_us = turn_ns // 1000
        self._counts[min(turn_us.bit_length(), CLASSES - 1)] += 1
        if turn_us > self._longest_us:
            self._longest_us = turn_us

    def take_longest_us(self) -> int:
        """Returns the duration of the longest turn since the last call, and resets it."""
        longest_us, self._longest_us = self._longest_us, 0
        return longest_us

    def histogram(self) -> list[list[int]]:
        """Returns [upper bound in microseconds, turns] of each class that is not empty, in
        order.
        """
        return [[1 << n, count] for n, count in enumerate(self._counts) if count]
