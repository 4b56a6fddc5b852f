"""Calls that the core makes when the store clock reaches a time."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from qmgrd.core.limits.budget import ENDLESS, Budget


class Timer:
    """A timer. Its call is None once the call has been made or cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call


class Timers:
    """The timers of the core. Each call checks first whether it is still needed.

    Invariant: ``_cancelled`` is the number of timers in the heap without a call. If this number
    exceeds half of the heap by more than 64, a cancel rebuilds the heap.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._cancelled = 0

    def at(self, due_ms: int, call: Callable[[], None]) -> Timer:
        """Schedules *call* for the first turn at or after *due_ms*."""
        self._count += 1
        timer = Timer(call)
        heappush(self._heap, (due_ms, self._count, timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Cancels the call of *timer*."""
        if timer.call is None:
            return
        timer.call = None
        self._cancelled += 1
        if self._cancelled > 64 + len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_ms(self) -> int | None:
        """Returns the time of the next call, or None."""
        while self._heap and self._heap[0][2].call is None:
            heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def ring(
        self,
        now_ms: int,
        count: int,
        budget: Budget = ENDLESS,
        begin: Callable[[str, str], bool] = lambda kind, key: True,
    ) -> None:
        """Makes up to *count* due calls, but at least one.

        Two kinds of calls wait for the next turn: calls whose timers were set by one of these
        calls, and calls for which *budget* has no time.

        Args:
            now_ms: The time of the store clock.
            count: The maximum number of calls.
            budget: The time budget of the turn.
            begin: A function that names the work of a call and returns whether the call may be
                made.
        """
        if not self._heap or self._heap[0][0] > now_ms:
            return
        due: list[tuple[tuple[int, int, Timer], Callable[[], None]]] = []
        while len(due) < count and (due_ms := self.next_ms()) is not None and due_ms <= now_ms:
            entry = heappop(self._heap)
            assert entry[2].call is not None
            due.append((entry, entry[2].call))
            entry[2].call = None
        for at, (_, call) in enumerate(due):
            if at and budget.is_over:
                self._set_again(due[at:])
                return
            if begin("timer", getattr(call, "__qualname__", "")):
                call()

    def _set_again(self, due: list[tuple[tuple[int, int, Timer], Callable[[], None]]]) -> None:
        for entry, call in due:
            entry[2].call = call
            heappush(self._heap, entry)


def earliest_ms(*times_ms: int | None) -> int | None:
    """Returns the earliest of *times_ms*, or None if all of them are None."""
    earliest: int | None = None
    for ms in times_ms:  # Faster than min() with a generator.
        if ms is not None and (earliest is None or ms < earliest):
            earliest = ms
    return earliest
