"""BIG: what large messages of one connection cost everybody else.

Twenty connections put small messages at an even pace, answered or not; another one puts a large
message for each ninety-nine small ones, from a thread of its own. The pace is kept, so a daemon
that is held up finds what came meanwhile, as in life, and does not slow its own load down.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from qmgr_protocol import messages as m
from qmgr_tools.bench.host import Host
from qmgr_tools.bench.load import Load, Plan
from qmgr_tools.bench.median import median, median_ratio
from qmgr_tools.bench.own.traffic import FOREVER_S, sender_on
from qmgr_tools.bench.pulse import Pulse
from qmgr_tools.bench.qmgr import Wire
from qmgr_tools.bench.setting import Setting
from qmgr_tools.bench.target import Bars, Target, at_most

KIB = 1024
RECORD_HEAD_BYTES = 512  # kept free, so that a record of 4 MiB is not above the daemon's limit
SIZES = (64 * KIB, 1024 * KIB, 4096 * KIB)
CONNECTIONS = 20
RATE_PER_S = 1_000  # small messages, of all connections together
SMALL_TO_A_BIG = 99
SMALL_INFLIGHT = 1_000  # of a connection: more than come in any wait that is bearable
BIG_BYTES_IN_FLIGHT_MAX = 12 << 20  # within the 16 MiB that a daemon grants
TURN_MAX_MS = 50
QUEUE = "MIXED"


@dataclass(frozen=True, slots=True)
class BigOf:
    """BIG with large messages of one size; 0: without any."""

    size_bytes: int
    bigs: int  # put in all rounds
    turn_longest_ms: float  # of all rounds
    p50_ms: float  # of everybody else
    p99_ms: float
    p99_ratio: float  # to that without large messages
    turns_below_us: list[list[int]]  # [below so many us, turns] of the last round

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.size_bytes // KIB:,} KiB" if self.size_bytes else "none"


@dataclass(frozen=True, slots=True)
class Bigs:
    """BIG."""

    series: list[BigOf]

    def targets(self) -> list[Target]:
        """Return what it was to reach."""
        found = []
        for big in self.series:
            if big.size_bytes:
                turn, p99 = f"longest turn, {big.name}", f"p99 of the others, {big.name}, to none"
                found += [
                    at_most(turn, big.turn_longest_ms, TURN_MAX_MS, "ms"),
                    at_most(p99, big.p99_ratio, 2.0),
                ]
        return found

    def bars(self) -> tuple[str, Bars]:
        """Return what everybody else saw as bars."""
        unit = "ms until a small put is answered, p99, beside large ones of that size"
        return unit, [(big.name, big.p99_ms, bool(big.size_bytes)) for big in self.series]


def big(setting: Setting) -> Bigs:
    """Measure with large messages of each size, and without, in turns."""
    kinds = (0, *SIZES)
    runs: dict[int, list[Mixed]] = {size_bytes: [] for size_bytes in kinds}
    with Host(setting.directory / "big") as host:
        host.ask(m.QueueCreate, QUEUE)
        for number in range(setting.rounds):
            setting.say(f"BIG: round {number + 1} of {setting.rounds}")
            for size_bytes in kinds if number % 2 else reversed(kinds):
                os.sync()  # What was written before is not to be flushed in the run.
                runs[size_bytes].append(mixed(host, size_bytes, setting.seconds))
                host.ask(m.QueuePurge, QUEUE)
                host.wait_for_jobs()
    without = [run.p99_ms for run in runs[0]]
    return Bigs([
        BigOf(
            size_bytes, sum(run.bigs for run in found),
            max(run.turn_longest_ms for run in found), median([run.p50_ms for run in found]),
            median([run.p99_ms for run in found]),
            median_ratio([run.p99_ms for run in found], without), found[-1].turns_below_us,
        )
        for size_bytes, found in runs.items()
    ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mixed:
    """One measurement."""

    smalls: int
    bigs: int
    p50_ms: float
    p99_ms: float
    turn_longest_ms: float
    turns_below_us: list[list[int]]


def mixed(host: Host, big_bytes: int, seconds: float) -> Mixed:
    """Put small messages for so many *seconds*, with large ones among them unless they are of 0."""
    count = max(int(seconds * RATE_PER_S), 1)
    bigs = count // SMALL_TO_A_BIG if big_bytes else 0
    loads = []
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        smalls = [
            sender_on(stack.enter_context(Wire(host.address, f"bench.small.{number}")), QUEUE)
            for number in range(CONNECTIONS)
        ]
        loads.append(Load(Plan(SMALL_INFLIGHT, FOREVER_S, count, RATE_PER_S), smalls))
        if bigs:
            wire = stack.enter_context(Wire(host.address, "bench.big"))
            sender = sender_on(wire, QUEUE, big_bytes - RECORD_HEAD_BYTES)
            inflight, rate = BIG_BYTES_IN_FLIGHT_MAX // big_bytes, RATE_PER_S / SMALL_TO_A_BIG
            loads.append(Load(Plan(inflight, FOREVER_S, bigs, rate), [sender]))
        before = host.ask(m.Status)
        outcomes = [run.result() for run in [pool.submit(load.run) for load in loads]]
        after = host.ask(m.Status)
    pulse = Pulse.of(outcomes[0], 0)
    return Mixed(
        pulse.messages, sum(outcome.messages for outcome in outcomes[1:]), pulse.p50_ms,
        pulse.p99_ms, after["turn_longest_us"] / 1000,
        turns_between(before["turn_times_us"], after["turn_times_us"]),
    )  # fmt: skip


def turns_between(
    before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return the turns of each class that came between two answers of a daemon."""
    known = {pair[0]: pair[1] for pair in before}
    found = [[below_us, turns - known.get(below_us, 0)] for below_us, turns in after]
    return [pair for pair in found if pair[1]]
