"""Tests of one direction of a proxied connection, between transports that only record calls."""

import asyncio
from typing import cast

import pytest

from qmgr_proxy.pipe import HELD_MAX_BYTES, Pipe, Shape

CLOCK_S = 0.001  # uvloop's clock counts milliseconds, and timers may fire slightly early.


class Recorder:
    """A fake transport that records the written data and whether reading is paused."""

    def __init__(self) -> None:
        self.written = b""
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return False


class Bench:
    """A pipe between two recorders."""

    def __init__(self, shape: Shape | None = None) -> None:
        self.source, self.sink = Recorder(), Recorder()
        self.ended = asyncio.Event()
        self.pipe = Pipe(shape or Shape(), self._on_end)
        self.pipe.read_from(cast(asyncio.Transport, self.source))
        self.pipe.write_to(cast(asyncio.Transport, self.sink))

    def _on_end(self) -> None:
        assert not self.ended.is_set()
        self.ended.set()


async def test_bytes_pass_at_once_and_nothing_is_held() -> None:
    bench = Bench()
    bench.pipe.take(b"one")
    bench.pipe.take(b"two")
    assert bench.sink.written == b"onetwo"
    assert bench.pipe.passed_bytes == 6
    assert bench.pipe.held_bytes == 0


async def test_source_is_not_read_before_there_is_a_sink() -> None:
    source = Recorder()
    pipe = Pipe(Shape(), lambda: None)
    pipe.read_from(cast(asyncio.Transport, source))
    await asyncio.sleep(0)
    assert not source.is_reading
    pipe.take(b"early")
    sink = Recorder()
    pipe.write_to(cast(asyncio.Transport, sink))
    assert sink.written == b"early"
    assert source.is_reading


async def test_delay_holds_each_chunk_for_its_own_time() -> None:
    bench, loop = Bench(Shape(delay_ms=100)), asyncio.get_running_loop()
    began = loop.time()
    for _ in range(100):
        bench.pipe.take(b"x" * 1_000)
    bench.pipe.end()
    assert bench.sink.written == b""
    await bench.ended.wait()
    assert len(bench.sink.written) == 100_000
    assert 0.1 - CLOCK_S <= loop.time() - began < 5  # If the delays added up, this would take 10 s.


async def test_delay_that_is_taken_away_holds_nothing_back() -> None:
    bench = Bench(Shape(delay_ms=3_600_000))
    bench.pipe.take(b"late")
    assert bench.sink.written == b""
    bench.pipe.shape(Shape())
    assert bench.sink.written == b"late"


async def test_rate_is_kept_to_and_used() -> None:
    bench, loop = Bench(Shape(bytes_per_s=1_000_000)), asyncio.get_running_loop()
    began = loop.time()
    bench.pipe.take(bytes(300_000))
    bench.pipe.end()
    await bench.ended.wait()
    assert len(bench.sink.written) == 300_000
    assert 0.2 - CLOCK_S <= loop.time() - began < 5


async def test_slowest_rate_passes_a_byte_at_a_time() -> None:
    bench = Bench(Shape(bytes_per_s=20))
    bench.pipe.take(b"abc")
    bench.pipe.end()
    await bench.ended.wait()
    assert bench.sink.written == b"abc"


async def test_little_is_held_where_the_rate_is_low() -> None:
    bench = Bench(Shape(bytes_per_s=1_000))
    bench.pipe.take(bytes(100_000))
    assert not bench.source.is_reading
    bench.pipe.shape(Shape())
    assert bench.source.is_reading


async def test_held_bytes_are_limited() -> None:
    bench = Bench(Shape(delay_ms=3_600_000))
    bench.pipe.take(bytes(HELD_MAX_BYTES - 1))
    assert bench.source.is_reading
    bench.pipe.take(b"x")
    assert not bench.source.is_reading


async def test_full_sink_pauses_the_source() -> None:
    bench = Bench()
    bench.pipe.sink_full(True)
    assert not bench.source.is_reading
    bench.pipe.take(b"read before")
    assert bench.sink.written == b""
    bench.pipe.sink_full(False)
    assert bench.sink.written == b"read before"
    assert bench.source.is_reading


async def test_stalled_pipe_neither_reads_nor_passes_nor_ends() -> None:
    bench = Bench()
    bench.pipe.stall()
    assert not bench.source.is_reading
    bench.pipe.take(b"waits")
    bench.pipe.end()
    assert bench.sink.written == b""
    assert not bench.ended.is_set()
    bench.pipe.resume()
    assert bench.sink.written == b"waits"
    assert bench.ended.is_set()


@pytest.mark.parametrize("count", range(8))
async def test_cut_is_at_any_byte(count: int) -> None:
    bench = Bench()
    bench.pipe.take(b"before ")
    bench.pipe.cut_after(count)
    for chunk in (b"abc", b"def", b"g"):
        bench.pipe.take(chunk)
    assert bench.sink.written == b"before " + b"abcdefg"[:count]
    assert bench.pipe.is_cut is (count < 8)
    assert bench.ended.is_set()
    assert bench.pipe.held_bytes == 0


async def test_cut_counts_what_is_held() -> None:
    bench = Bench()
    bench.pipe.stall()
    bench.pipe.take(b"abcdef")
    bench.pipe.cut_after(2)
    assert not bench.ended.is_set()
    bench.pipe.resume()
    assert bench.sink.written == b"ab"
    assert bench.ended.is_set()


async def test_pipe_without_a_sink_any_more_reads_to_the_end() -> None:
    bench = Bench()
    bench.pipe.stall()
    bench.pipe.take(b"lost")
    bench.pipe.sink_gone()
    assert bench.pipe.held_bytes == 0
    bench.pipe.resume()
    bench.pipe.take(b"lost as well")
    assert bench.source.is_reading
    assert bench.sink.written == b""
    bench.pipe.end()
    assert bench.ended.is_set()


@pytest.mark.parametrize("wrong", [{"delay_ms": -1}, {"bytes_per_s": -1}])
def test_shape_is_not_negative(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Shape(**wrong)
