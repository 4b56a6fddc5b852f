import pytest

from qmgr_bench.figures import Figures
from qmgr_bench.load import Latency, LoadFailed, Outcome


def outcome(messages: int, put_ms: list[int], ack_ms: list[int]) -> Outcome:
    put, ack = Latency(), Latency()
    for latency, times in ((put, put_ms), (ack, ack_ms)):
        for ms in times:
            latency.add(ms * 1_000_000)
    return Outcome(messages, 2.0, 0.5, put, ack, Latency(), is_cut=False)


def test_figures_are_the_rate_and_the_shares() -> None:
    pulse = Figures.of(outcome(1_000, [*range(1, 1_001)], []), cpu_s=0.01)
    p50_ms, p99_ms, p999_ms = times = (pulse.p50_ms, pulse.p99_ms, pulse.p999_ms)
    assert times == pytest.approx((500, 990, 999), rel=0.01)
    assert pulse == Figures(1_000, 500, p50_ms, p99_ms, p999_ms, 10, 500, 0.25, is_cut=False)


def test_figures_of_gets_have_the_times_of_acks() -> None:
    assert Figures.of(outcome(2, [], [3, 5]), cpu_s=0).p99_ms == pytest.approx(5, rel=0.01)


def test_nothing_done_has_no_figures() -> None:
    with pytest.raises(LoadFailed, match="increase SECONDS"):
        Figures.of(outcome(0, [], []), cpu_s=0)
