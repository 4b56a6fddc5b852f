"""Publishes delays to many subscribers, and republishes the failed ones to one subscriber.

publisher ── delays/JFK/UA ──▶ NYC ──▶ BOARD EWR JFK LGA UA B6      receive what they match
                                │ ──▶ two non-durable subscribers   end after the first half
                                │ ──▶ CLAIMS ── fails ──▶ parked
                             kill -9                 republish ──▶ CLAIMS only
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from qmgr_client.aio import QueueManager
from qmgr_client.message import Message, PutResult
from qmgr_demo.cluster import Node
from qmgr_demo.delays import LATE, ROOT, SUBSCRIBERS, Delay, SubscriberResult, expected
from qmgr_protocol.errors import ErrorCode, RequestError

PUBLICATIONS = "SYSTEM.PUBLICATIONS"
OPERATOR, DISPATCHER, BOARDS = "operator", "dispatcher", "boards"  # users
LIMIT = 2  # number of redeliveries before a publication is parked
KILL_AT = 0.75  # fraction of the publications before the first kill
KILLS = 2  # The second kill interrupts the republish.
PUT_WINDOW = 2_000
PREFETCH = 512
WAIT_MAX_S = 60
POLL_S = 0.02


class DelaysFailed(Exception):
    """The error of a publication that was refused or did not arrive."""


class DelaysRun:
    """One run of the topics part. Invariant: the counters only grow."""

    def __init__(self, delays: Sequence[Delay], node: Node) -> None:
        """Prepares to publish *delays* at the daemon *node*, which is killed during the run."""
        half = len(delays) // 2
        self.delays = delays
        self.had = [
            expected(one, delays if one.is_durable else delays[:half]) for one in SUBSCRIBERS
        ]
        self.late = SubscriberResult(LATE, expected(LATE, []).ledger, set())
        self.published = 0
        self.parked = 0  # number of parked publications before the republish
        self.parked_wrongly = 0  # unexpected or missing parked publications
        self.still_parked = 0  # number of parked publications at the end
        self.left = 0  # number of messages on the queue of publications at the end
        self.failures = 0  # number of deliveries that a subscriber failed on
        self.kills = 0
        self.seconds = 0.0
        self._node = node
        self._half = half
        self._rows: dict[str, int] = {}  # rows of failed publications by UID
        self._is_mended = False

    @property
    def consumed(self) -> int:
        """The number of processed deliveries."""
        return sum(one.ledger.consumed for one in self.had)

    @property
    def wanted(self) -> int:
        """The expected number of deliveries."""
        return sum(len(one.ledger.acknowledged) for one in self.had)

    @property
    def is_clean(self) -> bool:
        """Whether each subscriber's result is clean, and no publication is left or parked."""
        wrong = self.parked_wrongly, self.still_parked, self.left
        return all(one.is_clean for one in (*self.had, self.late)) and not any(wrong)

    async def run(self) -> None:
        """Publishes and consumes all delays.

        Raises:
            DelaysFailed: The text states the reason.
        """
        began = time.monotonic()
        async with self._connect(OPERATOR) as manager, self._connect(DISPATCHER) as dispatcher:
            await manager.admin.topic_set(ROOT, redelivery_limit=LIMIT)
            durable = [one for one in self.had if one.subscriber.is_durable]
            listeners = [one for one in self.had if not one.subscriber.is_durable]
            tasks = [await self._come(one) for one in durable]
            try:
                await self._publish(dispatcher, listeners, tasks)
                await self._republish(manager, durable, tasks)
            finally:
                await _end(tasks)
        self.seconds = time.monotonic() - began

    async def _publish(
        self,
        manager: QueueManager,
        listeners: Sequence[SubscriberResult],
        tasks: "list[asyncio.Task[None]]",
    ) -> None:
        """Publishes one half to all subscribers and one to the durable ones, during a kill."""
        here = [await self._come(one) for one in listeners]
        tasks += here
        await self._publish_all(manager, self.delays[: self._half])
        for one in listeners:
            await _until(
                one.ledger.has_all,
                f"publications for {one.subscriber.filter} did not all arrive",
                tasks,
            )
        await _end(here)
        for task in here:
            tasks.remove(task)
        killing = asyncio.create_task(self._kill(at=int(KILL_AT * len(self.delays))))
        try:
            await self._publish_all(manager, self.delays[self._half :])
            await killing
        finally:
            killing.cancel()

    async def _republish(
        self,
        manager: QueueManager,
        durable: Sequence[SubscriberResult],
        tasks: "list[asyncio.Task[None]]",
    ) -> None:
        """Republishes parked publications during a kill, after all others are consumed."""
        for one in durable:
            done = partial(one.ledger.has_all, but=one.parked)
            await _until(done, f"publications for {one.subscriber.name} did not all arrive", tasks)
        await self._look_at_parked(manager, {row for one in durable for row in one.parked})
        tasks.append(await self._come(self.late))
        self._is_mended = True
        await manager.admin.republish()
        await self._kill(at=0)
        for one in durable:
            await _until(
                one.ledger.has_all,
                f"{one.subscriber.name} did not receive all republished publications",
                tasks,
            )
        await self._drain(manager)

    async def _look_at_parked(self, manager: QueueManager, rows: set[int]) -> None:
        """Waits until as many publications as *rows* are parked, and counts the wrong ones."""
        end_s = time.monotonic() + WAIT_MAX_S
        while len(found := await self._parked(manager)) < len(rows):
            if time.monotonic() > end_s:
                break
            await asyncio.sleep(POLL_S)
        self.parked = len(found)
        self.parked_wrongly = len({self._rows.get(uid, -1) for uid in found} ^ rows)

    async def _drain(self, manager: QueueManager) -> None:
        """Waits until the queue of publications is empty. Counts those left after a timeout."""
        end_s = time.monotonic() + WAIT_MAX_S
        while left := (await manager.admin.queue_show(PUBLICATIONS))["depth"]:
            if time.monotonic() > end_s:
                break
            await asyncio.sleep(POLL_S)
        self.left, self.still_parked = left, len(await self._parked(manager))

    async def _parked(self, manager: QueueManager) -> list[str]:
        return [row["uid"] async for row in manager.admin.republish_list()]

    async def _kill(self, at: int) -> None:
        """Kills the daemon with SIGKILL after *at* publications, and restarts it."""
        while self.published < at:
            await asyncio.sleep(POLL_S)
        await asyncio.to_thread(self._node.kill)
        self._node.start()
        self.kills += 1

    async def _publish_all(self, manager: QueueManager, delays: Sequence[Delay]) -> None:
        """Publishes *delays* in order, with a window of them in flight."""
        room = asyncio.Semaphore(PUT_WINDOW)
        refused: list[BaseException] = []

        def landed(future: "asyncio.Future[PutResult]") -> None:
            room.release()
            error = future.exception()
            if error is not None:
                refused.append(error)
            else:
                self.published += 1

        for delay in delays:
            await room.acquire()
            headers = {"row": delay.row}
            future = await manager.submit(f"/{delay.topic}", delay.body, headers=headers)
            future.add_done_callback(landed)
        for _ in range(PUT_WINDOW):
            await room.acquire()
        if refused:
            raise DelaysFailed(f"a publication was refused: {refused[0]}")

    def _connect(self, user: str) -> QueueManager:
        return self._node.connect("demo.delays", user)

    async def _come(self, had: SubscriberResult) -> "asyncio.Task[None]":
        """Subscribes, and returns a task that consumes until it is cancelled."""
        is_there = asyncio.Event()
        task = asyncio.create_task(self._consume(had, is_there))
        waiting = asyncio.create_task(is_there.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return task

    async def _consume(self, had: SubscriberResult, is_there: asyncio.Event) -> None:
        one = had.subscriber
        async with self._connect(BOARDS) as manager:
            subscription = manager.subscribe(one.filter, one.name, prefetch=PREFETCH)
            async with subscription:
                is_there.set()
                async for message in subscription:
                    await self._do(manager, had, message)

    async def _do(self, manager: QueueManager, had: SubscriberResult, message: Message) -> None:
        """Processes a publication, or fails on it."""
        row = message.headers["row"]
        if message.republished:
            had.republished.add(row)
        if not self._is_mended and row in had.parked:
            self._rows[str(message.uid)] = row
            self.failures += await _gave_back(manager, message)
            return
        flagged, known = message.redelivered != "no", row in had.ledger.acknowledged
        had.ledger.note_delivery(row, str(message.uid), flagged=flagged, known=known)
        (await manager.ack_soon(message)).add_done_callback(_look)


async def _gave_back(manager: QueueManager, message: Message) -> bool:
    """Returns whether *message* was returned as failed."""
    try:
        await manager.release(message, reason="invalid", text="no such flight number")
    except RequestError as error:
        if error.code != ErrorCode.LEASE_LOST:
            raise
        return False  # A kill ended the lease, so the message is delivered again.
    return True


def _look(acked: "asyncio.Future[None]") -> None:
    """Ignores the exception of an ack: after a kill, the message is delivered again."""
    if not acked.cancelled():
        acked.exception()


async def _until(
    is_so: Callable[[], bool], what: str, tasks: "Sequence[asyncio.Task[None]]"
) -> None:
    """Waits until *is_so* is true.

    Raises:
        DelaysFailed: If *is_so* is still false after WAIT_MAX_S, or one of *tasks* ended.
    """
    end_s = time.monotonic() + WAIT_MAX_S
    while not is_so():
        for task in tasks:
            if task.done():
                raise DelaysFailed(f"a subscriber ended: {task.exception()}")
        if time.monotonic() > end_s:
            raise DelaysFailed(f"{what} after {WAIT_MAX_S} s")
        await asyncio.sleep(POLL_S)


async def _end(tasks: "Sequence[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
