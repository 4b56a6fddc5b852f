"""SLOW: puts on a slow disk, on which the daemon handles further puts during a flush.

strace delays each fdatasync of the daemon. Its tests need strace as well. Two daemons take turns:
one as it is, and one that waits for each flush.
"""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from qmgr_bench.figures import Figures
from qmgr_bench.host import QMGRD, Host
from qmgr_bench.load import Load, LoadFailed, Plan
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.traffic import rates, sender_on
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_least
from qmgr_protocol import messages as m

DELAYS_MS = (5, 20)
INFLIGHTS = (256, 4_096)  # the puts in flight of all producers together
PRODUCERS = 4
QUEUE = "SLOW"
# The daemon without turns during a flush.
WAITS = "from qmgrd.store import flush_time as s; s.SLOW_S = s.FAST_S = float('inf'); "
WAITING = (*QMGRD[:-1], WAITS + QMGRD[-1])


@dataclass(frozen=True, slots=True)
class SlowOf:
    """The results of one delay and number of puts in flight."""

    delay_ms: int
    inflight: int
    put_per_s: float
    put_per_s_waiting: float  # the rate of a daemon that waits for each flush
    ratio: float  # the rate relative to that
    p50_ms: float
    p99_ms: float
    p99_ms_waiting: float
    server_cpu_us: float

    @property
    def name(self) -> str:
        """Returns the name of the delay and of the number of puts."""
        return f"{self.delay_ms} ms, {self.inflight:,} in flight"


@dataclass(frozen=True, slots=True)
class Slows:
    """The results of row SLOW."""

    series: list[SlowOf]

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        return [
            at_least(f"put rate, {x.name}, relative to waiting", x.ratio, 1) for x in self.series
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the rates as bars."""
        found: Bars = []
        for x in self.series:
            found.append((x.name, x.put_per_s, True))
            found.append((f"{x.name}, waiting", x.put_per_s_waiting, False))
        return "messages per second, by delay of a flush", found


def slow(setting: Setting) -> Slows:
    """Measures both daemons alternately, with each delay and number of puts in flight.

    Raises:
        LoadFailed: strace is missing, or a daemon did not finish its work.
    """
    if shutil.which("strace") is None:
        raise LoadFailed("row SLOW needs strace, which delays the flushes: install it")
    series = []
    for delay_ms in DELAYS_MS:
        for inflight in INFLIGHTS:
            setting.say(f"SLOW: a flush takes {delay_ms} ms more, {inflight:,} puts in flight")
            series.append(_measured(setting, delay_ms, inflight))
    return Slows(series)


def _measured(setting: Setting, delay_ms: int, inflight: int) -> SlowOf:
    found: dict[str, list[Figures]] = {"goes on": [], "waits": []}
    for number in range(setting.rounds):
        for kind in found if number % 2 else reversed(found):
            program = QMGRD if kind == "goes on" else WAITING
            directory = setting.directory / f"slow-{delay_ms}-{inflight}-{number}-{kind[0]}"
            found[kind].append(_put(directory, program, delay_ms, inflight, setting.seconds))
            shutil.rmtree(directory)
    ours, waiting = found.values()
    return SlowOf(
        delay_ms,
        inflight,
        median(rates(ours)),
        median(rates(waiting)),
        median_ratio(rates(ours), rates(waiting)),
        median([x.p50_ms for x in ours]),
        median([x.p99_ms for x in ours]),
        median([x.p99_ms for x in waiting]),
        median([x.server_cpu_us for x in ours]),
    )


def _put(
    directory: Path, program: Sequence[str], delay_ms: int, inflight: int, seconds: float
) -> Figures:
    with ExitStack() as stack:
        host = stack.enter_context(Host(directory, program=slowed(program, delay_ms)))
        host.ask(m.QueueCreate, QUEUE)
        wires = [stack.enter_context(Wire(host.address, "bench.slow")) for _ in range(PRODUCERS)]
        senders = [sender_on(wire, QUEUE) for wire in wires]
        before_s = host.cpu_s()
        outcome = Load(Plan(inflight // PRODUCERS, seconds), senders).run()
        return Figures.of(outcome, host.cpu_s() - before_s)


def slowed(program: Sequence[str], delay_ms: int) -> list[str]:
    """Returns a command that runs *program* and delays each of its flushes by *delay_ms*.

    The process of the command is that of the program.
    """
    delay = f"inject=fdatasync:delay_exit={delay_ms * 1000}"
    how = "-D -f -qq --seccomp-bpf -e trace=fdatasync -o /dev/null"
    return ["strace", *how.split(), "-e", delay, *program]
