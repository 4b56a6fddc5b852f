"""One direction of a proxied connection: bytes that were read wait here to be written.

    source ──read──▶ held: (arrival, bytes), ... ──when due, as the rate allows──▶ sink

Each chunk has its own due time, so a delay costs no throughput. Without a delay, chunks are written
at once and nothing is held. The source is read as long as there is room.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

HELD_MAX_BYTES = 16 * 1024 * 1024  # With a delay d, at most this much passes in d.
HELD_MIN_BYTES = 64 * 1024
WRITE_HIGH_BYTES = 1024 * 1024
WRITE_LOW_BYTES = 256 * 1024
TICK_S = 0.01  # the slice of a limited rate
BURST_S = 0.05  # the most that a late timer may catch up


@dataclass(frozen=True, slots=True)
class Shape:
    """How a direction passes bytes: *delay_ms* late, at most *bytes_per_s* (0: no limit).

    The delay is accurate to a millisecond, like the clocks of event loops.
    """

    delay_ms: int = 0
    bytes_per_s: int = 0

    def __post_init__(self) -> None:
        if self.delay_ms < 0 or self.bytes_per_s < 0:
            raise ValueError(f"{self}: neither may be negative")


class Pipe:
    """One direction. Its source and sink are set when they are connected.

    Invariant: the source is read only while the pipe is not stalled, the sink accepts bytes, and
    there is room; so the pipe holds at most one read more than its room.
    """

    def __init__(self, shape: Shape, on_end: Callable[[], None]) -> None:
        """Create a pipe that passes nothing yet.

        Args:
            on_end: called once, after the last byte was written: the source ended or closed, or
                the cut was reached.
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
        self._left_bytes: int | None = None  # until the cut
        self._is_ending = False
        self._is_sink_full = self._is_sink_gone = False
        self.is_reading = True
        self._free_at = 0.0  # when the rate allows for more
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    # Commands

    def shape(self, shape: Shape) -> None:
        """Change the shape, also for bytes that are already held."""
        self._shape = shape
        self._free_at = 0.0
        self._pump()

    def stall(self) -> None:
        """Pass nothing and read nothing, until resumed."""
        self.is_stalled = True
        self._pump()

    def resume(self) -> None:
        """Pass held bytes, and read again."""
        self.is_stalled = False
        self._pump()

    def cut_after(self, count: int) -> None:
        """End after *count* more bytes; later bytes are discarded."""
        self._left_bytes = count
        self._pump()

    # Events of the sockets

    def read_from(self, source: asyncio.Transport) -> None:
        """Read from *source* as long as there is room."""
        self._source = source
        # asyncio starts reading after connection_made, so pause later.
        self._loop.call_soon(self._look)

    def write_to(self, sink: asyncio.Transport) -> None:
        """Begin to pass held bytes to *sink*."""
        self._sink = sink
        self._pump()

    def take(self, data: bytes) -> None:
        """Pass *data*, now or when it is due."""
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
        """Receive the end of the source: the pipe ends once all held bytes have passed."""
        self._is_ending = True
        self._pump()

    def sink_full(self, is_full: bool) -> None:
        """Set whether the sink's buffer is full."""
        self._is_sink_full = is_full
        self._pump()

    def sink_gone(self) -> None:
        """Discard all held and later bytes."""
        self._is_sink_gone = True
        self._drop()
        self._pump()

    # Work

    @property
    def _is_clear(self) -> bool:
        return (
            not (self._shape.delay_ms or self._shape.bytes_per_s or self._is_sink_full)
            and not self.is_stalled
            and self._left_bytes is None
        )

    def _room(self) -> int:
        """Return how many bytes may be held; few, if a low rate makes them wait long."""
        if not self._shape.bytes_per_s:
            return HELD_MAX_BYTES
        in_transit = self._shape.bytes_per_s * (self._shape.delay_ms / 1000 + BURST_S)
        return min(max(int(in_transit), HELD_MIN_BYTES), HELD_MAX_BYTES)

    def _drop(self) -> None:
        self._held.clear()
        self.held_bytes = 0

    def _pump(self) -> None:
        """Write due bytes, set the timer for the next ones, and read or pause."""
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
        """Write the first held chunk, as far as the rate and the cut allow."""
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
        """Read or pause, depending on the room."""
        if self._source is None or self._source.is_closing():
            return
        has_room = self.held_bytes < self._room() and not self._is_sink_full and bool(self._sink)
        wanted = not self.is_stalled and (has_room or self._is_sink_gone or self.is_cut)
        if wanted is not self.is_reading:
            self.is_reading = wanted
            (self._source.resume_reading if wanted else self._source.pause_reading)()
