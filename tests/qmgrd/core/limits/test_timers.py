"""Tests of timers on the store clock: their order, their limit, and their cancellation."""

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.limits.timers import Timer, Timers, earliest_ms


def test_timers_ring_in_order_of_time_then_of_setting() -> None:
    timers, rung = Timers(), list[str]()
    for due_ms, name in [(20, "c"), (10, "a"), (10, "b"), (30, "d")]:
        timers.at(due_ms, lambda name=name: rung.append(name))  # type: ignore[misc]
    assert timers.next_ms() == 10
    timers.ring(9, 100)
    assert rung == []
    timers.ring(20, 100)
    assert rung == ["a", "b", "c"]
    assert timers.next_ms() == 30


def test_ring_is_bounded_and_the_rest_stays_due() -> None:
    timers, rung = Timers(), list[int]()
    for i in range(5):
        timers.at(i, lambda i=i: rung.append(i))  # type: ignore[misc]
    timers.ring(100, 3)
    assert rung == [0, 1, 2]
    assert timers.next_ms() == 3


def test_timer_set_while_ringing_waits_for_the_next_turn() -> None:
    timers, rung = Timers(), list[str]()

    def set_another() -> None:
        timers.at(1, lambda: rung.append("later"))

    timers.at(5, set_another)
    timers.ring(10, 100)
    assert rung == []
    assert timers.next_ms() == 1
    timers.ring(10, 100)
    assert rung == ["later"]
    assert timers.next_ms() is None


def test_cancelled_timer_does_not_ring() -> None:
    timers, rung = Timers(), list[str]()
    cancelled = timers.at(5, lambda: rung.append("cancelled"))
    timers.at(6, lambda: rung.append("kept"))
    timers.cancel(cancelled)
    timers.cancel(cancelled)
    assert timers.next_ms() == 6
    timers.ring(10, 1)
    assert rung == ["kept"]


def test_timer_may_be_cancelled_after_it_rang() -> None:
    timers = Timers()
    timer = timers.at(5, lambda: None)
    timers.ring(5, 1)
    timers.cancel(timer)
    assert timers.next_ms() is None
    assert timers._cancelled == 0


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=300))
def test_timers_keep_their_order_after_cancellations(plan: list[tuple[int, bool]]) -> None:
    timers, rung = Timers(), list[tuple[int, int]]()
    made: list[Timer] = []
    for number, (due_ms, _) in enumerate(plan):
        made.append(timers.at(due_ms, lambda x=(due_ms, number): rung.append(x)))  # type: ignore[misc]
    kept = []
    for number, (due_ms, keep) in enumerate(plan):
        if keep:
            kept.append((due_ms, number))
        else:
            timers.cancel(made[number])
    assert len(timers._heap) <= 64 + 2 * len(kept) + 1
    timers.ring(50, 1_000)
    assert rung == sorted(kept)
    assert timers._cancelled == len(timers._heap) == 0 or timers.next_ms() is None


@given(st.lists(st.none() | st.integers(0, 5), max_size=5))
def test_earliest_time_ignores_what_is_not_due(times_ms: list[int | None]) -> None:
    assert earliest_ms(*times_ms) == min((ms for ms in times_ms if ms is not None), default=None)
