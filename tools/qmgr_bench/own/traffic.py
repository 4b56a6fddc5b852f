"""Puts and gets on one daemon, for the rows without peers."""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from qmgr_bench.figures import Figures
from qmgr_bench.host import Host
from qmgr_bench.load import Load, Plan, Sender
from qmgr_bench.qmgr import QmgrReceiver, QmgrSender, Wire, bodies, records
from qmgr_bench.rows import PREFETCH

SIZE_BYTES = 256
INFLIGHT = 256  # number of puts in flight, as in W1b
FILL_INFLIGHT = 4_096  # the largest window that a daemon grants
FILL_SLICE = 100_000  # number of messages between two progress reports
FOREVER_S = float("inf")


def sender_on(
    wire: Wire, queue: str, size_bytes: int = SIZE_BYTES, *, coalesce: bool = True
) -> QmgrSender:
    """Returns a producer for *queue* on the connection *wire*."""
    return QmgrSender(wire, queue, pool_of(size_bytes), coalesce=coalesce)


@lru_cache(maxsize=2)
def pool_of(size_bytes: int) -> list[bytes]:
    """Returns the records to put. The result is cached because many connections share it."""
    return records(bodies(size_bytes, vary=True))


def fill(
    host: Host, queue: str, messages: int, say: Callable[[str], None], size_bytes: int = SIZE_BYTES
) -> float:
    """Puts *messages* on *queue* as fast as possible. Returns the rate in messages per second."""
    with Wire(host.address, "bench.fill") as wire:
        sender = sender_on(wire, queue, size_bytes)
        return pour(sender, messages, f"{host.name}: filling {queue}", say)


def pour(sender: Sender, messages: int, words: str, say: Callable[[str], None]) -> float:
    """Puts *messages* with *sender* and reports the progress. Returns the rate per second."""
    start_s, done, rate = time.monotonic(), 0, 0.0
    while done < messages:
        slice_messages = min(FILL_SLICE, messages - done)
        Load(Plan(FILL_INFLIGHT, FOREVER_S, slice_messages), [sender]).run()
        done += slice_messages
        rate = done / (time.monotonic() - start_s)
        say(f"{words}: {done:,} of {messages:,}, {rate:,.0f} per second")
    return round(rate)


def put(host: Host, queue: str, seconds: float, *, coalesce: bool = True) -> Figures:
    """Runs W1b on *queue* for *seconds*, or W1b-1 without *coalesce*."""
    with Wire(host.address, "bench.producer") as wire:
        sender = sender_on(wire, queue, coalesce=coalesce)
        before_s = host.cpu_s()
        outcome = Load(Plan(INFLIGHT, seconds), [sender]).run()
        return Figures.of(outcome, host.cpu_s() - before_s)


def get(host: Host, queue: str, count: int) -> Figures:
    """Runs W3 on *queue*: gets and acknowledges *count* messages or a few more."""
    with Wire(host.address, "bench.consumer") as wire:
        receiver = QmgrReceiver(wire, queue, PREFETCH)
        before_s = host.cpu_s()
        outcome = Load(Plan(0, FOREVER_S, count), [], receiver).run()
        return Figures.of(outcome, host.cpu_s() - before_s)


def rates(pulses: Sequence[Figures]) -> list[float]:
    """Returns the messages per second of each run."""
    return [pulse.messages_per_second for pulse in pulses]
