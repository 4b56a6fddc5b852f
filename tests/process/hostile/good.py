"""The well-behaved clients, with a low and steady rate, and the ledgers of their answers.

    two producers ──┬─────────────────────▶ GOOD.WORK ──▶ two consumers       ledger "work"
                    ╰─▶ GOOD.IN ──unit──────▲
    publisher ──▶ good/flights ──┬─▶ GOOD:audit                               ledger "audit"
                                 ╰─▶ GOOD:billing                             ledger "billing"
    requester ──▶ GOOD.REQUESTS ──unit──▶ GOOD.REPLIES ──▶ requester          ledger "replies"
    newcomer: connects, puts one message on GOOD.WORK, closes

Only these clients put such bodies. Messages with other bodies come from attackers: they count as
foreign and are discarded.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from functools import partial

from qmgr_client.aio import PutResult, QueueManager
from qmgr_client.message import Message
from qmgr_demo.ledger import Ledger
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.process.hostile.watch import Mark, Watch

DRAIN_S = 30
TICK_S = 0.02
PUTS_A_TICK = 2
OPEN_MAX = 500  # maximum number of unanswered puts of a producer
REQUEST_S = PUBLISH_S = 0.05
NEWCOMER_S = 0.5
QUEUES = ("GOOD.WORK", "GOOD.IN", "GOOD.REQUESTS", "GOOD.REPLIES")
SUBSCRIBERS = ("audit", "billing")
TOPIC = "good/flights"
_BODY = re.compile(rb"good (\d+)\.*")


class Good:
    """All good clients. Invariant: a ledger has the acknowledged and the received messages."""

    def __init__(
        self, connect: Callable[[str, bytes], QueueManager], seed: int, watch: Watch
    ) -> None:
        """Prepares clients. *connect* makes one, of a name and a producer id."""
        self.ledgers = {name: Ledger() for name in ("work", "replies", *SUBSCRIBERS)}
        self.stopping = asyncio.Event()
        self.robbed = self.foreign = self.refused = 0
        self._dial, self._seed, self._watch = connect, seed, watch
        self._next = 0

    @property
    def lost(self) -> int:
        """The number of acknowledged messages that were not received."""
        return sum(len(ledger.lost) for ledger in self.ledgers.values())

    @property
    def doubled(self) -> int:
        """The number of messages that were received twice without a flag, or were never put."""
        return sum(len(x.doubled) + len(x.unexpected) for x in self.ledgers.values())

    async def run(self) -> None:
        """Works until a stop is requested, then until no more messages arrive."""
        async with self._connect("operator") as manager:
            for queue in QUEUES:
                await manager.admin.queue_create(queue)
            for name in SUBSCRIBERS:
                await manager.admin.subscription_create("good/#", f"GOOD:{name}")
        async with asyncio.TaskGroup() as tasks:
            readers = [
                self._consume("GOOD.WORK"),
                self._consume("GOOD.WORK"),
                self._move("GOOD.IN", "GOOD.WORK"),
                self._move("GOOD.REQUESTS", "GOOD.REPLIES"),
            ]
            readers += [self._subscribe(name) for name in SUBSCRIBERS]
            running = [tasks.create_task(reader) for reader in readers]
            writers = [
                self._produce(1),
                self._produce(2),
                self._publish(),
                self._request(),
                self._come_and_go(),
            ]
            writing = [tasks.create_task(writer) for writer in writers]
            await self.stopping.wait()
            await asyncio.wait(writing, timeout=DRAIN_S)
            # In a full store, units cannot put. Messages that still wait to be moved are therefore
            # consumed from their current queue.
            running += [
                tasks.create_task(self._consume("GOOD.IN")),
                tasks.create_task(self._consume("GOOD.REQUESTS", "replies")),
            ]
            await self._drain()
            for task in (*running, *writing):
                task.cancel()

    async def _drain(self) -> None:
        until_s = time.monotonic() + DRAIN_S
        while self.lost and time.monotonic() < until_s:
            await asyncio.sleep(0.1)

    def _connect(self, name: str) -> QueueManager:
        producer_id = hashlib.sha256(f"{name} {self._seed}".encode()).digest()[:16]
        return self._dial(name, producer_id)

    def _number(self) -> int:
        self._next += 1
        return self._next

    # -- producers

    async def _produce(self, which: int) -> None:
        room = asyncio.Semaphore(OPEN_MAX)

        def landed(number: int, mark: Mark, future: "asyncio.Future[PutResult]") -> None:
            room.release()
            self._watch.done(mark)
            self._answered("work", number, future)

        async with self._connect(f"producer-{which}") as manager:
            while not self.stopping.is_set():
                await asyncio.sleep(TICK_S)
                for _ in range(PUTS_A_TICK):
                    number = self._number()
                    await room.acquire()
                    queue = "GOOD.IN" if number % 5 == 0 else "GOOD.WORK"
                    size = 10_000 if number % 100 == 0 else 100
                    mark = self._watch.start("put")
                    future = await manager.submit(queue, _body(number) + b"." * size)
                    future.add_done_callback(partial(landed, number, mark))
            for _ in range(OPEN_MAX):
                await room.acquire()

    def _answered(self, ledger: str, number: int, future: "asyncio.Future[PutResult]") -> None:
        if future.cancelled() or future.exception() is not None:
            self.refused += 1
        else:
            self.ledgers[ledger].note_put(number)

    async def _publish(self) -> None:
        async with self._connect("publisher") as manager:
            while not self.stopping.is_set():
                await asyncio.sleep(PUBLISH_S)
                number, mark = self._number(), self._watch.start("publish")
                try:
                    await manager.publish(TOPIC, _body(number))
                except RequestError:
                    self.refused += 1
                else:
                    for name in SUBSCRIBERS:
                        self.ledgers[name].note_put(number)
                self._watch.done(mark)

    async def _request(self) -> None:
        async with self._connect("requester") as manager:
            while not self.stopping.is_set():
                await asyncio.sleep(REQUEST_S)
                number, mark = self._number(), self._watch.start("put of a request")
                try:
                    await manager.put(
                        "GOOD.REQUESTS",
                        _body(number),
                        correlation_id=b"%d" % number,
                        reply_to="GOOD.REPLIES",
                    )
                except RequestError:
                    self.refused += 1
                    continue
                self._watch.done(mark)
                self.ledgers["replies"].note_put(number)
                await self._reply(manager, number)

    async def _reply(self, manager: QueueManager, number: int) -> None:
        """Gets the reply to a request, without a time limit."""
        while True:
            try:
                found = await manager.get(
                    "GOOD.REPLIES", wait_ms=5_000, correlation_id=b"%d" % number
                )
                if found is not None:
                    self._note("replies", found)
                    await manager.ack(found)
                    return
            except RequestError as error:
                self._refused_settle(error)

    async def _come_and_go(self) -> None:
        """Regularly connects as a new client. Attackers must not be able to prevent this."""
        while not self.stopping.is_set():
            await asyncio.sleep(NEWCOMER_S)
            number, mark = self._number(), self._watch.start("connect and put")
            try:
                async with self._connect(f"newcomer-{number}") as manager:
                    await manager.put("GOOD.WORK", _body(number))
            except RequestError:
                self.refused += 1
            else:
                self.ledgers["work"].note_put(number)
            self._watch.done(mark)

    # -- consumers

    async def _consume(self, queue: str, ledger: str = "work") -> None:
        async with self._connect(f"consumer-{queue}") as manager:
            async for message in manager.consume(queue, prefetch=50):
                await self._take(manager, ledger, message)

    async def _subscribe(self, name: str) -> None:
        async with (
            self._connect(name) as manager,
            manager.subscribe("good/#", f"GOOD:{name}", prefetch=50) as found,
        ):
            async for message in found:
                await self._take(manager, name, message)

    async def _take(self, manager: QueueManager, ledger: str, message: Message) -> None:
        self._note(ledger, message)
        mark = self._watch.start("ack")
        future = await manager.ack_soon(message)
        future.add_done_callback(partial(self._settled, mark))

    def _settled(self, mark: Mark, future: "asyncio.Future[None]") -> None:
        self._watch.done(mark)
        if not future.cancelled() and isinstance(error := future.exception(), RequestError):
            self._refused_settle(error)

    def _refused_settle(self, error: RequestError) -> None:
        """Counts a lease that another client ended, because no kill explains its loss."""
        if error.code == ErrorCode.LEASE_LOST and not self._watch.is_disturbed:
            self.robbed += 1

    async def _move(self, source: str, target: str) -> None:
        """Moves messages from one queue to another, each batch in a unit of work."""
        async with self._connect(f"mover-{source}") as manager:
            while True:
                try:
                    async with manager.unit_of_work() as unit:
                        for message in await unit.get_many(source, 10, 200):
                            mark = self._watch.start("put in a unit")
                            await unit.put(
                                target, message.body, correlation_id=message.correlation_id
                            )
                            self._watch.done(mark)
                        mark = self._watch.start("commit")
                    self._watch.done(mark)
                except RequestError:
                    # The unit was backed out, so its messages are delivered again.
                    await asyncio.sleep(TICK_S)

    def _note(self, ledger: str, message: Message) -> None:
        match = _BODY.fullmatch(message.body)
        if match is None:
            self.foreign += 1
            return
        number, flagged = int(match[1]), message.redelivered != "no"
        known = number <= self._next
        self.ledgers[ledger].note_delivery(number, str(message.uid), flagged=flagged, known=known)


def _body(number: int) -> bytes:
    return b"good %d" % number
