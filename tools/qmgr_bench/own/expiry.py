"""EXPIRY: the effect on other clients when a million messages expire at the same moment.

Each round fills a queue with messages that all expire at one moment. Another client puts and gets
at an even pace on another queue before that moment, during the removal of the messages, and
afterwards. The period during the removal is compared with the periods before and after, so a drift
affects all periods.

    fill ─────▶ others: before ── moment ── others: during the sweep ── done ── others: after
"""

import math
import os
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from qmgr_bench.host import Host
from qmgr_bench.load import Latency, Load, LoadFailed, Plan
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.batches import BatchSender
from qmgr_bench.own.traffic import SIZE_BYTES, pour, sender_on
from qmgr_bench.qmgr import QmgrReceiver, Wire, bodies
from qmgr_bench.rows import PREFETCH
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_most
from qmgr_protocol import messages as m
from qmgr_protocol.record import Fields, encode

MESSAGES = 1_000_000
SAMPLE = 20_000  # number of messages to measure the fill rate
SAMPLE_EXPIRY_MS = 3_600_000  # longer than a round, so that the sample does not expire
# assumed slowdown of the fill compared with the sample, and time for the other work
SLOWER, SPARE_S = 1.5, 2.0
RATE_PER_S = 500
INFLIGHT = 1_000
SLICE_S = 0.25  # time between two checks of the depth
GONE_MAX_S = 600.0
TURN_MAX_MS = 50
QUEUE, OTHER, SAMPLES = "ENDING", "OTHER", "SAMPLES"
BODY = bodies(SIZE_BYTES, vary=False)[0]


@dataclass(frozen=True, slots=True)
class Expired:
    """The results of row EXPIRY.

    *put* times end when the put is answered, *get* times when the message is received. Both start
    with the put.
    """

    messages: int
    swept_per_s: float
    turn_longest_ms: float  # the longest turn during the removal, of all rounds
    put_p99_ms: float  # p99 latency during the removal
    put_p99_ms_else: float  # p99 latency before and after the removal
    put_p99_ratio: float
    put_p50_ratio: float
    get_p99_ms: float
    get_p99_ms_else: float
    get_p99_ratio: float
    fill_per_s: float

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        what = f"longest turn while {self.messages:,} messages expire"
        return [at_most(what, self.turn_longest_ms, TURN_MAX_MS, "ms")]

    def bars(self) -> tuple[str, Bars]:
        """Returns the latencies of the other client as bars."""
        return "p99 in ms from a put to its answer and receipt, medians", [
            ("put, during expiry", self.put_p99_ms, True),
            ("put, before and after", self.put_p99_ms_else, False),
            ("receipt, during expiry", self.get_p99_ms, True),
            ("receipt, before and after", self.get_p99_ms_else, False),
        ]


@dataclass(slots=True)
class OtherTraffic:
    """The latencies of the other client in one period."""

    put: Latency = field(default_factory=Latency)
    got: Latency = field(default_factory=Latency)

    def put_ms(self, percent: float) -> float:
        """Returns the latency in ms that *percent* of the puts did not exceed."""
        return self.put.percentile_ms(percent) or 0.0

    def got_ms(self, percent: float) -> float:
        """Returns the ms from put to receipt that *percent* of the messages did not exceed."""
        return self.got.percentile_ms(percent) or 0.0


@dataclass(slots=True)
class Round:
    """The results of one round."""

    fill_per_s: float = 0.0
    swept_per_s: float = 0.0
    turn_longest_ms: float = 0.0
    during: OtherTraffic = field(default_factory=OtherTraffic)
    beside: OtherTraffic = field(default_factory=OtherTraffic)


def expiry(setting: Setting) -> Expired:
    """Lets a million messages expire in each round."""
    messages = setting.scaled(MESSAGES)
    setting.check_disk(messages)
    rounds = []
    with Host(setting.directory / "expiry") as host:
        for queue in (QUEUE, OTHER, SAMPLES):
            host.ask(m.QueueCreate, queue)
        for number in range(setting.rounds):
            setting.say(f"EXPIRY: round {number + 1} of {setting.rounds}")
            rounds.append(_round(host, messages, setting))
    put, put_else, got, got_else = (
        [found.put_ms(99) for found in (one.during for one in rounds)],
        [found.put_ms(99) for found in (one.beside for one in rounds)],
        [found.got_ms(99) for found in (one.during for one in rounds)],
        [found.got_ms(99) for found in (one.beside for one in rounds)],
    )
    p50 = [one.during.put_ms(50) for one in rounds], [one.beside.put_ms(50) for one in rounds]
    return Expired(
        messages,
        round(median([one.swept_per_s for one in rounds])),
        max(one.turn_longest_ms for one in rounds),
        median(put),
        median(put_else),
        median_ratio(put, put_else),
        median_ratio(*p50),
        median(got),
        median(got_else),
        median_ratio(got, got_else),
        round(median([one.fill_per_s for one in rounds])),
    )


def _round(host: Host, messages: int, setting: Setting) -> Round:
    found = Round()
    beside_s = setting.seconds / 2
    per_s = _fill(host, SAMPLES, min(SAMPLE, messages), math.inf, setting)
    host.ask(m.QueuePurge, SAMPLES)
    host.wait_for_jobs()
    moment_s = time.monotonic() + messages / per_s * SLOWER + beside_s + SPARE_S
    found.fill_per_s = _fill(host, QUEUE, messages, moment_s, setting)
    os.sync()  # Earlier writes must not be flushed during the round.
    work(host, beside_s, found.beside)
    if time.monotonic() > moment_s:
        raise LoadFailed(
            f"{messages:,} messages expired before the start of the measurement, because "
            f"filling slowed down to "
            f"{found.fill_per_s:,.0f} messages per second: run the row again on an idle machine"
        )
    time.sleep(max(moment_s - time.monotonic(), 0))
    host.ask(m.Status)  # This request resets the longest turn.
    found.swept_per_s = messages / (_sweep(host, found.during) - moment_s)
    found.turn_longest_ms = host.ask(m.Status)["turn_longest_us"] / 1000
    work(host, beside_s, found.beside)
    return found


def _sweep(host: Host, others: OtherTraffic) -> float:
    """Keeps the other client busy until all messages have expired. Returns the time then.

    Raises:
        LoadFailed: The messages are not removed in time.
    """
    start_s = time.monotonic()
    work(host, SLICE_S, others)
    while left := host.depth(QUEUE):
        if time.monotonic() > start_s + GONE_MAX_S:
            raise LoadFailed(f"{left:,} messages did not expire within {GONE_MAX_S:g} s")
        work(host, SLICE_S, others)
    return time.monotonic()


def _fill(host: Host, queue: str, messages: int, moment_s: float, setting: Setting) -> float:
    """Puts *messages* that all expire at *moment_s*. Returns the rate in messages per second."""

    def record_of(number: int) -> bytes:
        del number
        left_ms = min((moment_s - time.monotonic()) * 1000, SAMPLE_EXPIRY_MS)
        return encode(Fields(BODY, expiry_ms=max(int(left_ms), 1)))

    with Wire(host.address, "bench.fill") as wire:
        sender = BatchSender(wire, queue, record_of)
        return pour(sender, messages, f"EXPIRY: filling {queue}", setting.say)


def work(host: Host, seconds: float, others: OtherTraffic) -> None:
    """Puts and gets at an even pace for *seconds*, and adds the times to *others*."""
    with ExitStack() as stack:
        to, back = (
            stack.enter_context(Wire(host.address, f"bench.{role}")) for role in ("other", "getter")
        )
        plan = Plan(INFLIGHT, seconds, rate=RATE_PER_S)
        outcome = Load(plan, [sender_on(to, OTHER)], QmgrReceiver(back, OTHER, PREFETCH)).run()
    others.put.pool(outcome.put)
    others.got.pool(outcome.end_to_end)
