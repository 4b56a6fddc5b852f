"""BIG: the effect of one connection's large messages on all other connections.

Twenty connections put small messages at an even pace, whether or not earlier puts are answered.
Another connection puts one large message for every ninety-nine small ones, from a separate thread.
The pace is fixed. A delayed daemon therefore finds a backlog, as in reality, and does not slow down
its own load.

A few stalls determine the p99 at a thousand puts per second, and the disk causes stalls too.
Therefore the sizes take turns every half second, in ascending and then in descending order. The
results of a round are pooled by size and compared within the round. "none" never directly follows
the largest size.

    none  64 KiB  1 MiB  4 MiB  4 MiB  1 MiB  64 KiB  none  none  64 KiB ...
"""

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from qmgr_bench.host import Host
from qmgr_bench.load import Latency, Load, Plan
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.lean import LeanSender
from qmgr_bench.own.traffic import FOREVER_S, sender_on
from qmgr_bench.qmgr import QmgrSender, Wire, bodies, records
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_most
from qmgr_protocol import messages as m

KIB = 1024
# space in bytes for the head, so that a record of 4 MiB stays within the daemon's limit
RECORD_HEAD_BYTES = 512
SIZES = (64 * KIB, 1024 * KIB, 4096 * KIB)
CONNECTIONS = 20
RATE_PER_S = 1_000  # rate of small messages of all connections together
SMALL_TO_A_BIG = 99
SMALL_INFLIGHT = 1_000  # window of a connection; large enough for any acceptable wait
SLICE_S = 0.5
TURN_MAX_MS = 50
QUEUE = "MIXED"


@dataclass(frozen=True, slots=True)
class BigOf:
    """The results with large messages of one size. A size of 0 means no large messages."""

    size_bytes: int
    bigs: int  # number of large messages in all rounds
    turn_longest_ms: float  # the longest turn of all rounds
    p50_ms: float  # latency of the small puts
    p99_ms: float
    p99_ratio: float  # p99 relative to that without large messages
    turns_below_us: list[list[int]]  # pairs of [upper bound in us, number of turns], of all rounds

    @property
    def name(self) -> str:
        """Returns the name of the size."""
        return f"{self.size_bytes // KIB:,} KiB" if self.size_bytes else "none"


@dataclass(frozen=True, slots=True)
class Bigs:
    """The results of row BIG."""

    series: list[BigOf]

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        found = []
        for big in self.series:
            if big.size_bytes:
                turn, p99 = (
                    f"longest turn with {big.name} messages",
                    f"p99 of small puts with {big.name} messages, relative to without",
                )
                found += [
                    at_most(turn, big.turn_longest_ms, TURN_MAX_MS, "ms"),
                    at_most(p99, big.p99_ratio, 2.0),
                ]
        return found

    def bars(self) -> tuple[str, Bars]:
        """Returns the p99 of the small puts as bars."""
        unit = "p99 latency in ms of a small put, by size of the large messages"
        return unit, [(big.name, big.p99_ms, bool(big.size_bytes)) for big in self.series]


def big(setting: Setting) -> Bigs:
    """Measures with and without large messages of each size, alternately."""
    rounds = []
    with Host(setting.directory / "big") as host:
        host.ask(m.QueueCreate, QUEUE)
        for number in range(setting.rounds):
            setting.say(f"BIG: round {number + 1} of {setting.rounds}")
            os.sync()  # Earlier writes must not be flushed during the round.
            rounds.append(mixed(host, setting.seconds))
            host.ask(m.QueuePurge, QUEUE)
            host.wait_for_jobs()
    without = [found[0].percentile_ms(99) for found in rounds]
    return Bigs([_pooled([found[size] for found in rounds], size, without) for size in rounds[0]])


@dataclass(slots=True)
class Mixed:
    """The results of one round with large messages of one size."""

    smalls: Latency = field(default_factory=Latency)
    bigs: int = 0
    turn_longest_ms: float = 0.0
    turns_below_us: Counter[int] = field(default_factory=Counter)

    def percentile_ms(self, percent: float) -> float:
        """Returns the latency in ms that *percent* of the small messages did not exceed."""
        return self.smalls.percentile_ms(percent) or 0.0


def _pooled(found: Sequence[Mixed], size_bytes: int, without: Sequence[float]) -> BigOf:
    """Returns the pooled figures of one size over all rounds.

    *without* is the p99 in ms without large messages, per round.
    """
    p99 = [mixed.percentile_ms(99) for mixed in found]
    turns = sum((mixed.turns_below_us for mixed in found), Counter())
    return BigOf(
        size_bytes,
        sum(mixed.bigs for mixed in found),
        max(mixed.turn_longest_ms for mixed in found),
        median([mixed.percentile_ms(50) for mixed in found]),
        median(p99),
        median_ratio(p99, without),
        [[*pair] for pair in sorted(turns.items())],
    )


def mixed(host: Host, seconds: float) -> dict[int, Mixed]:
    """Returns the results for each size, measured for *seconds* in slices."""
    slices = max(round(seconds / SLICE_S), 1)
    found = {size_bytes: Mixed() for size_bytes in (0, *SIZES)}
    with ExitStack() as stack:

        def wire(role: str) -> Wire:
            return stack.enter_context(Wire(host.address, f"bench.{role}"))

        smalls = [sender_on(wire(f"small.{number}"), QUEUE) for number in range(CONNECTIONS)]
        bigs = {size: LeanSender(wire("big"), QUEUE, _record(size)) for size in SIZES}
        for number in range(slices):
            for size_bytes in reversed(found) if number % 2 else found:
                _slice(host, seconds / slices, smalls, bigs.get(size_bytes), found[size_bytes])
    return found


def _record(size_bytes: int) -> bytes:
    return records(bodies(size_bytes - RECORD_HEAD_BYTES, vary=False)[:1])[0]


def _slice(
    host: Host, seconds: float, smalls: Sequence[QmgrSender], large: LeanSender | None, seen: Mixed
) -> None:
    """Puts small and *large* messages for *seconds*, and adds the results to *seen*."""
    count = max(int(seconds * RATE_PER_S), 1)
    loads = [Load(Plan(SMALL_INFLIGHT, FOREVER_S, count, RATE_PER_S), smalls)]
    if large is not None and (bigs := count // SMALL_TO_A_BIG):
        loads.append(Load(Plan(1, FOREVER_S, bigs, RATE_PER_S / SMALL_TO_A_BIG), [large]))
    before = host.ask(m.Status)
    with ThreadPoolExecutor() as pool:
        outcomes = [run.result() for run in [pool.submit(load.run) for load in loads]]
    after = host.ask(m.Status)
    seen.smalls.pool(outcomes[0].put)
    seen.bigs += sum(outcome.messages for outcome in outcomes[1:])
    seen.turn_longest_ms = max(seen.turn_longest_ms, after["turn_longest_us"] / 1000)
    seen.turns_below_us.update(turns_between(before["turn_times_us"], after["turn_times_us"]))


def turns_between(
    before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> dict[int, int]:
    """Returns the number of turns in each duration class between two status replies."""
    known = {pair[0]: pair[1] for pair in before}
    found = {below_us: turns - known.get(below_us, 0) for below_us, turns in after}
    return {below_us: turns for below_us, turns in found.items() if turns}
