"""JOURNAL: what checkpoints cost, and how fast a daemon starts after a kill under full load.

One daemon makes its checkpoints as usual. Another one makes none, and has a journal that is large
enough for the run. They take turns. At the end of each run, the daemon is killed while a producer
puts, and starts again. The first daemon replays the records since its last checkpoint, and the
second one those of the whole run, which shows the rate of a replay.
"""

import json
import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from qmgr_bench.figures import Figures
from qmgr_bench.host import QMGRD, Host
from qmgr_bench.load import Load, LoadFailed, Plan
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.traffic import FOREVER_S, INFLIGHT, put, rates, sender_on
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_least, at_most
from qmgr_protocol import messages as m

QUEUE = "JOURNAL"
KILL_AFTER_S = 0.5
# The daemon without checkpoints after its first one.
NEVER = "from qmgrd.store import recorded_store as s; s.LIMIT_LEAST_BYTES = 1 << 40; "
WITHOUT = (*QMGRD[:-1], NEVER + QMGRD[-1])
LARGE = {"QMGRD_DURABILITY__JOURNAL_BYTES": "1 GiB"}
P99_MAX, START_MAX_MS, REPLAY_MIN_PER_S = 1.5, 1_000, 200_000


@dataclass(frozen=True, slots=True)
class Journal:
    """The results of row JOURNAL, as medians of the rounds."""

    put_per_s: float
    put_per_s_without: float  # without checkpoints
    put_ratio: float
    p50_ms: float
    p99_ms: float
    p99_ms_without: float
    p99_ratio: float
    start_ms: float  # after a kill under full load
    start_clean_ms: float  # after a stop
    replayed_records: float
    start_ms_without: float
    replayed_messages_without: float
    replayed_per_s: float  # messages per second of a start with a long journal

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        return [
            at_most("p99 of a put, relative to no checkpoints", self.p99_ratio, P99_MAX),
            at_most("start after a kill under full load", self.start_ms, START_MAX_MS, "ms"),
            at_least("messages replayed per second", self.replayed_per_s, REPLAY_MIN_PER_S),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the latencies as bars."""
        return "p99 latency of a put in ms", [
            ("with checkpoints", self.p99_ms, True),
            ("without", self.p99_ms_without, False),
        ]


@dataclass(frozen=True, slots=True)
class _Run:
    put: Figures
    start_ms: float
    start_clean_ms: float
    records: int
    messages: int  # the messages on the queue after the kill


def journal(setting: Setting) -> Journal:
    """Measures both daemons alternately.

    Raises:
        LoadFailed: A daemon did not finish its work, or did not report a replay.
    """
    usual: list[_Run] = []
    without: list[_Run] = []
    for number in range(setting.rounds):
        setting.say(f"JOURNAL: round {number + 1} of {setting.rounds}")
        for kind in (usual, without) if number % 2 else (without, usual):
            kind.append(_run(setting, f"journal-{number}", is_usual=kind is usual))
    figures, others = [x.put for x in usual], [x.put for x in without]
    return Journal(
        median(rates(figures)),
        median(rates(others)),
        median_ratio(rates(figures), rates(others)),
        median([x.p50_ms for x in figures]),
        median([x.p99_ms for x in figures]),
        median([x.p99_ms for x in others]),
        median_ratio([x.p99_ms for x in figures], [x.p99_ms for x in others]),
        median([x.start_ms for x in usual]),
        median([x.start_clean_ms for x in usual]),
        median([x.records for x in usual]),
        median([x.start_ms for x in without]),
        median([x.messages for x in without]),
        _replay_rate(without),
    )


def _replay_rate(runs: Sequence[_Run]) -> float:
    """Returns the messages per second of the time by which a replay delays a start."""
    return median([x.messages / max(x.start_ms - x.start_clean_ms, 1) * 1000 for x in runs])


def _run(setting: Setting, name: str, *, is_usual: bool) -> _Run:
    directory = setting.directory / name
    host = Host(directory, environment=LARGE, program=QMGRD if is_usual else WITHOUT)
    with host:
        host.ask(m.QueueCreate, QUEUE)
        figures = put(host, QUEUE, setting.seconds)
        _kill_under_load(host)
        start_ms = host.start()
        records, messages = _replayed(host), host.depth(QUEUE)
        host.stop()
        start_clean_ms = host.start()
    shutil.rmtree(directory)
    return _Run(figures, start_ms, start_clean_ms, records, messages)


def _kill_under_load(host: Host) -> None:
    """Kills the daemon while a producer puts."""
    killer = threading.Timer(KILL_AFTER_S, host.kill)
    with Wire(host.address, "bench.producer") as wire:
        sender = sender_on(wire, QUEUE)
        killer.start()
        with suppress(LoadFailed, OSError, EOFError):
            Load(Plan(INFLIGHT, FOREVER_S, 1 << 40), [sender]).run()
    killer.join()


def _replayed(host: Host) -> int:
    """Returns the number of records that the last start replayed, according to the log."""
    lines = (host.directory / "log").read_bytes().splitlines()
    events = [json.loads(line) for line in lines if line.startswith(b"{")]
    found = [event["records"] for event in events if event["event"] == "replayed the journal"]
    if not found:
        raise LoadFailed("the daemon did not report how much it replayed after the kill")
    return int(found[-1])
