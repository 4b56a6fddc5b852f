"""Puts and gets on one daemon, as the rows of our own need them."""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from qmgr_bench.host import Host
from qmgr_bench.load import Load, Plan, Sender
from qmgr_bench.pulse import Pulse
from qmgr_bench.qmgr import QmgrReceiver, QmgrSender, Wire, bodies, records
from qmgr_bench.rows import PREFETCH

SIZE_BYTES = 256
INFLIGHT = 256  # that of W1b
FILL_INFLIGHT = 4_096  # what a daemon grants at most
FILL_SLICE = 100_000  # messages between two words about how far it is
FOREVER_S = float("inf")


def sender_on(
    wire: Wire, queue: str, size_bytes: int = SIZE_BYTES, *, coalesce: bool = True
) -> QmgrSender:
    """Returns a producer of *queue* over *wire*."""
    return QmgrSender(wire, queue, pool_of(size_bytes), coalesce=coalesce)


@lru_cache(maxsize=2)
def pool_of(size_bytes: int) -> list[bytes]:
    """Returns what is put, as records; kept, since many connections share it."""
    return records(bodies(size_bytes, vary=True))


def fill(
    host: Host, queue: str, messages: int, say: Callable[[str], None], size_bytes: int = SIZE_BYTES
) -> float:
    """Puts so many *messages* on *queue*, as fast as it goes; return how many went a second."""
    with Wire(host.address, "bench.fill") as wire:
        sender = sender_on(wire, queue, size_bytes)
        return pour(sender, messages, f"{host.name}: filling {queue}", say)


def pour(sender: Sender, messages: int, words: str, say: Callable[[str], None]) -> float:
    """Have *sender* put so many *messages*, say how far it is; return how many went a second."""
    start_s, done, rate = time.monotonic(), 0, 0.0
    while done < messages:
        slice_messages = min(FILL_SLICE, messages - done)
        Load(Plan(FILL_INFLIGHT, FOREVER_S, slice_messages), [sender]).run()
        done += slice_messages
        rate = done / (time.monotonic() - start_s)
        say(f"{words}: {done:,} of {messages:,}, {rate:,.0f} a second")
    return round(rate)


def put(host: Host, queue: str, seconds: float, *, coalesce: bool = True) -> Pulse:
    """Does W1b on *queue*: one producer, 256 in flight, for so many *seconds*; or W1b-1."""
    with Wire(host.address, "bench.producer") as wire:
        sender = sender_on(wire, queue, coalesce=coalesce)
        before_s = host.cpu_s()
        outcome = Load(Plan(INFLIGHT, seconds), [sender]).run()
        return Pulse.of(outcome, host.cpu_s() - before_s)


def get(host: Host, queue: str, count: int) -> Pulse:
    """Does W3 on *queue*: *count* messages or a few more, 256 ahead, each acknowledged."""
    with Wire(host.address, "bench.consumer") as wire:
        receiver = QmgrReceiver(wire, queue, PREFETCH)
        before_s = host.cpu_s()
        outcome = Load(Plan(0, FOREVER_S, count), [], receiver).run()
        return Pulse.of(outcome, host.cpu_s() - before_s)


def rates(pulses: Sequence[Pulse]) -> list[float]:
    """Returns the messages a second of each."""
    return [pulse.messages_per_second for pulse in pulses]
