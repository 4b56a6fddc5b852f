"""Peers with many durable subscribers, for comparison with our topics.

    sender ──puts──▶ one stream or exchange ──▶ n subscribers, each with a connection

Each peer is configured to be as durable as possible. As in the other rows, acknowledged data is on
disk.
"""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from qmgr_bench.load import Receiver, Sender, dial
from qmgr_bench.nats import SUBJECT, NatsReceiver, NatsServer
from qmgr_bench.rabbitmq import Channel, RabbitReceiver, RabbitSender, RabbitServer, make, short
from qmgr_bench.redis import RedisReceiver, RedisServer, ask
from qmgr_bench.server import QUEUE

# With a short wait, a thousand readers would keep the server busy with empty answers.
BLOCK_MS = 10_000
EXCHANGE, KEY, FILTER = "flights", "flights.JFK.UA", "flights.#"


class Fan(Protocol):
    """A server with durable subscribers to one topic."""

    name: str
    about: str
    # maximum number of subscriptions at which the server is about as fast as our daemon
    subscriptions_max: int

    def version(self) -> str | None:
        """Returns the installed version, or None."""

    def start(self, directory: Path, subscriptions: int) -> None:
        """Starts the server with its data in *directory*, and creates the subscriptions."""

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new connection that publishes the bodies of *pool* in turn."""

    def receivers(self, prefetch: int, size_bytes: int) -> list[Receiver]:
        """Returns a new connection for each subscription."""

    def cpu_s(self) -> float:
        """Returns the processor time of the server in seconds."""

    def stop(self) -> None:
        """Stops the server."""


class RedisFan:
    """A stream with many reader groups. Nothing is deleted during the run."""

    name = "redis"
    about = (
        "a stream, one group per subscriber; appendfsync always; one XACK per read, nothing deleted"
    )
    subscriptions_max = 1_000

    def __init__(self) -> None:
        self._server = RedisServer("redis", batch=True)
        self._groups: list[bytes] = []

    def version(self) -> str | None:
        """Returns the version of the redis-server on PATH, or None."""
        return self._server.version()

    def start(self, directory: Path, subscriptions: int) -> None:
        """Starts a Redis server and creates the groups."""
        self._server.start(directory)
        self._groups = [b"g%d" % number for number in range(subscriptions)]
        with dial(self._server.address) as sock:
            for group in self._groups:
                ask(sock, b"XGROUP", b"CREATE", QUEUE.encode(), group, b"0")

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new connection that adds entries to the stream."""
        return self._server.sender(pool)

    def receivers(self, prefetch: int, size_bytes: int) -> list[Receiver]:
        """Returns a consumer of each group."""
        return [
            RedisReceiver(
                dial(self._server.address),
                QUEUE.encode(),
                prefetch,
                size_bytes,
                batch=True,
                group=group,
                deletes=False,
                block_ms=BLOCK_MS,
            )
            for group in self._groups
        ]

    def cpu_s(self) -> float:
        """Returns the processor time of the server in seconds."""
        return self._server.cpu_s()

    def stop(self) -> None:
        """Stops the server."""
        self._server.stop()


class NatsFan:
    """A JetStream stream with many durable consumers."""

    name = "nats"
    # The flush frequency was measured with strace.
    about = (
        "JetStream, interest, sync_interval: always; one durable consumer per subscriber, whose "
        "acks are flushed after their answers, a few times per second"
    )
    subscriptions_max = 1_000

    def __init__(self) -> None:
        self._server = NatsServer()
        self._subscriptions = 0

    def version(self) -> str | None:
        """Returns the version of the nats-server on PATH, or None. The version may be too old."""
        return self._server.version()

    def start(self, directory: Path, subscriptions: int) -> None:
        """Starts a server and creates the stream. Each receiver creates its consumer later."""
        self._server.start_empty(directory)
        self._server.make_stream(subjects=[SUBJECT], retention="interest")
        self._subscriptions = subscriptions

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new connection that publishes messages."""
        return self._server.sender(pool)

    def receivers(self, prefetch: int, size_bytes: int) -> list[Receiver]:
        """Creates the consumers, before any put. Returns a connection for each consumer."""
        del size_bytes
        found: list[Receiver] = []
        for number in range(self._subscriptions):
            receiver = NatsReceiver(dial(self._server.address), prefetch, f"c{number}")
            receiver.make()
            found.append(receiver)
        return found

    def cpu_s(self) -> float:
        """Returns the processor time of the server in seconds."""
        return self._server.cpu_s()

    def stop(self) -> None:
        """Stops the server."""
        self._server.stop()


class RabbitFan:
    """A topic exchange with a quorum queue for each subscriber."""

    name = "rabbitmq"
    about = "a topic exchange, one quorum queue of one node per subscriber; one ack per message"
    subscriptions_max = 100

    def __init__(self) -> None:
        self._server = RabbitServer()
        self._queues: list[str] = []

    def version(self) -> str | None:
        """Returns the version of the RabbitMQ in /usr/lib/rabbitmq, or None."""
        return self._server.version()

    def start(self, directory: Path, subscriptions: int) -> None:
        """Starts a node, declares the exchange and the queues, and binds the queues."""
        self._server.start(directory)
        self._queues = [f"{QUEUE}{number}" for number in range(subscriptions)]
        channel = Channel(self._server.address)
        with channel.sock:
            # The flag 2 means durable.
            declared = bytes(2) + short(EXCHANGE) + short("topic") + b"\x02" + bytes(4)
            channel.ask(40, 10, declared)
            for queue in self._queues:
                make(channel, queue)
                bound = short(queue) + short(EXCHANGE) + short(FILTER) + bytes(1) + bytes(4)
                channel.ask(50, 20, bytes(2) + bound)

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new publisher whose confirms come from all destination queues."""
        channel = Channel(self._server.address)
        channel.ask(85, 10, bytes(1))  # confirm.select
        return RabbitSender(channel.sock, pool, EXCHANGE, KEY)

    def receivers(self, prefetch: int, size_bytes: int) -> list[Receiver]:
        """Returns a consumer of each queue."""
        del size_bytes
        found: list[Receiver] = []
        for queue in self._queues:
            channel = Channel(self._server.address)
            channel.ask(60, 10, struct.pack(">IHB", 0, prefetch, 0))
            found.append(RabbitReceiver(channel.sock, queue))
        return found

    def cpu_s(self) -> float:
        """Returns the processor time of the node in seconds."""
        return self._server.cpu_s()

    def stop(self) -> None:
        """Kills the node and discards its data."""
        self._server.stop()


FANS: tuple[Fan, ...] = (RedisFan(), NatsFan(), RabbitFan())
