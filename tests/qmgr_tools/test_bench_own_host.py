from pathlib import Path

import pytest
from qmgr_tools.bench_load import Latency, Outcome

from qmgr_protocol import messages as m
from qmgr_tools.bench_own_host import (
    FILL_SLICE,
    INFLIGHT,
    Host,
    LoadFailed,
    Memory,
    Pulse,
    fill,
    get,
    put,
)

STATUS = "Name:\tqmgrd\nVmRSS:\t 51300 kB\nRssAnon:\t 30000 kB\nRssFile:\t 21000 kB\nThreads:\t1\n"


def test_memory_is_told_apart_from_mapped_files() -> None:
    assert Memory.of(STATUS) == Memory(30_000 * 1024, 21_000 * 1024)


def outcome(messages: int, put_ms: list[int], ack_ms: list[int]) -> Outcome:
    put, ack = (Latency([(ms * 1_000_000, 1) for ms in times]) for times in (put_ms, ack_ms))
    return Outcome(messages, 2.0, 0.5, put, ack, Latency())


def test_pulse_is_the_rate_and_the_shares() -> None:
    pulse = Pulse.of(outcome(1_000, [*range(1, 1_001)], []), cpu_s=0.01)
    assert pulse == Pulse(1_000, 500, 500, 990, 999, 10, 500, 0.25)


def test_pulse_of_gets_has_the_times_of_acks() -> None:
    assert Pulse.of(outcome(2, [], [3, 5]), cpu_s=0).p99_ms == 5


def test_nothing_done_is_no_pulse() -> None:
    with pytest.raises(LoadFailed, match="give more SECONDS"):
        Pulse.of(outcome(0, [], []), cpu_s=0)


@pytest.mark.process
def test_backlog_survives_a_stop_and_a_kill(tmp_path: Path) -> None:
    words: list[str] = []
    with Host(tmp_path / "host") as host:
        host.ask(m.QueueCreate, "Q")
        fill(host, "Q", FILL_SLICE // 100, words.append)
        assert words[-1].startswith("BENCH: filling Q: 1,000 of 1,000, ")
        host.stop()
        host.forget_pages()
        assert host.start("Q") > 0
        host.kill()
        host.start("Q")
        assert host.depth("Q") == 1_000
        assert host.memory().anonymous_bytes > 1 << 20
        assert host.data_bytes() >= 256 * 1_000
        before_ns = host.cpu_ns()
        assert get(host, "Q", 1_000).messages == 1_000
        assert host.depth("Q") == 0
        assert put(host, "Q", 0.1).messages >= INFLIGHT
        assert before_ns < host.cpu_ns()


@pytest.mark.process
def test_host_that_cannot_start_says_where_its_log_is(tmp_path: Path) -> None:
    host = Host(tmp_path, "no name")
    with pytest.raises(LoadFailed, match=r"no name ended, see .*/log"):
        host.__enter__()
    assert "is not a name" in (tmp_path / "log").read_text()
    host.stop()  # Nothing is left to stop.
