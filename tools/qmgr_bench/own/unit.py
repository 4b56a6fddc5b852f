"""UNIT: units of work of 1, 10 and 100 messages, compared with the same work without a unit.

In one kind of work, messages move back and forth between two queues, so a run never lacks messages.
Each piece of work gets messages from the fuller queue, puts messages on the other, and commits. In
the other kind of work, messages are only put. Runs with and without units take turns.
"""

import os
from dataclasses import dataclass
from typing import NamedTuple

from qmgr_bench.compare import flushes
from qmgr_bench.host import Host
from qmgr_bench.load import Latency, LoadFailed
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.traffic import SIZE_BYTES, fill, pool_of
from qmgr_bench.own.worker import Done, Job, Worker
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_most
from qmgr_protocol import messages as m

SIZES = (1, 10, 100)
INFLIGHTS = (1, 16)
BACKLOG = 100_000  # number of preloaded messages; more than a run gets
SLICES = 4  # divisor of the seconds of a run, because a round has 24 runs
LEFT, RIGHT, PUTS = "LEFT", "RIGHT", "PUTS"
MOVE, PUT = "get and put", "put"
TURN_MOST = 1.1  # maximum ratio of flushes, which include those of other processes


class Kind(NamedTuple):
    """A kind of work."""

    messages: int  # number of messages per unit
    inflight: int
    work: str

    @property
    def name(self) -> str:
        """Returns the name of the kind."""
        units = "1 at a time" if self.inflight == 1 else f"{self.inflight} at once"
        return f"{self.work} {self.messages:,}, {units}"


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one run."""

    messages: int
    pieces: int
    seconds: float
    commit: Latency
    server_cpu_us: float  # processor time of the daemon, per message
    generator_cpu_us: float
    flushes: int | None

    @property
    def messages_per_s(self) -> float:
        """Returns the messages per second."""
        return self.messages / self.seconds

    @property
    def flushes_per_piece(self) -> float | None:
        """Returns the disk flushes per unit, or per equal work without a unit."""
        return None if self.flushes is None else self.flushes / self.pieces


@dataclass(frozen=True, slots=True)
class UnitOf:
    """The results of one kind. Fields with ``plain`` are for the same work without a unit."""

    work: str
    messages: int  # number of messages per unit
    inflight: int
    messages_per_s: float
    units_per_s: float
    p50_ms: float  # time of a unit, from its first frame to the answer to its commit
    p99_ms: float
    server_cpu_us: float  # processor time of the daemon, per message
    generator_cpu_us: float
    flushes_per_unit: float | None
    plain_messages_per_s: float
    plain_p50_ms: float
    plain_p99_ms: float
    plain_cpu_us: float
    plain_flushes: float | None
    ratio: float  # messages per second, relative to work without a unit

    @property
    def name(self) -> str:
        """Returns the name of the kind."""
        return Kind(self.messages, self.inflight, self.work).name


@dataclass(frozen=True, slots=True)
class Units:
    """The results of row UNIT."""

    series: list[UnitOf]

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        found = []
        for one in self.series:
            if one.inflight == 1 and one.flushes_per_unit and one.plain_flushes:
                ratio = round(one.flushes_per_unit / one.plain_flushes, 3)
                what = f"flushes of a unit, {one.name}, relative to no unit"
                found.append(at_most(what, ratio, TURN_MOST))
        return found

    def bars(self) -> tuple[str, Bars]:
        """Returns the rates as bars."""
        bars = []
        for one in self.series:
            bars.append((one.name, one.messages_per_s, True))
            bars.append((f"{one.name}, no unit", one.plain_messages_per_s, False))
        return "messages per second, medians", bars


def unit(setting: Setting) -> Units:
    """Measures each kind with and without units, alternately."""
    kinds = [
        Kind(messages, inflight, work)
        for work in (MOVE, PUT)
        for messages in SIZES
        for inflight in INFLIGHTS
    ]
    backlog = max(setting.scaled(BACKLOG), max(SIZES) * max(INFLIGHTS))
    found: dict[Kind, tuple[list[Run], list[Run]]] = {kind: ([], []) for kind in kinds}
    with Host(setting.directory / "unit") as host:
        for queue in (LEFT, RIGHT, PUTS):
            host.ask(m.QueueCreate, queue)
        fill(host, LEFT, backlog, setting.say)
        for number in range(setting.rounds):
            setting.say(f"UNIT: round {number + 1} of {setting.rounds}")
            os.sync()  # Earlier writes must not be flushed during the round.
            for kind in kinds:
                for in_units in (True, False) if number % 2 else (False, True):
                    runs = found[kind][not in_units]
                    runs.append(run_of(host, kind, setting.seconds / SLICES, in_units=in_units))
            host.ask(m.QueuePurge, PUTS)
            host.wait_for_jobs()
    return Units([_unit_of(kind, *found[kind]) for kind in kinds])


def run_of(host: Host, kind: Kind, seconds: float, *, in_units: bool) -> Run:
    """Does one run.

    Raises:
        LoadFailed: The run finished no work.
    """
    source, target, pieces_max = "", PUTS, 1 << 62
    if kind.work == MOVE:
        depths = {queue: host.depth(queue) for queue in (LEFT, RIGHT)}
        source, target = (LEFT, RIGHT) if depths[LEFT] > depths[RIGHT] else (RIGHT, LEFT)
        pieces_max = depths[source] // kind.messages
    job = Job(target, kind.messages, kind.inflight, in_units, source)
    with Wire(host.address, "bench.unit") as wire:
        worker = Worker(wire, job, pool_of(SIZE_BYTES))
        before, before_ns = flushes(host.directory), host.cpu_ns()
        done = worker.run(seconds, pieces_max)
        cpu_us, after = (host.cpu_ns() - before_ns) / 1000, flushes(host.directory)
    made = None if before is None or after is None else after - before
    return _run(done, kind, cpu_us, made)


def _run(done: Done, kind: Kind, cpu_us: float, made: int | None) -> Run:
    messages = done.pieces * kind.messages
    if not messages:
        raise LoadFailed(f"no unit of {kind.name} was finished: increase SECONDS")
    return Run(
        messages,
        done.pieces,
        done.seconds,
        done.commit,
        cpu_us / messages,
        done.generator_cpu_s * 1e6 / messages,
        made,
    )


def _unit_of(kind: Kind, units: list[Run], plain: list[Run]) -> UnitOf:
    rates, plain_rates = ([run.messages_per_s for run in runs] for runs in (units, plain))
    return UnitOf(
        kind.work,
        kind.messages,
        kind.inflight,
        round(median(rates)),
        round(median(rates) / kind.messages),
        *_times(units),
        round(median([run.generator_cpu_us for run in units]), 2),
        _flushes(units),
        round(median(plain_rates)),
        *_times(plain),
        _flushes(plain),
        median_ratio(rates, plain_rates),
    )


def _times(runs: list[Run]) -> tuple[float, float, float]:
    """Returns p50 and p99 in ms of a piece of work, and the daemon's CPU time in us per message."""
    p50_ms, p99_ms = (
        median([run.commit.percentile_ms(percent) or 0.0 for run in runs]) for percent in (50, 99)
    )
    return p50_ms, p99_ms, round(median([run.server_cpu_us for run in runs]), 2)


def _flushes(runs: list[Run]) -> float | None:
    counted = [found for run in runs if (found := run.flushes_per_piece) is not None]
    return round(median(counted), 2) if counted else None
