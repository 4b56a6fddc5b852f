"""The list of rows without peers. Each row is measured alternately with its own reference.

The speed of the disk and of the machine drifts, so the results are medians of the ratios within
each round.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qmgr_bench.compare import disk_sync_ms
from qmgr_bench.fan import FANS
from qmgr_bench.mover import MOVERS
from qmgr_bench.own.big import big
from qmgr_bench.own.correlation import correlation
from qmgr_bench.own.depth import start, ten_million
from qmgr_bench.own.dup import dup
from qmgr_bench.own.expiry import expiry
from qmgr_bench.own.group import group
from qmgr_bench.own.journal import journal
from qmgr_bench.own.link import link
from qmgr_bench.own.secure import secure
from qmgr_bench.own.selecting import select
from qmgr_bench.own.slow import slow
from qmgr_bench.own.state import state
from qmgr_bench.own.table import table
from qmgr_bench.own.topic import topic
from qmgr_bench.own.transfer import transfer
from qmgr_bench.own.unit import unit
from qmgr_bench.own.wide import c1000
from qmgr_bench.setting import Setting
from qmgr_bench.target import Result

SECONDS_BESIDE = 0.5  # additional time of a run in seconds
PEER_S = 30.0  # time of a peer per round in seconds
FANNED = tuple(fan.name for fan in FANS)
STORED = ("postgres-batch",)
MOVED = tuple(mover.name for mover in MOVERS)


@dataclass(frozen=True, slots=True)
class OwnRow:
    """A row of the benchmark."""

    about: str
    run: Callable[[Setting], Result]
    runs: int  # number of runs in a round; each lasts the seconds of the setting
    beside_s: float  # first estimate of the time for all other work, at full scale
    peers: tuple[str, ...] = ()  # names of the peers that are also measured


OWN_ROWS = {
    "10M": OwnRow("10,000,000 messages: start, memory, puts and gets", ten_million, 4, 140),
    "C1000": OwnRow("put, 1,000 connections, 1 in flight each", c1000, 3, 10),
    "BIG": OwnRow("small puts while every hundredth message is large", big, 4, 10),
    "LINK": OwnRow("one link: a backlog of 200,000, and a live stream", link, 3, 40),
    "TRANSFER": OwnRow(
        "a link: direct, with delay, and over four connections", transfer, 1, 75, MOVED
    ),
    "DUP": OwnRow("the check for duplicates, at depth 10 to 1,000,000", dup, 1, 20),
    "START": OwnRow("start and memory, at depth 0 to 1,000,000", start, 0, 30),
    "UNIT": OwnRow("units of work of 1, 10 and 100 messages", unit, 6, 15),
    "CORR": OwnRow("get by correlation id, at depth 100 to 1,000,000", correlation, 1, 30),
    "EXPIRY": OwnRow("1,000,000 messages expire at one moment", expiry, 1, 180),
    "SELECT": OwnRow("a selector that matches 1 of 100 messages, at depth 100,000", select, 0, 15),
    "GROUP": OwnRow("groups: a step at depth 100 to 1,000,000; rates", group, 2, 90),
    "TOPIC": OwnRow("publications to 1 to 1,000 subscribers; republish", topic, 8, 60, FANNED),
    "SECURE": OwnRow("rights and TLS; start with 10,000 users", secure, 9, 150),
    "SLOW": OwnRow("put while each flush takes 5 or 20 ms more", slow, 8, 30),
    "JOURNAL": OwnRow("checkpoints, and a start after a kill under load", journal, 2, 10),
    "STATE": OwnRow("what duplicates store: a row for each message, or a table", state, 0, 40),
    "TABLE": OwnRow("5,000,000 messages as rows, with and without Spark", table, 0, 420, STORED),
}


def guess_s(name: str, setting: Setting) -> float:
    """Returns the estimated time of row *name*, in seconds."""
    row = OWN_ROWS[name]
    runs_s = row.runs * setting.rounds * (setting.seconds + SECONDS_BESIDE)
    peers = len({*row.peers} & {*setting.peers})
    return runs_s + row.beside_s * setting.scale + peers * PEER_S * setting.rounds


def run_own(name: str, setting: Setting) -> dict[str, Any]:
    """Runs row *name* and returns its results for JSON.

    Raises:
        LoadFailed: A daemon did not finish its work.
        RequestError: A daemon refused a request.
    """
    sync_ms = disk_sync_ms(setting.directory)
    start_s = time.monotonic()
    with TemporaryDirectory(prefix="own-", dir=setting.directory) as directory:
        result: Any = OWN_ROWS[name].run(replace(setting, directory=Path(directory)))
    unit, bars = result.bars()
    return {
        "row": name,
        "disk_sync_ms": sync_ms,
        "took_s": round(time.monotonic() - start_s, 1),
        "targets": [asdict(target) for target in result.targets()],
        "figures": asdict(result),
        "unit": unit,
        "bars": bars,
    }
