"""C1000: a thousand connections with one put in flight each, compared with W1b and W1b-1.

The generator must not be the bottleneck, so each connection has a lean sender.
"""

import resource
from contextlib import ExitStack
from dataclasses import dataclass

from qmgr_bench.figures import Figures
from qmgr_bench.host import Host
from qmgr_bench.load import Load, LoadFailed, Plan
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.lean import LeanSender
from qmgr_bench.own.traffic import SIZE_BYTES, pool_of, put, rates
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_least, at_most
from qmgr_protocol import messages as m

CONNECTIONS = 1_000
FILES_SPARE = 200
QUEUE = "WIDE"


@dataclass(frozen=True, slots=True)
class Wide:
    """The results of row C1000."""

    connections: int
    put_per_s: float
    put_per_s_w1b: float
    put_per_s_w1b_1: float  # rate of W1b with one put per frame, as in this row
    ratio: float  # rate relative to W1b
    ratio_1: float  # rate relative to W1b-1
    p50_ms: float
    p99_ms: float
    p999_ms: float
    server_cpu_us: float
    generator_cpu_us: float
    # fraction of one core that the daemon used; otherwise the daemon waited, mostly for the disk
    server_share: float
    generator_share: float

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        generator = round(self.generator_cpu_us / max(self.server_cpu_us, 0.01), 2)
        return [
            at_least(
                f"put rate of {self.connections:,} connections, relative to W1b", self.ratio, 1.0
            ),
            at_most("processor time of the generator, relative to the daemon", generator, 1.0),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the rates as bars."""
        return "messages per second, medians", [
            (f"{self.connections:,} with 1 put", self.put_per_s, True),
            ("W1b-1", self.put_per_s_w1b_1, False),
            ("W1b", self.put_per_s_w1b, False),
        ]


def c1000(setting: Setting) -> Wide:
    """Measures the connections, W1b and W1b-1 alternately, on one daemon."""
    connections = setting.scaled(CONNECTIONS)
    allow_files(connections + FILES_SPARE)
    found: dict[str, list[Figures]] = {kind: [] for kind in ("wide", "W1b", "W1b-1")}
    with Host(setting.directory / "wide") as host:
        for number in range(setting.rounds):
            setting.say(f"C1000: round {number + 1} of {setting.rounds}")
            for kind in found if number % 2 else reversed(found):
                host.ask(m.QueueCreate, QUEUE)
                found[kind].append(
                    put_wide(host, connections, setting.seconds)
                    if kind == "wide"
                    else put(host, QUEUE, setting.seconds, coalesce=kind == "W1b")
                )
                host.ask(m.QueueDelete, QUEUE, True)
                host.wait_for_jobs()
    wide, w1b, w1b_1 = (rates(found[kind]) for kind in found)
    p50_ms, p99_ms, p999_ms, server_us, generator_us, generator_share = (
        median([getattr(pulse, name) for pulse in found["wide"]])
        for name in (
            "p50_ms",
            "p99_ms",
            "p999_ms",
            "server_cpu_us",
            "generator_cpu_us",
            "generator_share",
        )
    )
    return Wide(
        connections,
        median(wide),
        median(w1b),
        median(w1b_1),
        median_ratio(wide, w1b),
        median_ratio(wide, w1b_1),
        p50_ms,
        p99_ms,
        p999_ms,
        server_us,
        generator_us,
        round(server_us * median(wide) / 1e6, 2),
        generator_share,
    )


def put_wide(host: Host, connections: int, seconds: float) -> Figures:
    """Puts on *connections* connections. Each puts the next message after the previous answer."""
    pool = pool_of(SIZE_BYTES)
    with ExitStack() as stack:
        senders = []
        for number in range(connections):
            wire = stack.enter_context(Wire(host.address, f"bench.wide.{number}"))
            senders.append(LeanSender(wire, QUEUE, pool[number % len(pool)]))
        before_s = host.cpu_s()
        outcome = Load(Plan(1, seconds), senders).run()
        return Figures.of(outcome, host.cpu_s() - before_s)


def allow_files(files: int) -> None:
    """Allows this process and the daemons that it starts to open *files* files.

    Raises:
        LoadFailed: The system does not allow that number.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < files:
        raise LoadFailed(
            f"{files} open files are needed, but the limit is {hard}: raise it with ulimit -Hn"
        )
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
