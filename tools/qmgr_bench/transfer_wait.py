"""The time until a message is available at the far end while its batch is still being sent.

    link      a sender, one message every 2 ms ──▶ FROM ──link──▶ TO ──▶ a waiting consumer
    channel   the same sender ──▶ FROM: BATCH ──a mover──▶ TO: BATCHED ──▶ a waiting consumer

The mover is a process that works like a channel with batches (transfer_mover.py).
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
# The times in s at which each message of a batch was sent and received.
Times = tuple[list[float], list[float]]


@dataclass(frozen=True, slots=True)
class Wait:
    """The medians over the batches."""

    way: str
    first_ms: float  # time from the sending of the first message to its receipt
    median_ms: float  # median time of a batch's messages, from sending to receipt
    batch_ms: float  # time from the sending of the first message to the receipt of the last


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
    """Measures the link and the channel alternately."""
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
    """Runs a process that moves batches like a channel, until the block ends."""
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
    """Waits for a consumer of *queue*, so that the measurement starts after it has connected."""
    wait_until(lambda: host.ask(m.QueueShow, queue)["consumers"] > 0, f"{queue} has no consumer")


def trickle(near: Client, queue: str, pool: list[bytes]) -> list[float]:
    """Puts *pool* on *queue* one at a time with pauses. Returns the times of sending."""
    sent: list[float] = []
    start_s = time.monotonic()
    for at, body in enumerate(pool):
        time.sleep(max(start_s + at * EVERY_S - time.monotonic(), 0))
        sent.append(time.monotonic())
        # The consumer receives each message, so the result need not be checked.
        near.submit(queue, body)
    return sent


def receive(far: Client, queue: str, count: int) -> list[float]:
    """Consumes *count* messages as soon as possible. Returns the times of receipt."""
    times: list[float] = []
    with far.consume(queue) as consumer:
        for message in consumer:
            times.append(time.monotonic())
            far.ack_soon(message)
            if len(times) == count:
                break
    return times
