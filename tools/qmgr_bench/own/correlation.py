"""CORR: gets by correlation id on queues of 100 to 1,000,000 messages.

Each depth has its own store, filled once. The depths take turns, burst by burst, so a drift affects
all of them. A burst requests twenty ids at random positions and then twenty missing ids. The
received messages are returned unread, so each burst finds the queue unchanged. The return is not
timed. Only the second of two consecutive bursts is timed, because the first finds another daemon's
data in the processor's caches.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.batches import BatchSender
from qmgr_bench.own.traffic import SIZE_BYTES, pour
from qmgr_bench.qmgr import Wire, bodies
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_most
from qmgr_protocol import messages as m
from qmgr_protocol.record import Fields, encode

DEPTHS = (100, 10_000, 1_000_000)
BURST = 20  # number of gets in one write, which the daemon processes in one turn
BURSTS_MIN = 5  # minimum number of bursts per round
FLAT = 1.2
QUEUE = "REPLIES"
BODIES = bodies(SIZE_BYTES, vary=True)[:100]


class GetBurst(NamedTuple):
    """The times of one burst, in us per get."""

    hit_us: float  # time from the get to the delivery of the message
    hit_cpu_us: float  # processor time of the daemon for that get
    miss_us: float
    miss_cpu_us: float


@dataclass(frozen=True, slots=True)
class CorrelationAtDepth:
    """The results at one depth of the series."""

    depth: int
    get_us: float
    get_cpu_us: float
    miss_us: float
    miss_cpu_us: float
    gets: int  # number of timed gets of existing ids; the same number of gets used missing ids


@dataclass(frozen=True, slots=True)
class Correlations:
    """The results of row CORR."""

    series: list[CorrelationAtDepth]
    # Ratio of a get's processor time at the greatest depth to that at the smallest, in the same
    # turn.
    growth: float
    growth_of_miss: float

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        low, high = self.series[0].depth, self.series[-1].depth
        what = f"at depth {high:,}, relative to depth {low:,}"
        return [
            at_most(f"CPU time of a get {what}", self.growth, FLAT),
            at_most(f"CPU time of a get of a missing id {what}", self.growth_of_miss, FLAT),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns processor times as bars."""
        return "CPU time in us of a get by correlation id, medians", [
            bar
            for point in self.series
            for bar in (
                (f"depth {point.depth:,}", point.get_cpu_us, True),
                (f"depth {point.depth:,}, missing", point.miss_cpu_us, False),
            )
        ]


def correlation(setting: Setting) -> Correlations:
    """Times gets at each depth, alternately."""
    depths = sorted({max(setting.scaled(depth), BURST) for depth in DEPTHS})
    setting.check_disk(sum(depths))
    times: dict[int, list[GetBurst]] = {depth: [] for depth in depths}
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(Host(setting.directory / f"depth{depth}", f"D{depth}"))
            for depth in depths
        ]
        for host, depth in zip(hosts, depths, strict=True):
            host.ask(m.QueueCreate, QUEUE)
            with Wire(host.address, "bench.fill") as wire:
                sender = BatchSender(wire, QUEUE, record_of)
                pour(sender, depth, f"CORR: filling depth {depth:,}", setting.say)
        for number in range(setting.rounds):
            setting.say(f"CORR: round {number + 1} of {setting.rounds}")
            os.sync()  # Earlier writes must not be flushed during the round.
            _bursts(hosts, times, setting.seconds)
    series = [_point(depth, times[depth]) for depth in depths]
    growths = [growth(times, name) for name in ("hit_cpu_us", "miss_cpu_us")]
    return Correlations(series, *growths)


def growth(times: Mapping[int, Sequence[GetBurst]], name: str) -> float:
    """Returns *name* at the greatest depth, relative to the smallest in the same turn."""
    low, high = ([getattr(burst, name) for burst in times[end(times)]] for end in (min, max))
    return median_ratio(high, low)


def _point(depth: int, bursts: Sequence[GetBurst]) -> CorrelationAtDepth:
    figures = [
        round(median([getattr(burst, name) for burst in bursts]), 2) for name in GetBurst._fields
    ]
    hit_us, hit_cpu_us, miss_us, miss_cpu_us = figures
    return CorrelationAtDepth(depth, hit_us, hit_cpu_us, miss_us, miss_cpu_us, len(bursts) * BURST)


def _bursts(hosts: Sequence[Host], times: dict[int, list[GetBurst]], seconds: float) -> None:
    """Measures as many bursts at each depth as fit into *seconds*, and adds their times."""
    with ExitStack() as stack:
        askers = [
            Asker(host, stack.enter_context(Wire(host.address, "bench.corr")), depth)
            for host, depth in zip(hosts, times, strict=True)
        ]
        stop_s, number = time.monotonic() + seconds, 0
        while number < BURSTS_MIN or time.monotonic() < stop_s:
            for asker in askers if number % 2 else reversed(askers):
                asker.burst()  # Another daemon has used the processor's caches.
                times[asker.depth].append(asker.burst())
            number += 1


def id_of(number: int) -> bytes:
    """Returns the correlation id of message *number*. The ids are not in ascending order."""
    return (number * 0x9E37_79B9_7F4A_7C15 % (1 << 64)).to_bytes(8, "big")


def record_of(number: int) -> bytes:
    """Returns the record of message *number*."""
    body = BODIES[number % len(BODIES)]
    return encode(Fields(body, correlation_id=id_of(number)))


class Asker:
    """A client that gets messages by correlation id from the queue of one depth."""

    def __init__(self, host: Host, wire: Wire, depth: int) -> None:
        self.depth = depth
        self._host = host
        self._wire = wire
        self._die = Random()  # not seeded, so that each round uses different positions
        self._settles = 0
        self._missed = depth  # first number without a message, for missing ids

    def burst(self) -> GetBurst:
        """Gets existing messages, returns them to the queue, and gets missing ones."""
        numbers = self._die.sample(range(self.depth), BURST)
        hit_us, hit_cpu_us, answers = self._asked(numbers)
        self._give_back(answers)
        self._missed += BURST
        missing = range(self._missed - BURST, self._missed)
        miss_us, miss_cpu_us, answers = self._asked(missing)
        if any(type(answer) is not m.Ok for answer in answers):
            raise LoadFailed("a message was delivered for a missing correlation id")
        return GetBurst(hit_us, hit_cpu_us, miss_us, miss_cpu_us)

    def _asked(self, numbers: Sequence[int]) -> tuple[float, float, list[Any]]:
        """Gets the messages of *numbers*.

        Returns the elapsed time and the daemon's processor time, both in us per get, and the
        answers.
        """
        wire = self._wire
        frames = b"".join(
            [
                wire.connection.send(
                    m.Get(wire.next_request(), QUEUE, correlation_id=id_of(number))
                )
                for number in numbers
            ]
        )
        before_ns, start_ns = self._host.idle_cpu_ns(), time.monotonic_ns()
        wire.sock.sendall(frames)
        answers = [wire.next() for _ in numbers]
        took_us = (time.monotonic_ns() - start_ns) / 1000
        cpu_us = (self._host.idle_cpu_ns() - before_ns) / 1000
        return took_us / len(numbers), cpu_us / len(numbers), answers

    def _give_back(self, answers: Sequence[Any]) -> None:
        """Returns the messages to the queue as if they had not been delivered.

        Raises:
            LoadFailed: A message was not delivered.
        """
        for answer in answers:
            if type(answer) is not m.Deliver or len(answer.items) != 1:
                raise LoadFailed(
                    f"received a different answer than the requested message: {str(answer)[:200]}"
                )
        handles = b"".join([answer.items[0][: m.HANDLE.size] for answer in answers])
        self._settles += 1
        settle = m.Settle(self._settles, m.UNREAD, answers[0].queue_id, handles)
        self._wire.send(settle)
        settled = self._wire.next()
        if type(settled) is not m.Settled or settled.exceptions:
            raise LoadFailed(
                f"the daemon did not return the messages to the queue: {str(settled)[:200]}"
            )
