"""SELECT: a consumer with a selector that matches 1 % of the messages, and one without.

Each round fills a queue. The last message matches, so the consumer receives it only after the
daemon has examined all messages. The consumer then gets the remaining messages without a selector.
"""

import os
from dataclasses import dataclass

from qmgr_bench.figures import Figures
from qmgr_bench.host import Host
from qmgr_bench.load import Load, Plan
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.batches import BatchSender
from qmgr_bench.own.traffic import FOREVER_S, SIZE_BYTES, get, pour
from qmgr_bench.qmgr import QmgrReceiver, Wire, bodies
from qmgr_bench.rows import PREFETCH
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_most
from qmgr_protocol import messages as m
from qmgr_protocol.record import HEADERS, Fields, encode

DEPTH = 100_000
ONE_OF = 100
TURN_MAX_MS = 50
QUEUE = "FLIGHTS"
WHERE = "carrier = 'UA'"
BODIES = bodies(SIZE_BYTES, vary=True)[:ONE_OF]
CARRIERS = ["AA"] * (ONE_OF - 1) + ["UA"]
RECORDS = [
    encode(Fields(body, envelope={HEADERS: {"carrier": carrier, "stops": 1}}))
    for body, carrier in zip(BODIES, CARRIERS, strict=True)
]


@dataclass(frozen=True, slots=True)
class Selected:
    """The results of row SELECT."""

    depth: int
    matching: int
    looked_at_per_s: float
    cpu_us: float  # processor time of the daemon per examined message
    turn_longest_ms: float  # the longest turn of all rounds
    get_per_s: float  # gets per second without a selector
    get_cpu_us: float
    ratio: float  # examined messages per second, relative to messages got per second

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        return [at_most("longest turn", self.turn_longest_ms, TURN_MAX_MS, "ms")]

    def bars(self) -> tuple[str, Bars]:
        """Returns the rates as bars."""
        return "messages per second, medians", [
            ("examined", self.looked_at_per_s, True),
            ("got without a selector", self.get_per_s, False),
        ]


@dataclass(frozen=True, slots=True)
class Seen:
    """The results of one round."""

    looked_at_per_s: float
    cpu_us: float
    turn_longest_ms: float
    rest: Figures


def select(setting: Setting) -> Selected:
    """Fills the queue, selects, and gets the rest, in each round."""
    matching = max(setting.scaled(DEPTH) // ONE_OF, 1)
    depth = matching * ONE_OF
    setting.check_disk(depth)
    with Host(setting.directory / "select") as host:
        seen = []
        for number in range(setting.rounds):
            setting.say(f"SELECT: round {number + 1} of {setting.rounds}")
            seen.append(round_of(host, depth, setting))
    rates = [one.looked_at_per_s for one in seen]
    rest = [one.rest.messages_per_second for one in seen]
    return Selected(
        depth,
        matching,
        round(median(rates)),
        round(median([one.cpu_us for one in seen]), 2),
        max(one.turn_longest_ms for one in seen),
        median(rest),
        median([one.rest.server_cpu_us for one in seen]),
        median_ratio(rates, rest),
    )


def round_of(host: Host, depth: int, setting: Setting) -> Seen:
    """Fills the queue, selects from all messages, and gets the rest."""
    host.ask(m.QueueCreate, QUEUE)
    with Wire(host.address, "bench.fill") as wire:
        sender = BatchSender(wire, QUEUE, lambda number: RECORDS[number % ONE_OF])
        pour(sender, depth, f"SELECT: filling {QUEUE}", setting.say)
    os.sync()  # Earlier writes must not be flushed during the run.
    host.ask(m.Status)  # This request resets the longest turn.
    with Wire(host.address, "bench.consumer") as wire:
        receiver = QmgrReceiver(wire, QUEUE, PREFETCH, WHERE)
        before_ns = host.cpu_ns()
        outcome = Load(Plan(0, FOREVER_S, depth // ONE_OF), [], receiver).run()
        cpu_us = (host.cpu_ns() - before_ns) / 1000
    longest_ms = host.ask(m.Status)["turn_longest_us"] / 1000
    rest = get(host, QUEUE, depth - depth // ONE_OF)
    host.ask(m.QueueDelete, QUEUE, True)
    host.wait_for_jobs()
    return Seen(depth / outcome.seconds, cpu_us / depth, longest_ms, rest)
