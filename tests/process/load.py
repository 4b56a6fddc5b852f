"""Producers and consumers of numbered messages, and a ledger of both."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from qmgr_client.aio import QueueManager, connect
from qmgr_client.credentials import Credentials
from qmgr_client.message import PutResult
from qmgr_demo.ledger import Ledger
from qmgr_protocol.errors import RequestError

PUT_WINDOW = 200
WAIT_MS = 60_000
STALL_MAX_S = 60  # seconds without a message while some are missing
# Producers wait for consumers. Otherwise, the drain would take longer than the kills.
BACKLOG_MAX = 50_000
PRODUCERS = CONSUMERS = 2
PRODUCER, CONSUMER = "producer", "consumer"  # users, if the daemon has users
SIZES = 100 * (0, 100, 1_000, 9_000) + (1_300_000,)  # The last one is sent in pieces.
OWNER = Credentials("")  # of a client that needs no login


def connected(address: str, name: str, login: Credentials) -> QueueManager:
    """Returns a client that logs in with *login*, and outlasts kills of the daemon."""
    return connect(
        address, name=name, wait_ms=WAIT_MS, user=login.user, password_file=login.password_file
    )


async def nothing_is_left() -> bool:
    """Returns True, because no message can be outside the ledger."""
    return True


def _now() -> str:
    """Returns the time as in the logs of daemons."""
    return datetime.now(UTC).isoformat()


class Reached(Protocol):
    """A queue manager of one daemon or of several members."""

    name: str

    def connect(self, name: str, user: str = "") -> QueueManager:
        """Returns a client, which logs in as *user* if that is necessary."""


class Load:
    """Producers and consumers of one queue, and their ledger."""

    def __init__(
        self,
        source: Reached,
        target: Reached,
        put_to: str,
        get_from: str,
        seed: int,
        *,
        sizes: Sequence[int] = SIZES,
        run_max: int = 1,
        backlog_max: int = BACKLOG_MAX,
        stall_max_s: float = STALL_MAX_S,
        is_empty: Callable[[], Awaitable[bool]] = nothing_is_left,
    ) -> None:
        """Puts to *put_to* at *source*, and gets from *get_from* at *target*.

        Args:
            sizes: The sizes of messages in bytes, which change after at most *run_max* messages.
            backlog_max: The maximum number of messages that are put but not consumed.
            stall_max_s: The time without a message after which missing messages count as lost.
            is_empty: Returns whether no more messages can arrive, except unacknowledged ones.
        """
        self.ledger = Ledger()
        self.stopping = asyncio.Event()
        self._source, self._target = source, target
        self._put_to, self.get_from = put_to, get_from
        self.put_uids: set[str] = set()  # UIDs with an acknowledged put
        self.settled_uids: set[str] = set()  # UIDs with an acknowledged put and ack
        self._random = random.Random(seed)
        self._next = 0
        self._sizes, self._run_max = sizes, run_max
        self._size = self._run_left = 0
        self._backlog_max, self._stall_max_s, self._is_empty = backlog_max, stall_max_s, is_empty

    async def run(self) -> None:
        """Puts until a stop is requested, then consumes until all messages are received."""
        async with asyncio.TaskGroup() as tasks:
            consumers = [tasks.create_task(self._consume()) for _ in range(CONSUMERS)]
            async with asyncio.TaskGroup() as producers:
                for _ in range(PRODUCERS):
                    producers.create_task(self._produce())
            consumed, since = self.ledger.consumed, time.monotonic()
            while self.ledger.lost or not await self._is_empty():
                if time.monotonic() > since + self._stall_max_s:
                    break
                await asyncio.sleep(0.5)  # `lost` takes a long time to compute for a million UIDs.
                if self.ledger.consumed != consumed:
                    consumed, since = self.ledger.consumed, time.monotonic()
            for consumer in consumers:
                consumer.cancel()

    async def _produce(self) -> None:
        room = asyncio.Semaphore(PUT_WINDOW)

        def land(number: int, future: "asyncio.Future[PutResult]") -> None:
            room.release()
            if future.exception() is None:
                self.ledger.note_put(number)
                # Otherwise, the answer with the UID was lost.
                if (uid := future.result().uid) is not None:
                    self.put_uids.add(str(uid))
            else:
                self.ledger.refused += 1

        async with self._source.connect("crash", PRODUCER) as manager:
            while not self.stopping.is_set():
                await room.acquire()
                while self._has_backlog() and not self.stopping.is_set():
                    await asyncio.sleep(0.01)
                number, self._next = self._next, self._next + 1
                body = str(number).encode() + b"." * self._next_size()
                priority = self._random.randrange(10)
                future = await manager.submit(self._put_to, body, priority=priority)
                future.add_done_callback(partial(land, number))
                if number % 50 == 0:
                    await asyncio.sleep(0.002)
            for _ in range(PUT_WINDOW):
                await room.acquire()

    def _has_backlog(self) -> bool:
        return len(self.ledger.acknowledged) > self.ledger.consumed + self._backlog_max

    def _next_size(self) -> int:
        if not self._run_left:
            self._size = self._random.choice(self._sizes)
            self._run_left = self._random.randint(1, self._run_max)
        self._run_left -= 1
        return self._size

    async def _consume(self) -> None:
        async with self._target.connect("crash", CONSUMER) as manager:
            async for message in manager.consume(self.get_from, prefetch=100, lease_ms=10_000):
                digits = message.body.rstrip(b".")
                number = int(digits) if digits.isdigit() else -1  # -1: of nobody in the load
                size = len(message.body) - len(digits)
                flagged = message.redelivered != "no"
                known = 0 <= number < self._next and size in self._sizes
                doubled = len(self.ledger.doubled)
                self.ledger.note_delivery(number, str(message.uid), flagged=flagged, known=known)
                if len(self.ledger.doubled) > doubled:
                    first = self.ledger.uids[number]
                    print(f"{_now()} doubled: {number}, first {first}: {message}"[:500], flush=True)
                if self._random.random() < 0.02:
                    await self._quietly(manager.release(message))
                else:
                    future = await manager.ack_soon(message)
                    future.add_done_callback(partial(self._settled, str(message.uid)))

    def _settled(self, uid: str, done: "asyncio.Future[None]") -> None:
        if done.exception() is None:
            self.settled_uids.add(uid)

    async def _quietly(self, settling: Awaitable[None]) -> None:
        try:
            await settling
        except RequestError:
            return  # A kill ended the lease, so the message is delivered again.
