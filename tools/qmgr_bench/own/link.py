"""LINK: the capacity of one link between two daemons on this machine, compared with W1b and W3.

preloaded   FROM: Q@TO holds a backlog, the link starts ──▶ TO: Q holds the whole backlog
live        a producer at FROM ──▶ link ──▶ a consumer at TO that acknowledges each message
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from qmgr_bench.host import Host
from qmgr_bench.load import Load, LoadFailed, Plan
from qmgr_bench.median import median
from qmgr_bench.own.traffic import INFLIGHT, fill, get, put, sender_on
from qmgr_bench.qmgr import QmgrReceiver, Wire
from qmgr_bench.rows import PREFETCH
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_least
from qmgr_protocol import messages as m

MESSAGES = 200_000
POLL_S = 0.005
SILENCE_MAX_S = 20.0
QUEUE, LOCAL, FROM, TO = "Q", "LOCAL", "FROM", "TO"
REMOTE = f"{QUEUE}@{TO}"


@dataclass(frozen=True, slots=True)
class Transfer:
    """The results of one transfer over the link."""

    messages_per_second: float
    from_cpu_us: float  # processor time of the sending daemon, per message
    to_cpu_us: float
    end_to_end_p50_ms: float = 0.0  # time from put to receipt in a live stream
    end_to_end_p99_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Linked:
    """The results of row LINK."""

    messages: int  # number of preloaded messages
    per_s: float
    from_cpu_us: float
    to_cpu_us: float
    put_per_s_w1b: float
    get_per_s_w3: float
    ratio: float  # transfer rate, relative to a quarter of W1b + W3
    live_per_s: float
    live_from_cpu_us: float
    live_to_cpu_us: float
    live_p50_ms: float
    live_p99_ms: float

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        return [at_least("transfer rate, relative to a quarter of W1b + W3", self.ratio, 1.0)]

    def bars(self) -> tuple[str, Bars]:
        """Returns the rates as bars."""
        return "messages per second, medians", [
            ("link", self.per_s, True),
            ("live stream", self.live_per_s, True),
            ("(W1b + W3) / 4", (self.put_per_s_w1b + self.get_per_s_w3) / 4, False),
        ]


def link(setting: Setting) -> Linked:
    """Measures W1b and W3 on one daemon, then the link, alternately."""
    messages = setting.scaled(MESSAGES)
    puts, gets, preloaded, live = [], [], [], []
    with Host(setting.directory / "from", FROM) as source, Host(setting.directory / "to", TO) as to:
        to.ask(m.QueueCreate, QUEUE)
        to.ask(m.QueueCreate, LOCAL)
        to.ask(m.LinkAllow, FROM)
        source.ask(m.LinkCreate, TO, {"addresses": [to.address], "stopped": True})
        source.ask(m.QueueCreate, REMOTE)
        for number in range(setting.rounds):
            setting.say(f"LINK: round {number + 1} of {setting.rounds}")
            pulse = put(to, LOCAL, setting.seconds)
            puts.append(pulse.messages_per_second)
            gets.append(get(to, LOCAL, pulse.messages).messages_per_second)
            preloaded.append(transfer(source, to, messages, setting.say))
            live.append(stream(source, to, setting.seconds))
            source.ask(m.LinkStop, TO)
            to.wait_for_jobs()
    rates = [one.messages_per_second for one in preloaded]
    return Linked(
        messages,
        median(rates),
        median([one.from_cpu_us for one in preloaded]),
        median([one.to_cpu_us for one in preloaded]),
        median(puts),
        median(gets),
        median([share(*one) for one in zip(rates, puts, gets, strict=True)]),
        median([one.messages_per_second for one in live]),
        median([one.from_cpu_us for one in live]),
        median([one.to_cpu_us for one in live]),
        median([one.end_to_end_p50_ms for one in live]),
        median([one.end_to_end_p99_ms for one in live]),
    )


def share(transferred_per_s: float, put_per_s: float, get_per_s: float) -> float:
    """Returns the transfer rate as a fraction of a quarter of the puts and gets.

    A transferred message is put and got at both ends.
    """
    return transferred_per_s / ((put_per_s + get_per_s) / 4)


def transfer(source: Host, to: Host, messages: int, say: Callable[[str], None]) -> Transfer:
    """Preloads the transmission queue and starts the link.

    Returns the figures from that start until all messages are stored at *to*.
    """
    fill(source, REMOTE, messages, say)
    before_s = source.cpu_s(), to.cpu_s()
    with (
        Wire(source.address, "bench.control") as at_source,
        Wire(to.address, "bench.control") as at_to,
    ):
        start_s = time.monotonic()
        at_source.ask(m.LinkStart, TO)
        await_all(lambda: messages - at_to.ask(m.QueueShow, QUEUE)["depth"], at_source)
        seconds = time.monotonic() - start_s
        await_all(lambda: at_source.ask(m.LinkShow, TO)["waiting"], at_source)
        cpu_us = _cpu_us(source, to, before_s, messages)
        at_to.ask(m.QueuePurge, QUEUE)
    return Transfer(round(messages / seconds), *cpu_us)


def await_all(missing: Callable[[], int], at_source: Wire) -> None:
    """Returns once *missing* returns 0.

    Raises:
        LoadFailed: The number did not fall for SILENCE_MAX_S.
    """
    least, moved_s = missing(), time.monotonic()
    while least > 0:
        time.sleep(POLL_S)
        now = missing()
        if now < least:
            least, moved_s = now, time.monotonic()
        elif time.monotonic() > moved_s + SILENCE_MAX_S:
            row = at_source.ask(m.LinkShow, TO)
            why = f"its state is {row['state']} with {row['error'] or 'no error'}"
            raise LoadFailed(f"{least:,} messages did not arrive over the link: {why}")


def stream(source: Host, to: Host, seconds: float) -> Transfer:
    """Puts at *source* and gets at *to* at the same time, over the running link."""
    with Wire(source.address, "bench.producer") as one, Wire(to.address, "bench.consumer") as other:
        sender = sender_on(one, REMOTE)
        receiver = QmgrReceiver(other, QUEUE, PREFETCH)
        before_s = source.cpu_s(), to.cpu_s()
        outcome = Load(Plan(INFLIGHT, seconds), [sender], receiver).run()
        cpu_us = _cpu_us(source, to, before_s, outcome.messages)
    p50_ms, p99_ms = (outcome.end_to_end.percentile_ms(percent) or 0.0 for percent in (50, 99))
    return Transfer(round(outcome.messages / outcome.seconds), *cpu_us, p50_ms, p99_ms)


def _cpu_us(
    source: Host, to: Host, before_s: tuple[float, float], messages: int
) -> tuple[float, float]:
    used_s = source.cpu_s() - before_s[0], to.cpu_s() - before_s[1]
    return round(used_s[0] * 1e6 / messages, 2), round(used_s[1] * 1e6 / messages, 2)
