"""The time until a message is available at the far end, while its batch is still being sent.

    link      a sender, one message each 2 ms ──▶ FROM ──link──▶ TO ──▶ a consumer, which waits
    channel   the same sender ──▶ FROM: BATCH ──a mover──▶ TO: BATCHED ──▶ a consumer, which waits

The mover is a process that works like a channel with batches: see transfer_mover.py.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from qmgr_bench.host import Host
from qmgr_bench.median import median
from qmgr_bench.own.link import QUEUE, REMOTE
from qmgr_bench.pair import Pair, wait_until
from qmgr_bench.qmgr import bodies
from qmgr_bench.server import Program
from qmgr_client.blocking import Client, connect
from qmgr_protocol import messages as m

TRANSMISSION, BATCHED = "BATCH", "BATCHED"
EVERY_S = 0.002
ROUNDS = 5
RESULT_MAX_S = 30.0
# When each message of a batch was sent, and when it was got, in s.
Times = tuple[list[float], list[float]]


@dataclass(frozen=True, slots=True)
class Wait:
    """Medians over the batches."""

    way: str
    first_ms: float  # from the sending of the first message until it is got
    median_ms: float  # of all messages of a batch, each from its own sending
    batch_ms: float  # from the sending of the first message until all are got


def of_times(way: str, batches: Sequence[Times]) -> Wait:
    """Returns the medians of *batches*."""
    firsts = [(got[0] - sent[0]) * 1000 for sent, got in batches]
    waits = [
        median([(there - here) * 1000 for here, there in zip(*batch, strict=True)])
        for batch in batches
    ]
    wholes = [(got[-1] - sent[0]) * 1000 for sent, got in batches]
    return Wait(way, *(round(median(one), 2) for one in (firsts, waits, wholes)))


def waits(pair: Pair, size_bytes: int, batch: int, rounds: int = ROUNDS) -> list[Wait]:
    """Measures both ways, in turns."""
    for host, queue in ((pair.source, TRANSMISSION), (pair.to, BATCHED)):
        host.ask(m.QueueCreate, queue)
    pair.lead(pair.to.address)
    pool = bodies(size_bytes, vary=True)[:batch]
    over_link: list[Times] = []
    over_channel: list[Times] = []
    with (
        pair.started(),
        mover(pair, batch),
        connect(pair.source.address, name="bench.producer") as near,
        connect(pair.to.address, name="bench.consumer") as far,
        ThreadPoolExecutor(1) as beside,
    ):
        for _ in range(rounds):
            for queue, there, times in (
                (REMOTE, QUEUE, over_link),
                (TRANSMISSION, BATCHED, over_channel),
            ):
                got = beside.submit(receive, far, there, len(pool))
                await_consumer(pair.to, there)
                sent = trickle(near, queue, pool)
                times.append((sent, got.result(RESULT_MAX_S)))
    channel = f"channel, batches of {batch}"
    return [of_times("link", over_link), of_times(channel, over_channel)]


@contextmanager
def mover(pair: Pair, batch: int) -> Iterator[None]:
    """Runs a process that moves batches, as a channel does, until the block ends."""
    program = Program("the mover of batches")
    ends = pair.source.address, TRANSMISSION, pair.to.address, BATCHED
    words = [sys.executable, "-m", "qmgr_bench.transfer_mover", *ends, str(batch)]
    program.start(words, pair.source.directory)
    try:
        await_consumer(pair.source, TRANSMISSION)
        yield
    finally:
        program.stop()


def await_consumer(host: Host, queue: str) -> None:
    """Returns once *queue* has a consumer, so that connecting is not measured."""
    wait_until(lambda: host.ask(m.QueueShow, queue)["consumers"] > 0, f"no consumer of {queue}")


def trickle(near: Client, queue: str, pool: list[bytes]) -> list[float]:
    """Puts *pool* at *near* on *queue*, one at a time with pauses; returns when each was sent."""
    sent: list[float] = []
    start_s = time.monotonic()
    for at, body in enumerate(pool):
        time.sleep(max(start_s + at * EVERY_S - time.monotonic(), 0))
        sent.append(time.monotonic())
        near.submit(queue, body)  # The consumer sees the result.
    return sent


def receive(far: Client, queue: str, count: int) -> list[float]:
    """Returns when each of *count* messages was got, as soon as possible."""
    times: list[float] = []
    with far.consume(queue) as consumer:
        for message in consumer:
            times.append(time.monotonic())
            far.ack_soon(message)
            if len(times) == count:
                break
    return times
