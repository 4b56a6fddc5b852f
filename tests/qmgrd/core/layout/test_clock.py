"""Tests of the store's own clock."""

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.layout.clock import StoreClock
from qmgrd.core.layout.kv import Now

DAY_MS = 86_400_000
times = st.integers(0, 2**50)


def test_runs_with_the_monotonic_clock() -> None:
    clock = StoreClock(500, 0, DAY_MS, mono_ms=10_000, wall_us=77)
    assert clock.now(10_000, 77) == Now(500, 77)
    assert clock.now(10_250, 99) == Now(750, 99)


def test_start_adds_the_downtime() -> None:
    clock = StoreClock(500, 1_000_000, DAY_MS, mono_ms=0, wall_us=3_000_000)
    assert clock.now(0, 0).ms == 500 + 2_000


def test_downtime_is_limited() -> None:
    """If the wall clock jumps by ten years, no deadline moves by more than the limit."""
    clock = StoreClock(500, 1_000_000, DAY_MS, mono_ms=0, wall_us=10**16)
    assert clock.now(0, 0).ms == 500 + DAY_MS


def test_wall_clock_set_back_adds_nothing() -> None:
    assert StoreClock(500, 10**16, DAY_MS, 0, 1_000_000).now(0, 0).ms == 500


def test_new_store_starts_at_zero() -> None:
    assert StoreClock(0, 0, DAY_MS, 0, 10**16).now(0, 0).ms == 0


@given(times, times, times, times, st.lists(st.tuples(st.integers(0, 10**9), times)))
def test_never_goes_back(
    stored_ms: int, stored_us: int, mono_ms: int, wall_us: int, steps: list[tuple[int, int]]
) -> None:
    clock = StoreClock(stored_ms, stored_us, DAY_MS, mono_ms, wall_us)
    last = clock.now(mono_ms, wall_us).ms
    assert last >= stored_ms
    for elapsed_ms, wall_us in steps:
        mono_ms += elapsed_ms
        now = clock.now(mono_ms, wall_us)
        assert now == (last + elapsed_ms, wall_us)
        last = now.ms
