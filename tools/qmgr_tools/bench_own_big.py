"""BIG: what large messages of one connection cost everybody else.

Twenty connections put small messages at an even pace, answered or not; another one puts a large
message for each ninety-nine small ones. The pace is kept, so a daemon that is held up finds what
came meanwhile, as in life, and does not slow its own load down.
"""

import select
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from qmgr_protocol import messages as m
from qmgr_tools.bench_load import READ_BYTES, Latency
from qmgr_tools.bench_own_host import (
    SIZE_BYTES,
    Host,
    LoadFailed,
    QmgrSender,
    Wire,
    bodies,
    records,
)
from qmgr_tools.bench_own_result import Setting, Target, at_most, median, median_ratio

KIB = 1024
RECORD_HEAD_BYTES = 512  # kept free, so that a record of 4 MiB is not above the daemon's limit
SIZES = (64 * KIB, 1024 * KIB, 4096 * KIB)
CONNECTIONS = 20
RATE_PER_S = 1_000  # small messages, of all connections together
SMALL_TO_A_BIG = 99
BIG_BYTES_IN_FLIGHT_MAX = 12 << 20  # within the 16 MiB that a daemon grants
SILENCE_MAX_S = 20.0
TURN_MAX_MS = 50
QUEUE = "MIXED"
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BigOf:
    """BIG with large messages of one size."""

    size_bytes: int
    bigs: int  # put in all rounds
    turn_longest_ms: float  # of all rounds
    p99_ms: float  # of everybody else
    p99_ratio: float  # to that without large messages
    turns_below_us: list[list[int]]  # [below so many us, turns] of the last round


@dataclass(frozen=True, slots=True)
class Bigs:
    """BIG."""

    p99_ms_without: float
    series: list[BigOf]

    def targets(self) -> list[Target]:
        """Return what it was to reach."""
        found = []
        for big in self.series:
            name = f"with messages of {big.size_bytes // KIB:,} KiB"
            found += [
                at_most(f"longest turn {name}", big.turn_longest_ms, TURN_MAX_MS, "ms"),
                at_most(f"everybody else's p99 {name}, to that without", big.p99_ratio, 2.0),
            ]
        return found


def big(setting: Setting) -> Bigs:
    """Measure with large messages of each size, and without, in turns."""
    kinds = (0, *SIZES)
    runs: dict[int, list[Mixed]] = {size_bytes: [] for size_bytes in kinds}
    with Host(setting.directory / "big") as host:
        host.ask(m.QueueCreate, QUEUE)
        for number in range(setting.rounds):
            for size_bytes in kinds if number % 2 else reversed(kinds):
                words = f"{size_bytes // KIB:,} KiB" if size_bytes else "none"
                setting.say(f"BIG: round {number + 1} of {setting.rounds}, large ones: {words}")
                runs[size_bytes].append(mixed(host, size_bytes, setting.seconds))
                host.ask(m.QueuePurge, QUEUE)
    without = [run.p99_ms for run in runs[0]]
    series = [
        BigOf(
            size_bytes, sum(run.bigs for run in found),
            max(run.turn_longest_ms for run in found), median([run.p99_ms for run in found]),
            median_ratio([run.p99_ms for run in found], without), found[-1].turns_below_us,
        )
        for size_bytes, found in runs.items() if size_bytes
    ]  # fmt: skip
    return Bigs(median(without), series)


@dataclass(frozen=True, slots=True)
class Mixed:
    """One measurement."""

    smalls: int
    bigs: int
    p99_ms: float
    turn_longest_ms: float
    turns_below_us: list[list[int]]


def mixed(host: Host, big_bytes: int, seconds: float) -> Mixed:
    """Put small messages for so many *seconds*, with large ones among them unless they are of 0."""
    pool = records(bodies(SIZE_BYTES, vary=True))
    with ExitStack() as stack:
        smalls = [
            Line(stack.enter_context(Wire(host.address, f"bench.small.{number}")), pool)
            for number in range(CONNECTIONS)
        ]
        big_line = None
        if big_bytes:
            wire = stack.enter_context(Wire(host.address, "bench.big"))
            big_line = Line(wire, records(bodies(big_bytes - RECORD_HEAD_BYTES, vary=True)))
        before = host.ask(m.Status)
        Pace(smalls, big_line, big_bytes).run(seconds)
        after = host.ask(m.Status)
    latency = Latency([sample for line in smalls for sample in line.samples])
    p99_ms = latency.percentile_ms(99)
    if p99_ms is None:
        raise LoadFailed("no message was put in the time there was: give more SECONDS")
    return Mixed(
        len(latency.samples), len(big_line.samples) if big_line else 0, p99_ms,
        after["turn_longest_us"] / 1000,
        turns_between(before["turn_times_us"], after["turn_times_us"]),
    )  # fmt: skip


def turns_between(
    before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return the turns of each class that came between two answers of a daemon."""
    known = {pair[0]: pair[1] for pair in before}
    found = [[below_us, turns - known.get(below_us, 0)] for below_us, turns in after]
    return [pair for pair in found if pair[1]]


class Line:
    """A producer whose bytes leave as the socket takes them. Answers come in order."""

    def __init__(self, wire: Wire, pool: Sequence[bytes]) -> None:
        self._sender = QmgrSender(wire, QUEUE, pool, coalesce=True)
        self.sock = wire.sock
        self.sock.setblocking(False)
        self.waiting: deque[int] = deque()  # when each unanswered put was sent, in ns
        self.samples: list[tuple[int, int]] = []
        self.unsent = memoryview(b"")

    def put(self, now_ns: int) -> None:
        """Put a message."""
        self.waiting.append(now_ns)
        self.unsent = memoryview(bytes(self.unsent) + self._sender.put(1))
        self.write()

    def write(self) -> None:
        """Send what the socket takes."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            pass

    def read(self) -> None:
        """Take what is answered."""
        data = self.sock.recv(READ_BYTES)
        if not data:
            raise LoadFailed("the daemon closed the connection")
        now_ns = time.monotonic_ns()
        for _ in range(self._sender.take(data)):
            self.samples.append((now_ns - self.waiting.popleft(), 1))


class Pace:
    """One run: small messages when they are due, in rotation, and large ones among them."""

    def __init__(self, smalls: Sequence[Line], big_line: Line | None, big_bytes: int) -> None:
        self._smalls = smalls
        self._big = big_line
        self._bigs_in_flight_max = BIG_BYTES_IN_FLIGHT_MAX // big_bytes if big_bytes else 0
        self._bigs_due = 0
        self._lines = {line.sock.fileno(): line for line in smalls}
        if big_line is not None:
            self._lines[big_line.sock.fileno()] = big_line

    def run(self, seconds: float) -> None:
        """Put for so many *seconds*, then wait for all answers.

        Raises:
            LoadFailed: the daemon refused, hung up or fell silent.
        """
        poll = select.epoll()
        for number in self._lines:
            poll.register(number, select.EPOLLIN)
        try:
            self._loop(poll, seconds)
        except OSError as error:
            raise LoadFailed(f"the connection broke: {error}") from error
        finally:
            poll.close()

    def _loop(self, poll: select.epoll, seconds: float) -> None:
        start_ns = heard_ns = time.monotonic_ns()
        due, due_max = 0, int(seconds * RATE_PER_S)
        while True:
            now_ns = time.monotonic_ns()
            while due < due_max and start_ns + due * NS_PER_S // RATE_PER_S <= now_ns:
                self._smalls[due % len(self._smalls)].put(time.monotonic_ns())
                due += 1
                self._bigs_due += self._big is not None and due % SMALL_TO_A_BIG == 0
            self._put_bigs(poll)
            if due == due_max and not any(line.waiting for line in self._lines.values()):
                return
            if now_ns - heard_ns > SILENCE_MAX_S * NS_PER_S:
                raise LoadFailed(f"the daemon said nothing for {SILENCE_MAX_S:.0f} s")
            wait_ns = start_ns + due * NS_PER_S // RATE_PER_S - now_ns
            wait_s = max(wait_ns / NS_PER_S, 0) if due < due_max else SILENCE_MAX_S
            for number, events in poll.poll(wait_s):
                if events & select.EPOLLOUT:
                    self._lines[number].write()
                if events & ~select.EPOLLOUT:
                    self._lines[number].read()
                    heard_ns = time.monotonic_ns()

    def _put_bigs(self, poll: select.epoll) -> None:
        line = self._big
        if line is None:
            return
        while self._bigs_due and not line.unsent and len(line.waiting) < self._bigs_in_flight_max:
            self._bigs_due -= 1
            line.put(time.monotonic_ns())
        poll.modify(line.sock, select.EPOLLIN | (select.EPOLLOUT if line.unsent else 0))
