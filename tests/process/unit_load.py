"""Clients that work in units on a daemon while the daemon is killed.

    unit: put n on IN and on IN.B ──▶ IN ──unit: get, put──▶ OUT ──unit: get──▶ consumed
                                      IN.B ───────────────────────────────────▶
                            poison messages, backed out each time ──▶ dead letters

Some messages are delayed, and some expire soon. At the end, all queues are drained.
"""

import asyncio
import random
import time
from collections.abc import Iterable

from qmgr_client.aio import QueueManager
from qmgr_client.attributes import QueueAttributes
from qmgr_client.credentials import Credentials
from qmgr_client.errors import UnknownOutcome
from qmgr_client.message import Message
from qmgr_demo.security import User
from qmgr_protocol.errors import RequestError
from tests.process.load import OWNER, connected
from tests.process.unit_ledger import Token, UnitLedger

STALL_MAX_S = 60
BACKLOG_MAX = 2_000
PRODUCERS = 4
POISON_EVERY = 97  # One in this many messages is poison, which means that its processing fails.
RETRY: QueueAttributes = {"backout_threshold": 3, "retry_initial_ms": 50, "retry_max_ms": 500}
QUEUES = ("IN", "IN.B", "OUT")
DEAD_LETTERS = "SYSTEM.DEAD.LETTERS"
USER = User(
    "units",
    grants=[
        *((["create", "put", "get"], "queue", queue) for queue in QUEUES),
        (["get"], "queue", DEAD_LETTERS),
    ],
)


class UnitLoad:
    """Producers, movers and consumers of one daemon, and their ledger."""

    def __init__(
        self,
        address: str,
        seed: int,
        *,
        stall_max_s: float = STALL_MAX_S,
        login: Credentials = OWNER,
    ) -> None:
        """Works on the daemon at *address*.

        Args:
            stall_max_s: The time without a message after which missing messages count as lost.
            login: The user that does the work.
        """
        self.ledger = UnitLedger()
        self.stopping = asyncio.Event()
        self._done = False
        self._address, self._login = address, login
        self._stall_max_s = stall_max_s
        self._random = random.Random(seed)
        self._next = 1

    async def run(self) -> None:
        """Works until a stop is requested, then until all messages are received."""
        async with self._connect() as manager:
            for queue in QUEUES:
                await manager.admin.queue_create(queue, **RETRY)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bury())
            for source, target in 2 * (("IN", "OUT"), ("IN", "OUT"), ("IN.B", ""), ("OUT", "")):
                tasks.create_task(self._work(source, target))
            async with asyncio.TaskGroup() as producers:
                for _ in range(PRODUCERS):
                    producers.create_task(self._produce())
            missing, since = self.ledger.missing(), time.monotonic()
            while missing and time.monotonic() < since + self._stall_max_s:
                await asyncio.sleep(0.5)
                if missing != (now := self.ledger.missing()):
                    missing, since = now, time.monotonic()
            await asyncio.sleep(1)  # Faulty messages may arrive late.
            self._done = True

    def _connect(self) -> QueueManager:
        return connected(self._address, "units", self._login)

    async def _produce(self) -> None:
        async with self._connect() as manager:
            while not self.stopping.is_set():
                number, self._next = self._next, self._next + 1
                await self._put(manager, number)
                while len(self.ledger.committed) > self._out() + BACKLOG_MAX:
                    await asyncio.sleep(0.01)

    def _out(self) -> int:
        return (len(self.ledger.consumed) + len(self.ledger.dead)) // 2

    async def _put(self, manager: QueueManager, number: int) -> None:
        ledger, dice = self.ledger, self._random.random()
        delay_ms = 200 if dice < 0.1 else 0
        is_regretted = 0.1 < dice < 0.2
        expiry_ms = 300 if dice > 0.95 else 0
        if expiry_ms:
            ledger.expiring.add(number)
        try:
            async with manager.unit_of_work() as unit:
                for queue, side in (("IN", b"a"), ("IN.B", b"b")):
                    body = b"%d:%s" % (number, side)
                    await unit.put(queue, body, delay_ms=delay_ms, expiry_ms=expiry_ms)
                if is_regretted:
                    await unit.backout()
        except UnknownOutcome:
            ledger.unknown.add(number)
        except RequestError:
            ledger.refused.add(number)
        else:
            (ledger.refused if is_regretted else ledger.committed).add(number)

    async def _work(self, source: str, target: str) -> None:
        async with self._connect() as manager:
            while not self._done:
                await self._work_once(manager, source, target)

    async def _work_once(self, manager: QueueManager, source: str, target: str) -> None:
        """Moves some messages to *target* in a unit, or consumes them if there is no target."""
        tokens: list[Token] = []
        try:
            async with manager.unit_of_work() as unit:
                found = await unit.get_many(source, self._random.choice([1, 1, 10]), 200)
                tokens = tokens_of(found)
                if any(number % POISON_EVERY == 0 for number, _ in tokens):
                    self.ledger.backed_out += 1
                    await unit.backout()
                    return
                for message in found if target else ():
                    await unit.put(target, message.body)
        except UnknownOutcome:
            if not target:
                self.ledger.perhaps.update(tokens)
        except RequestError:
            return  # The unit was backed out, so its messages are delivered again.
        else:
            if target:
                self.ledger.moved += len(tokens)
            else:
                self.ledger.consumed.update(tokens)

    async def _bury(self) -> None:
        """Consumes the dead letters. Their tokens then reach their final state."""
        async with self._connect() as manager:
            while not self._done:
                tokens: list[Token] = []
                try:
                    async with manager.unit_of_work() as unit:
                        found = await unit.get_many(DEAD_LETTERS, 10, 200)
                        # After many kills, a message of another load reaches its delivery limit.
                        tokens = tokens_of(x for x in found if x.body[:1].isdigit())
                except UnknownOutcome:
                    self.ledger.perhaps.update(tokens)
                except RequestError:
                    continue
                else:
                    self.ledger.dead.update(tokens)


def tokens_of(found: Iterable[Message]) -> list[Token]:
    """Returns the tokens of *found*."""
    pairs = (message.body.decode().split(":") for message in found)
    return [(int(number), side) for number, side in pairs]
