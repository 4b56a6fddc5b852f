"""One direction of a proxied connection, which holds read data until it is written.

    source ──read──▶ held: (arrival time, bytes), ... ──when due, as the rate allows──▶ sink

Each chunk has its own due time, so a delay does not reduce throughput. Without a delay or limit,
each chunk is written when it arrives, and no data is held. The pipe reads the source while it has
room.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

HELD_MAX_BYTES = 16 * 1024 * 1024  # also the maximum that can pass within one delay
HELD_MIN_BYTES = 64 * 1024
WRITE_HIGH_BYTES = 1024 * 1024
WRITE_LOW_BYTES = 256 * 1024
TICK_S = 0.01  # length of the time slices of a limited rate
BURST_S = 0.05  # maximum lateness of a timer that a burst makes up for


@dataclass(frozen=True, slots=True)
class Shape:
    """The delay of one direction, and its limit in bytes per second (0: no limit).

    The delay is accurate to a millisecond, like the clocks of event loops.
    """

    delay_ms: int = 0
    bytes_per_s: int = 0

    def __post_init__(self) -> None:
        if self.delay_ms < 0 or self.bytes_per_s < 0:
            raise ValueError(f"{self}: delay and rate must not be negative")


class Pipe:
    """One direction of a connection. Source and sink are set when they are connected.

    Invariant: the source is read only if the pipe is not stalled, the sink is ready, and the pipe
    has room. Therefore at most one read exceeds the room.
    """

    def __init__(self, shape: Shape, on_end: Callable[[], None]) -> None:
        """Creates a pipe that does not pass data yet.

        Args:
            on_end: A function that is called once, after the last byte is written. The last byte
                is the one before the source's end or before the cut.
        """
        self.passed_bytes = 0
        self.held_bytes = 0
        self.is_stalled = False
        self.is_cut = False
        self.has_ended = False
        self._shape = shape
        self._source: asyncio.Transport | None = None
        self._sink: asyncio.Transport | None = None
        self._on_end = on_end
        self._held: deque[tuple[float, memoryview]] = deque()
        self._left_bytes: int | None = None  # number of bytes that may still pass before the cut
        self._is_ending = False
        self._is_sink_full = self._is_sink_gone = False
        self.is_reading = True
        self._free_at = 0.0  # loop time from which the rate limit allows more bytes
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    # Called from outside

    def shape(self, shape: Shape) -> None:
        """Changes the shape, including that of held bytes."""
        self._shape = shape
        self._free_at = 0.0
        self._pump()

    def stall(self) -> None:
        """Stops passing and reading until resumed."""
        self.is_stalled = True
        self._pump()

    def resume(self) -> None:
        """Passes held data, and reads again."""
        self.is_stalled = False
        self._pump()

    def cut_after(self, count: int) -> None:
        """Ends after *count* more bytes, and drops later bytes."""
        self._left_bytes = count
        self._pump()

    # Called by the ends

    def read_from(self, source: asyncio.Transport) -> None:
        """Reads *source* while the pipe has room."""
        self._source = source
        # A new transport starts to read after this call, so the check must come later.
        self._loop.call_soon(self._look)

    def write_to(self, sink: asyncio.Transport) -> None:
        """Begins to pass held data to *sink*."""
        self._sink = sink
        self._pump()

    def take(self, data: bytes) -> None:
        """Passes *data* now or at its due time."""
        if self._is_sink_gone or self.is_cut:
            return
        if self._sink is not None and self._is_clear and not self._held:
            self.passed_bytes += len(data)
            self._sink.write(data)  # This may call sink_full.
            return
        self._held.append((self._loop.time(), memoryview(data)))
        self.held_bytes += len(data)
        self._pump()

    def end(self) -> None:
        """Records the source's end. The pipe ends after all held data has passed."""
        self._is_ending = True
        self._pump()

    def sink_full(self, is_full: bool) -> None:
        """Records whether the sink's write buffer is full."""
        self._is_sink_full = is_full
        self._pump()

    def sink_gone(self) -> None:
        """Drops held data and all later data."""
        self._is_sink_gone = True
        self._drop()
        self._pump()

    # Internals

    @property
    def _is_clear(self) -> bool:
        return (
            not (self._shape.delay_ms or self._shape.bytes_per_s or self._is_sink_full)
            and not self.is_stalled
            and self._left_bytes is None
        )

    def _room(self) -> int:
        """Returns the number of bytes that may be held. A limited rate reduces this number."""
        if not self._shape.bytes_per_s:
            return HELD_MAX_BYTES
        in_transit = self._shape.bytes_per_s * (self._shape.delay_ms / 1000 + BURST_S)
        return min(max(int(in_transit), HELD_MIN_BYTES), HELD_MAX_BYTES)

    def _drop(self) -> None:
        self._held.clear()
        self.held_bytes = 0

    def _pump(self) -> None:
        """Writes due data, sets the timer for the rest, and reads or pauses the source."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._held and not self.is_stalled and not self._is_sink_full and self._sink:
            now = self._loop.time()
            due = max(self._held[0][0] + self._shape.delay_ms / 1000, self._free_at)
            if due > now:
                self._timer = self._loop.call_at(due, self._pump)
                break
            self._pass(now)
        if self._left_bytes == 0 and not self.is_stalled:
            self.is_cut = True
            self._drop()
        is_over = self.is_cut or (self._is_ending and not self._held and not self.is_stalled)
        if is_over and not self.has_ended:
            self.has_ended = True
            self._on_end()
        self._look()

    def _pass(self, now: float) -> None:
        """Writes as many of the oldest held bytes as the rate limit and the cut allow."""
        assert self._sink is not None
        came, piece = self._held.popleft()
        size, rate = len(piece), self._shape.bytes_per_s
        if rate:
            size = min(size, max(int(rate * TICK_S), 1))
        if self._left_bytes is not None:
            size = min(size, self._left_bytes)
            self._left_bytes -= size
        if size < len(piece):
            self._held.appendleft((came, piece[size:]))
        if rate:
            self._free_at = max(self._free_at, now - BURST_S) + size / rate
        self.held_bytes -= size
        self.passed_bytes += size
        if self._left_bytes == 0:
            self._drop()
        self._sink.write(piece[:size])  # This may call sink_full.

    def _look(self) -> None:
        """Reads or pauses the source, depending on the room."""
        if self._source is None or self._source.is_closing():
            return
        has_room = self.held_bytes < self._room() and not self._is_sink_full and bool(self._sink)
        wanted = not self.is_stalled and (has_room or self._is_sink_gone or self.is_cut)
        if wanted is not self.is_reading:
            self.is_reading = wanted
            (self._source.resume_reading if wanted else self._source.pause_reading)()
