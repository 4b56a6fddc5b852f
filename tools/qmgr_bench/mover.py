"""The methods by which peers move messages between servers, for comparison with a link.

Both ends flush before they acknowledge, as everywhere in the benchmark. Each run moves a backlog.
The measured time lasts from the first arrival to the last, so it excludes the start of the
transfer.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from qmgr_bench.load import LoadFailed
from qmgr_bench.nats import SUBJECT, NatsServer
from qmgr_bench.pair import Pull
from qmgr_bench.qmgr import bodies
from qmgr_bench.rabbitmq import Channel, RabbitServer, depth
from qmgr_bench.server import QUEUE, Server, free_port

POLL_S = 0.01
SILENCE_MAX_S = 30.0
US_PER_S = 1_000_000


class Mover(Protocol):
    """A peer's method of moving messages."""

    name: str
    about: str

    def version(self) -> str | None:
        """Returns the installed version, or None."""

    def move(self, directory: Path, messages: int, size_bytes: int) -> Pull:
        """Starts both servers with their data in *directory*, moves a backlog, and stops them."""


class Shovel:
    """RabbitMQ's shovel, which runs on the receiving node with a consumer at the sending node."""

    name = "rabbitmq"
    about = "shovel on the receiving node, on-confirm, quorum queues"

    def version(self) -> str | None:
        """Returns the installed version, or None."""
        return RabbitServer().version()

    def move(self, directory: Path, messages: int, size_bytes: int) -> Pull:
        """Starts both servers with their data in *directory*, moves a backlog, and stops them."""
        source, to = RabbitServer(), RabbitServer("rabbitmq_shovel")
        with _running(directory, source, to):
            source.start(directory / "from")
            to.start(directory / "to")
            source.preload(messages, bodies(size_bytes, vary=True))
            channel = Channel(to.address)
            with channel.sock:
                return timed(
                    lambda: _shovel(source.address, to),
                    lambda: depth(channel),
                    messages,
                    (source, to),
                )


def _shovel(source: str, to: RabbitServer) -> None:
    definition = (
        f'{{"src-protocol":"amqp091","src-uri":"amqp://{source}","src-queue":"{QUEUE}",'
        f'"dest-protocol":"amqp091","dest-uri":"amqp://{to.address}","dest-queue":"{QUEUE}",'
        '"ack-mode":"on-confirm"}'
    )
    to.control("set_parameter", "shovel", "bench", definition)


class Source:
    """A NATS stream that has another stream as its source, over the connection of a leaf node.

    NATS copies the messages and deletes nothing at the source, which is less work than a link does.
    """

    name = "nats"
    about = (
        "a stream with a source over a leaf node, sync_interval: always; a copy, without deletion"
    )

    def version(self) -> str | None:
        """Returns the installed version, or None."""
        return NatsServer().version()

    def move(self, directory: Path, messages: int, size_bytes: int) -> Pull:
        """Starts both servers with their data in *directory*, moves a backlog, and stops them."""
        address = f"127.0.0.1:{free_port()}"
        source = NatsServer("FROM", f'listen: "{address}"')
        to = NatsServer("TO", f'remotes: [ {{ url: "nats://{address}" }} ]')
        with _running(directory, source, to):
            source.start_empty(directory / "from")
            source.make_stream(subjects=[SUBJECT])
            source.preload(messages, bodies(size_bytes, vary=True))
            to.start_empty(directory / "to")
            there = [{"name": QUEUE, "external": {"api": "$JS.FROM.API", "deliver": ""}}]
            return timed(lambda: to.make_stream(sources=there), to.depth, messages, (source, to))


MOVERS: tuple[Mover, ...] = (Shovel(), Source())


@contextmanager
def _running(directory: Path, *servers: Server) -> Iterator[None]:
    with ExitStack() as stops:
        for name, server in zip(("from", "to"), servers, strict=True):
            (directory / name).mkdir(parents=True)
            stops.callback(server.stop)
        yield


def timed(
    begin: Callable[[], None], there: Callable[[], int], messages: int, servers: Sequence[Server]
) -> Pull:
    """Moves a backlog and returns the figures of the transfer.

    Args:
        begin: The function that starts the transfer.
        there: The function that returns the number of messages that have arrived.
        messages: The number of messages in the backlog.
        servers: The sending server and the receiving server.

    Raises:
        LoadFailed: Nothing arrived for SILENCE_MAX_S, or most messages arrived before the first
            check.
    """
    before_s = [server.cpu_s() for server in servers]
    begin()
    first, seen, start_s, moved_s = 0, 0, 0.0, time.monotonic()
    while seen < messages:
        time.sleep(POLL_S)
        now_s, count = time.monotonic(), there()
        if count > seen:
            if not seen:
                first, start_s = count, now_s
            seen, moved_s = count, now_s
        elif now_s > moved_s + SILENCE_MAX_S:
            raise LoadFailed(f"{messages - seen:,} of {messages:,} messages did not arrive")
    if messages - first < messages / 2:
        raise LoadFailed(f"{first:,} of {messages:,} messages arrived together, too fast to time")
    seconds = moved_s - start_s
    used_us = (
        (server.cpu_s() - before) * US_PER_S
        for server, before in zip(servers, before_s, strict=True)
    )
    cpu_us = (round(us / messages, 2) for us in used_us)
    return Pull(round((messages - first) / seconds), *cpu_us)
