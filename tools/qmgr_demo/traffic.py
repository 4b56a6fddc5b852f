"""Producers at the airports, consumers at the hub, and a task that kills the daemons."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

from qmgr_client.aio import QueueManager
from qmgr_client.errors import NotAuthorized
from qmgr_client.message import Message, PutResult
from qmgr_demo.cluster import Node
from qmgr_demo.flights import Flight
from qmgr_demo.ledger import Ledger
from qmgr_demo.network import CONNECTIONS, Network

QUEUE = "FLIGHTS"
HUB = "NYC"
REMOTE = f"{QUEUE}@{HUB}"
DEPARTURES, ARRIVALS, MONITOR = "departures", "arrivals", "monitor"  # users
CONSUMERS = 2
PUT_WINDOW = 2_000
DRAIN_MAX_S = 60


class Traffic:
    """All producers and consumers of the demo, and their progress.

    Invariant: the counters only grow.
    """

    def __init__(self, nodes: dict[str, Node], flights: Sequence[Flight]) -> None:
        self.nodes = nodes
        self.network = Network(nodes[HUB], [name for name in nodes if name != HUB])
        self.ledger = Ledger()
        self.total = len(flights)
        self.put: dict[str, int] = {}  # number of finished puts by airport
        self._flights: dict[str, list[Flight]] = defaultdict(list)
        for flight in flights:
            self._flights[flight.airport].append(flight)
        self.by_airport = dict(self._flights)

    async def define(self) -> None:
        """Creates the queue at the hub, and the link and the remote queue at each airport.

        The hub accepts links only from the airports. The links are ordered, so the hub has the
        first flights of each airport.
        """
        hub = self.nodes[HUB]
        await self.network.start()
        async with self.connect(hub) as manager:
            await manager.admin.queue_create(QUEUE)
            for name in self.nodes.keys() - {HUB}:
                await manager.admin.link_allow(name)
        for name, node in self.nodes.items():
            if name == HUB:
                continue
            async with self.connect(node) as manager:
                address = self.network.address(name)
                await manager.admin.link_create(
                    HUB, [address], connections=CONNECTIONS, ordered=True
                )
                await manager.admin.queue_create(REMOTE)

    def progress(self, name: str) -> float:
        """Returns the finished fraction of the puts or, for the hub, of the consumption."""
        if name == HUB:
            return self.ledger.consumed / max(self.total, 1)
        return self.put.get(name, 0) / max(len(self.by_airport.get(name, ())), 1)

    def connect(self, node: Node, user: str = "") -> QueueManager:
        """Returns a connection of *user* to *node*, which may still be starting."""
        return node.connect("demo", user)

    async def produce(self, airport: str) -> None:
        """Puts all flights of an airport in order, with a window of them in flight."""
        room = asyncio.Semaphore(PUT_WINDOW)
        self.put[airport] = 0

        def landed(number: int) -> Callable[["asyncio.Future[PutResult]"], None]:
            def note(future: "asyncio.Future[PutResult]") -> None:
                room.release()
                self.put[airport] += 1
                if future.exception() is None:
                    self.ledger.note_put(number)
                else:
                    self.ledger.refused += 1

            return note

        async with self.connect(self.nodes[airport], DEPARTURES) as manager:
            for flight in self.by_airport.get(airport, []):
                await room.acquire()
                future = await manager.submit(
                    REMOTE,
                    flight.body,
                    correlation_id=flight.tail_number.encode(),
                    headers={
                        "carrier": flight.carrier,
                        "destination": flight.destination,
                        "row": flight.row,
                    },
                )
                future.add_done_callback(landed(flight.row))
            for _ in range(PUT_WINDOW):
                await room.acquire()

    async def consume(self, work: Callable[[Message], None]) -> None:
        """Consumes at the hub until cancelled, and calls *work* once for each message."""
        async with self.connect(self.nodes[HUB], ARRIVALS) as manager:
            async for message in manager.consume(QUEUE, prefetch=512):
                row = int(message.headers["row"])
                flagged = message.redelivered != "no"
                fresh = self.ledger.note_delivery(
                    row, str(message.uid), flagged=flagged, known=row < self.total
                )
                if fresh:
                    work(message)
                (await manager.ack_soon(message)).add_done_callback(_look)

    async def take_all(self, work: Callable[[Message], None]) -> None:
        """Consumes until every message is consumed and no lease is left.

        Raises:
            TimeoutError: If the queue is not empty DRAIN_MAX_S after all messages were consumed.
        """
        async with asyncio.TaskGroup() as tasks:
            consumers = [tasks.create_task(self.consume(work)) for _ in range(CONSUMERS)]
            while self.ledger.consumed < self.total:
                await asyncio.sleep(0.05)
            hub = self.nodes[HUB]
            async with asyncio.timeout(DRAIN_MAX_S), self.connect(hub, MONITOR) as manager:
                while (await manager.admin.queue_show(QUEUE))["depth"]:
                    await asyncio.sleep(0.05)
            for consumer in consumers:
                consumer.cancel()

    async def put_without_right(self) -> str:
        """Puts at the hub as a user that may only get. Returns the refusal, or "" if none."""
        async with self.connect(self.nodes[HUB], ARRIVALS) as manager:
            try:
                await manager.put(QUEUE, b"a flight that never existed")
            except NotAuthorized as error:
                return error.text
            return ""


def _look(acked: "asyncio.Future[None]") -> None:
    """Ignores the exception of an ack: after a kill, the message is delivered again."""
    if not acked.cancelled():
        acked.exception()


class Killer:
    """A killer (SIGKILL) of daemons, which restarts them immediately and counts kills by name."""

    def __init__(self, rounds: int) -> None:
        self.kills: dict[str, int] = {}
        self._rounds = rounds

    async def run(self, node: Node, progress: Callable[[], float]) -> None:
        """Kills *node* after each equal part of its work."""
        self.kills[node.name] = 0
        for number in range(1, self._rounds + 1):
            while progress() < number / (self._rounds + 1):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(node.kill)
            self.kills[node.name] += 1
            node.start()
