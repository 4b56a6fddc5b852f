"""One direction of a connection that a proxy passes on: what is read waits here to be written.

    source ──read──▶ held: (when it came, bytes), ... ──when due, as the rate allows──▶ sink

Each chunk has its own due time, so a delay costs no throughput. Where there is nothing to wait for
a chunk is written as it comes, and nothing is held. The source is read as long as there is room.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

HELD_MAX_BYTES = 16 * 1024 * 1024  # over a delay d not more than this passes in d
HELD_MIN_BYTES = 64 * 1024
WRITE_HIGH_BYTES = 1024 * 1024
WRITE_LOW_BYTES = 256 * 1024
TICK_S = 0.01  # A limited rate is passed in slices of so long.
BURST_S = 0.05  # What a late timer has missed is made up for, to this extent.


@dataclass(frozen=True, slots=True)
class Shape:
    """How a direction passes bytes: each *delay_ms* late, at most *bytes_per_s* (0: any).

    The delay is right to a millisecond, as the clocks of event loops are.
    """

    delay_ms: int = 0
    bytes_per_s: int = 0

    def __post_init__(self) -> None:
        if self.delay_ms < 0 or self.bytes_per_s < 0:
            raise ValueError(f"{self}: neither may be negative")


class Pipe:
    """One direction. It is given its source and its sink as these are connected.

    Invariant: the source is read only while nothing is stalled, the sink takes more, and less is
    held than there is room for; so at most one read more than that is held.
    """

    def __init__(self, shape: Shape, on_end: Callable[[], None]) -> None:
        """Passes nothing yet.

        Args:
            on_end: called once, when all that will ever pass has been written: the source said
                that it ends, or is gone, or the cut was reached.
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

    # What is told from outside

    def shape(self, shape: Shape) -> None:
        """Passes bytes so from now on, those that are held already as well."""
        self._shape = shape
        self._free_at = 0.0
        self._pump()

    def stall(self) -> None:
        """Passes nothing and read nothing, until resumed."""
        self.is_stalled = True
        self._pump()

    def resume(self) -> None:
        """Passes what is held, and read again."""
        self.is_stalled = False
        self._pump()

    def cut_after(self, count: int) -> None:
        """Ends once *count* bytes more have passed; what is behind them never does."""
        self._left_bytes = count
        self._pump()

    # What the ends tell

    def read_from(self, source: asyncio.Transport) -> None:
        """Have *source* read as there is room."""
        self._source = source
        # A transport that is being made would be read all the same.
        self._loop.call_soon(self._look)

    def write_to(self, sink: asyncio.Transport) -> None:
        """Begins to pass what is held, to *sink*."""
        self._sink = sink
        self._pump()

    def take(self, data: bytes) -> None:
        """Passes *data*, now or in its time."""
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
        """Takes note that the source sends no more: the pipe ends once what is held has passed."""
        self._is_ending = True
        self._pump()

    def sink_full(self, is_full: bool) -> None:
        """Takes note of whether the sink has enough to write for now."""
        self._is_sink_full = is_full
        self._pump()

    def sink_gone(self) -> None:
        """Throws away what is held, and what is still to come."""
        self._is_sink_gone = True
        self._drop()
        self._pump()

    # The work

    @property
    def _is_clear(self) -> bool:
        return (
            not (self._shape.delay_ms or self._shape.bytes_per_s or self._is_sink_full)
            and not self.is_stalled
            and self._left_bytes is None
        )

    def _room(self) -> int:
        """Returns how much may be held; little, where a rate makes it wait for long."""
        if not self._shape.bytes_per_s:
            return HELD_MAX_BYTES
        in_transit = self._shape.bytes_per_s * (self._shape.delay_ms / 1000 + BURST_S)
        return min(max(int(in_transit), HELD_MIN_BYTES), HELD_MAX_BYTES)

    def _drop(self) -> None:
        self._held.clear()
        self.held_bytes = 0

    def _pump(self) -> None:
        """Writes what is due, sets the timer for what is not, and see whether to read on."""
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
        """Writes the first of what is held, as much of it as the rate and the cut allow."""
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
        """Reads or pause, as there is room."""
        if self._source is None or self._source.is_closing():
            return
        has_room = self.held_bytes < self._room() and not self._is_sink_full and bool(self._sink)
        wanted = not self.is_stalled and (has_room or self._is_sink_gone or self.is_cut)
        if wanted is not self.is_reading:
            self.is_reading = wanted
            (self._source.resume_reading if wanted else self._source.pause_reading)()
