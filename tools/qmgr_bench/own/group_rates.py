"""The rates at which grouped and ungrouped messages are put, and acknowledged by a consumer.

Each round measures both kinds with new queues. The records are made beforehand, because each group
is new.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from qmgr_bench.figures import Figures
from qmgr_bench.host import Host
from qmgr_bench.load import Load, Plan
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.batches import BatchSender
from qmgr_bench.own.traffic import FOREVER_S, SIZE_BYTES, rates
from qmgr_bench.qmgr import QmgrReceiver, Wire, bodies
from qmgr_bench.rows import PREFETCH, ROWS
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m
from qmgr_protocol.record import GROUP_ID_BYTES, Fields, encode

MEMBERS = 100  # number of messages per group
# number of messages in a run, per second of the setting
MESSAGES_A_SECOND = 40_000
LIKE = ("W1b", "W1c")  # rows that define the producers and windows of the puts
QUEUE = "RATES"
BODIES = bodies(SIZE_BYTES, vary=True)[:MEMBERS]


@dataclass(frozen=True, slots=True)
class RateOf:
    """The results of one kind of work. Fields with ``plain`` are for ungrouped messages."""

    work: str
    messages_per_s: float
    cpu_us: float  # processor time of the daemon per message
    plain_messages_per_s: float
    plain_cpu_us: float
    ratio: float  # grouped messages per second, relative to ungrouped ones
    cpu_ratio: float


def group_rates(setting: Setting) -> list[RateOf]:
    """Puts and consumes grouped and ungrouped messages, alternately."""
    count = max(round(MESSAGES_A_SECOND * setting.seconds * setting.scale), 2 * MEMBERS)
    setting.check_disk(2 * count)
    found: dict[str, tuple[list[Figures], list[Figures]]] = {}
    with Host(setting.directory / "rates") as host:
        for number in range(setting.rounds):
            setting.say(f"GROUP: rates, round {number + 1} of {setting.rounds}")
            for row in LIKE:
                for grouped in (True, False) if number % 2 else (False, True):
                    put, got = run_of(host, row, count, grouped=grouped)
                    for work, pulse in ((put_name(row), put), (get_name(row), got)):
                        found.setdefault(work, ([], []))[not grouped].append(pulse)
    return [_rate_of(work, *runs) for work, runs in found.items()]


def put_name(row: str) -> str:
    """Returns the name of puts with the producers of *row*."""
    return f"put as in {row}"


def get_name(row: str) -> str:
    """Returns the name of gets after such puts."""
    return f"get and ack, put as in {row}"


def run_of(host: Host, row: str, count: int, *, grouped: bool) -> tuple[Figures, Figures]:
    """Puts *count* messages with the producers of *row*, and consumes them."""
    like = ROWS[row]
    host.ask(m.QueueCreate, QUEUE)
    with ExitStack() as stack:
        senders = []
        for number in range(like.producers):
            wire = stack.enter_context(Wire(host.address, "bench.producer"))
            # One of many producers may put more than an equal share.
            made = records_of(number, 2 * count // like.producers, grouped=grouped)
            senders.append(BatchSender(wire, QUEUE, made))
        os.sync()  # Earlier writes must not be flushed during the run.
        put = _ran(host, Load(Plan(like.inflight, FOREVER_S, count), senders))
    with Wire(host.address, "bench.consumer") as wire:
        order = m.PINNED if grouped else m.PHYSICAL
        receiver = QmgrReceiver(wire, QUEUE, PREFETCH, order=order)
        got = _ran(host, Load(Plan(0, FOREVER_S, count), [], receiver))
    host.ask(m.QueueDelete, QUEUE, True)
    host.wait_for_jobs()
    return put, got


def records_of(producer: int, count: int, *, grouped: bool) -> Callable[[int], bytes]:
    """Returns a function that returns a producer's record by number.

    The first *count* records are made in advance.
    """

    def made(number: int) -> bytes:
        body, (group, at) = BODIES[number % len(BODIES)], divmod(number, MEMBERS)
        if not grouped:
            return encode(Fields(body))
        group_id = f"{producer}.{group}".encode().ljust(GROUP_ID_BYTES, b"\0")
        return encode(Fields(body, group=(group_id, at + 1, at + 1 == MEMBERS)))

    pool = [made(number) for number in range(count)]
    return lambda number: pool[number] if number < count else made(number)


def _ran(host: Host, load: Load) -> Figures:
    before_ns = host.cpu_ns()
    outcome = load.run()
    return Figures.of(outcome, (host.cpu_ns() - before_ns) / 1e9)


def _rate_of(work: str, grouped: Sequence[Figures], plain: Sequence[Figures]) -> RateOf:
    cpus = [[pulse.server_cpu_us for pulse in pulses] for pulses in (grouped, plain)]
    return RateOf(
        work,
        median(rates(grouped)),
        median(cpus[0]),
        median(rates(plain)),
        median(cpus[1]),
        median_ratio(rates(grouped), rates(plain)),
        median_ratio(*cpus),
    )
