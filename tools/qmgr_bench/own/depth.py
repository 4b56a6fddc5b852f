"""The rows about backlogs: the cost of a deep queue in puts, gets, start time and memory.

10M     ten million messages: start, memory, puts and gets compared with an empty queue
START   start and memory at depths 0 to one million
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from qmgr_bench.figures import Figures
from qmgr_bench.host import Host, Memory
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.traffic import fill, get, put, rates
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_least, at_most
from qmgr_protocol import messages as m

TEN_MILLION = 10_000_000
START_DEPTHS = (0, 10_000, 100_000, 1_000_000)
COLD_GETS = 200_000
DEEP, EMPTY = "DEEP", "EMPTY"
START_MAX_MS, MEMORY_MAX_MB = 1_000, 200
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Millions:
    """The results of row 10M. Ratios compare the deep queue with the empty one."""

    depth: int
    fill_per_s: float
    data_bytes: int
    start_ms: float  # start-up time after a stop, with the store not in memory
    start_warm_ms: float  # start-up time after a stop, with the store still in memory
    start_killed_ms: float  # start-up time after a kill, with the store not in memory
    anonymous_bytes: int  # RssAnon after all measurements
    anonymous_bytes_at_start: int
    file_bytes: int  # RssFile after all measurements
    put_per_s: float
    put_per_s_empty: float
    put_ratio: float
    put_p50_ratio: float
    put_p99_ratio: float
    # rate directly after a start, with the store not in memory; at other rates it is in memory
    get_per_s_cold: float
    get_per_s: float
    get_per_s_empty: float
    get_ratio: float
    ack_p50_ratio: float
    ack_p99_ratio: float

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        return [
            at_most(
                "time from start to first answer, store not in memory",
                self.start_ms,
                START_MAX_MS,
                "ms",
            ),
            at_most(
                "time from start to first answer, after a kill",
                self.start_killed_ms,
                START_MAX_MS,
                "ms",
            ),
            at_most(
                "resident memory without mapped pages (RssAnon)",
                round(self.anonymous_bytes / MB, 1),
                MEMORY_MAX_MB,
                "MB",
            ),
            at_least("put rate, relative to an empty queue", self.put_ratio, 0.85),
            at_most("p50 of a put, relative to an empty queue", self.put_p50_ratio, 1.15),
            at_least("get rate, relative to an empty queue", self.get_ratio, 0.85),
            at_most("p50 of an ack, relative to an empty queue", self.ack_p50_ratio, 1.15),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the rates of puts and gets as bars."""
        return "messages per second by depth, medians", [
            (f"puts at {self.depth:,}", self.put_per_s, True),
            ("puts at 0", self.put_per_s_empty, False),
            (f"gets at {self.depth:,}", self.get_per_s, True),
            ("gets at 0", self.get_per_s_empty, False),
        ]


def ten_million(setting: Setting) -> Millions:
    """Fills a queue, starts a daemon on it, and measures it alternately with an empty queue."""
    depth = setting.scaled(TEN_MILLION)
    setting.check_disk(depth)
    with ExitStack() as stack:
        host = stack.enter_context(Host(setting.directory / "millions"))
        host.ask(m.QueueCreate, DEEP)
        host.ask(m.QueueCreate, EMPTY)
        fill_per_s = fill(host, DEEP, depth, setting.say)
        host.stop()
        data_bytes = host.data_bytes()
        cold, warm, killed = [], [], []
        for number in range(setting.rounds):
            setting.say(f"10M: start {number + 1} of {setting.rounds}")
            cold.append(host.start_cold(DEEP))
            host.stop()
            warm.append(host.start(DEEP))
            host.kill()
            killed.append(host.start_cold(DEEP))
            at_start = host.memory()
            host.stop()
        host.start_cold(DEEP)
        cold_gets = get(host, DEEP, min(setting.scaled(COLD_GETS), depth // 2))
        # An empty queue delivers recent puts from memory. The deep queue is loaded for a fair
        # comparison.
        host.read_store()
        pulses = [_round(host, setting, number) for number in range(setting.rounds)]
        memory = host.memory()
    deep_puts, empty_puts, deep_gets, empty_gets = zip(*pulses, strict=True)
    return Millions(
        depth,
        fill_per_s,
        data_bytes,
        median(cold),
        median(warm),
        median(killed),
        memory.anonymous_bytes,
        at_start.anonymous_bytes,
        memory.file_bytes,
        median(rates(deep_puts)),
        median(rates(empty_puts)),
        *_ratios(deep_puts, empty_puts),
        cold_gets.messages_per_second,
        median(rates(deep_gets)),
        median(rates(empty_gets)),
        *_ratios(deep_gets, empty_gets),
    )


def _round(host: Host, setting: Setting, number: int) -> tuple[Figures, Figures, Figures, Figures]:
    """Returns the figures of puts on the deep and the empty queue, then those of gets on both.

    The number of gets is the same for both queues.
    """
    setting.say(f"10M: round {number + 1} of {setting.rounds}")
    order = (DEEP, EMPTY) if number % 2 else (EMPTY, DEEP)
    puts = {queue: put(host, queue, setting.seconds) for queue in order}
    count = min(pulse.messages for pulse in puts.values())
    gets = {queue: get(host, queue, count) for queue in order}
    host.ask(m.QueuePurge, EMPTY)
    host.wait_for_jobs()
    return puts[DEEP], puts[EMPTY], gets[DEEP], gets[EMPTY]


def _ratios(deep: Sequence[Figures], empty: Sequence[Figures]) -> tuple[float, float, float]:
    """Returns the ratios of the rates, the medians and the p99."""
    return (
        median_ratio(rates(deep), rates(empty)),
        median_ratio([p.p50_ms for p in deep], [p.p50_ms for p in empty]),
        median_ratio([p.p99_ms for p in deep], [p.p99_ms for p in empty]),
    )


@dataclass(frozen=True, slots=True)
class StartAt:
    """The results of row START at one depth."""

    depth: int
    start_ms: float
    anonymous_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Starts:
    """The results of row START."""

    series: list[StartAt]
    growth: float  # start time at the greatest depth, relative to depth 0

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        deepest = self.series[-1]
        memory_mb = round(deepest.anonymous_bytes / MB, 1)
        return [
            at_most(f"start time at depth {deepest.depth:,}", deepest.start_ms, START_MAX_MS, "ms"),
            at_most(
                f"start time at depth {deepest.depth:,}, relative to depth 0", self.growth, 1.15
            ),
            at_most(f"RssAnon at depth {deepest.depth:,}", memory_mb, MEMORY_MAX_MB, "MB"),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the start times as bars."""
        unit = "ms from start to the first browsed message, medians"
        return unit, [(f"depth {point.depth:,}", point.start_ms, True) for point in self.series]


def start(setting: Setting) -> Starts:
    """Starts a daemon at each depth alternately, with the store not in memory."""
    depths = [depth and setting.scaled(depth) for depth in START_DEPTHS]
    setting.check_disk(sum(depths))
    hosts = [Host(setting.directory / f"start{number}") for number in range(len(depths))]
    for host, depth in zip(hosts, depths, strict=True):
        with host:
            host.ask(m.QueueCreate, DEEP)
            fill(host, DEEP, depth, setting.say)
    times: list[list[float]] = [[] for _ in hosts]
    memories: list[Memory] = []
    for number in range(setting.rounds):
        setting.say(f"START: round {number + 1} of {setting.rounds}")
        memories = []
        for host, found in zip(hosts, times, strict=True):
            try:
                found.append(host.start_cold(DEEP))
                memories.append(host.memory())
            finally:
                host.stop()
    series = [
        StartAt(depth, median(found), memory.anonymous_bytes, memory.file_bytes)
        for depth, found, memory in zip(depths, times, memories, strict=True)
    ]
    return Starts(series, median_ratio(times[-1], times[0]))
