"""The timer of turns, on a loop whose clock a test advances."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from qmgrd.process.turn_timer import TurnTimer


class TimerLoop(asyncio.SelectorEventLoop):
    """A loop that only counts its timers, and calls them when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.set_count = 0
        self.rings: list[tuple[float, asyncio.TimerHandle]] = []

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[[], None]
    ) -> asyncio.TimerHandle:
        self.set_count += 1
        handle = asyncio.TimerHandle(delay, callback, (), self)
        self.rings.append((delay, handle))
        return handle

    def waits_s(self) -> list[float]:
        """Returns the waits of the timers that are set."""
        return [delay for delay, handle in self.rings if not handle.cancelled()]

    def ring(self) -> None:
        """Rings the one timer that is set."""
        (handle,) = [handle for _, handle in self.rings if not handle.cancelled()]
        self.rings.clear()
        handle._run()


class Work:
    """The next work of a core, and the turns that were started."""

    def __init__(self) -> None:
        self.due_ms: int | None = None
        self.now_ms = 1_000
        self.turns = 0
        self.timer = TurnTimer(lambda: self.due_ms, lambda: self.now_ms, self._turn)

    def _turn(self) -> None:
        self.turns += 1

    def is_due(self, due_ms: int | None) -> None:
        """Ends a turn, after which work is due at *due_ms*."""
        self.due_ms = due_ms
        self.timer.set()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[TimerLoop]:
    made = TimerLoop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: made)
    yield made
    made.close()


def test_no_work_sets_no_timer(loop: TimerLoop) -> None:
    Work().is_due(None)
    assert loop.waits_s() == []


def test_timer_starts_a_turn_when_work_is_due(loop: TimerLoop) -> None:
    work = Work()
    work.is_due(1_500)
    assert loop.waits_s() == [0.5]
    work.now_ms = 1_500
    loop.ring()
    assert (work.turns, loop.waits_s()) == (1, [])


def test_overdue_work_waits_for_nothing(loop: TimerLoop) -> None:
    Work().is_due(1)
    assert loop.waits_s() == [0]


def test_earlier_work_replaces_the_timer(loop: TimerLoop) -> None:
    work = Work()
    work.is_due(1_500)
    work.is_due(1_200)
    assert loop.waits_s() == [0.2]


def test_work_that_is_not_earlier_keeps_the_timer(loop: TimerLoop) -> None:
    work = Work()
    for due_ms in (1_500, 1_500, 1_700, None, 1_600):
        work.is_due(due_ms)
    assert (loop.set_count, loop.waits_s()) == (1, [0.5])


@pytest.mark.parametrize(("due_ms", "waits_s"), [(1_700, [0.2]), (None, [])])
def test_early_ring_starts_no_turn(
    loop: TimerLoop, due_ms: int | None, waits_s: list[float]
) -> None:
    work = Work()
    work.is_due(1_500)
    work.is_due(due_ms)
    work.now_ms = 1_500
    loop.ring()
    assert (work.turns, loop.waits_s()) == (0, waits_s)


def test_timer_that_has_rung_is_set_again(loop: TimerLoop) -> None:
    work = Work()
    work.is_due(1_500)
    work.now_ms = 1_500
    loop.ring()
    work.is_due(1_500)  # The turn had no time for all work.
    assert loop.waits_s() == [0]


def test_cancelled_timer_is_set_again_for_later_work(loop: TimerLoop) -> None:
    work = Work()
    work.is_due(1_500)
    work.timer.cancel()
    assert loop.waits_s() == []
    work.is_due(1_800)
    assert loop.waits_s() == [0.8]
