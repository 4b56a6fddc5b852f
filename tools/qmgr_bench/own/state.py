"""STATE: what the detection of duplicates stores: state of each message, or a table of origins.

A message whose UID its producer supplies has a row in the UID index. Messages that the daemon
stamps are in the order of their UIDs, so a table with the highest timestamp of each origin is
enough (IPCOM000015189D). Each depth is filled both ways, on a new store. Then all messages are
consumed.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qmgr_bench.host import Host
from qmgr_bench.load import Sender
from qmgr_bench.own.dup import UidSender
from qmgr_bench.own.traffic import get, pour, sender_on
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_most
from qmgr_protocol import messages as m
from qmgrd.core.layout import keys
from qmgrd.verify.content import store_content
from qmgrd.verify.definitions import SPACES

DEPTHS = (10, 10_000, 1_000_000)
QUEUE = "STATE"
KINDS = {SPACES[keys.SPACE_UID], SPACES[keys.SPACE_ORIGIN]}
_Make = Callable[[Wire], Sender]


@dataclass(frozen=True, slots=True)
class Stored:
    """A store with one way to detect duplicates."""

    rows: int  # rows of the UID index and of the table of origins
    bytes: int  # their size
    put_cpu_us: float  # the daemon's processor time for a put while the queue is filled
    get_cpu_us: float  # the same for a get and its ack


@dataclass(frozen=True, slots=True)
class StateOf:
    """The results at one depth."""

    depth: int
    each: Stored  # a row for each message
    table: Stored  # the table of origins alone


@dataclass(frozen=True, slots=True)
class States:
    """The results of row STATE."""

    series: list[StateOf]

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        low, high = self.series[0], self.series[-1]
        what = f"rows of the table at depth {high.depth:,}, more than at depth {low.depth:,}"
        return [at_most(what, high.table.rows - low.table.rows, 0)]

    def bars(self) -> tuple[str, Bars]:
        """Returns the sizes as bars."""
        found: Bars = []
        for x in self.series:
            found.append((f"table at {x.depth:,}", x.table.bytes, True))
            found.append((f"each message at {x.depth:,}", x.each.bytes, False))
        return "bytes that the detection of duplicates stores", found


def state(setting: Setting) -> States:
    """Fills and empties a queue of each depth, with and without UIDs of the producer.

    Raises:
        LoadFailed: The disk has too little room, or a daemon did not finish its work.
    """
    depths = sorted({setting.scaled(depth) for depth in DEPTHS})
    setting.check_disk(max(depths))
    return States(
        [
            StateOf(
                depth,
                _stored(setting, depth, lambda wire: UidSender(wire, QUEUE)),
                _stored(setting, depth, lambda wire: sender_on(wire, QUEUE)),
            )
            for depth in depths
        ]
    )


def _stored(setting: Setting, depth: int, make: _Make) -> Stored:
    directory = setting.directory / "state"
    host = Host(directory)
    with host:
        host.ask(m.QueueCreate, QUEUE)
        before_s = host.cpu_s()
        with Wire(host.address, "bench.fill") as wire:
            pour(make(wire), depth, f"STATE: filling depth {depth:,}", setting.say)
        put_s, count = host.cpu_s() - before_s, host.depth(QUEUE)
        host.stop()
        found: list[dict[str, Any]] = [
            kind for kind in store_content(directory)["kinds"] if kind["kind"] in KINDS
        ]
        host.start()
        got = get(host, QUEUE, count)
    shutil.rmtree(directory)
    return Stored(
        sum(kind["rows"] for kind in found),
        sum(kind["bytes"] for kind in found),
        round(put_s / count * 1e6, 2),
        round(got.server_cpu_us, 2),
    )
