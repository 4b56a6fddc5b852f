"""Publishers and subscribers of a daemon that is killed, and an operator who republishes.

    publishers ──▶ flights/JFK, flights/LAX/UA, ... ──┬─▶ CRASH:all   flights/#
                                                      ├─▶ CRASH:ua    flights/+/UA
                                                      ╰─▶ CRASH:fails flights/#
                                                              │ ╰─▶ parked ─╮
                                                              ╰◀─republish──╯

One subscriber releases some publications until they are parked, and consumes them after they are
republished. At the end, each subscriber has consumed each matching acknowledged publication once.
Only failed publications were republished, and no publication is kept without a holder.
"""

import asyncio
import random
import time
from collections.abc import Sequence

from qmgr_client.aio import QueueManager
from qmgr_client.attributes import SubscriptionAttributes
from qmgr_client.credentials import Credentials
from qmgr_client.message import Message, PutResult
from qmgr_demo.security import User
from qmgr_protocol.errors import RequestError
from qmgr_protocol.topic import filter_of, fits, levels_of
from tests.process.load import OWNER, connected

STALL_MAX_S = 60
BACKLOG_MAX = 5_000  # maximum number of publications that some subscriber has not consumed
PUBLISHERS = 2
BATCH_MAX = 20
FAIL_EVERY = 37
FAILS = "CRASH:fails"
SUBSCRIBERS = {"CRASH:all": "flights/#", "CRASH:ua": "flights/+/UA", FAILS: "flights/#"}
TOPICS = ("flights", "flights/JFK", "flights/JFK/UA", "flights/LAX/UA", "flights/LAX/AA")
PUBLICATIONS = "SYSTEM.PUBLICATIONS"
USER = User(
    "topics",
    grants=[
        (["publish", "subscribe"], "topic", "flights/#"),
        (["create", "get", "show"], "subscription", "CRASH:*"),
        (["republish"], "subscription", "*"),  # republishes without naming subscriptions
        (["show"], "queue", PUBLICATIONS),
    ],
)


class TopicLoad:
    """Publishers, subscribers and an operator of one daemon, and the deliveries.

    Invariant: ``consumed`` has, for each subscriber, the messages whose acknowledgement was
    answered.
    """

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
        self.stopping = asyncio.Event()
        self.tried: dict[int, str] = {}  # topics by number
        self.acknowledged: set[int] = set()
        self.consumed: dict[str, set[int]] = {name: set() for name in SUBSCRIBERS}
        self.delivered = 0
        self.parked: set[str] = set()  # UIDs of parked publications
        self.republished: set[int] = set()
        self.doubled: list[str] = []
        self.unexpected: list[str] = []
        self.left: list[str] = []
        self._uids: dict[int, str] = {}
        self._address, self._login = address, login
        self._stall_max_s = stall_max_s
        self._random = random.Random(seed)

    @property
    def lost(self) -> list[str]:
        """The missing deliveries, as "number to subscriber"."""
        return [
            f"{number} to {name}"
            for name, filter_ in SUBSCRIBERS.items()
            for number in sorted(self.acknowledged - self.consumed[name])
            if _fits(filter_, self.tried[number])
        ]

    def faults(self) -> dict[str, Sequence[str]]:
        """Returns the problems other than lost and doubled messages, by type of fault."""
        calm = self.republished - {number for number in self.tried if is_failing(number)}
        return {
            "unexpected": self.unexpected,
            "republished without a failure": [str(number) for number in sorted(calm)],
            "left": self.left,
        }

    async def run(self) -> None:
        """Works until a stop is requested, then until all messages are received."""
        async with self._connect() as manager:
            for name, filter_ in SUBSCRIBERS.items():
                limit: SubscriptionAttributes = {"redelivery_limit": 1} if name == FAILS else {}
                await manager.admin.subscription_create(filter_, name, **limit)
            async with asyncio.TaskGroup() as tasks:
                others = [tasks.create_task(self._consume(name)) for name in SUBSCRIBERS]
                others.append(tasks.create_task(self._operate()))
                async with asyncio.TaskGroup() as publishers:
                    for _ in range(PUBLISHERS):
                        publishers.create_task(self._publish())
                await self._drain(manager)
                for task in others:
                    task.cancel()

    async def _drain(self, manager: QueueManager) -> None:
        """Waits until all deliveries are done, and no publication is kept."""
        seen, since = -1, time.monotonic()
        while time.monotonic() < since + self._stall_max_s:
            consumed = sum(map(len, self.consumed.values()))
            if consumed != seen:
                seen, since = consumed, time.monotonic()
            kept = (await manager.admin.queue_show(PUBLICATIONS))["depth"]
            if not (kept or self.lost):
                break
            await asyncio.sleep(0.2)
        self.left += [f"{kept} on {PUBLICATIONS}"] * bool(kept)
        self.left += [f"parked: {row['uid']}" async for row in manager.admin.republish_list()]

    def _connect(self) -> QueueManager:
        return connected(self._address, "topics", self._login)

    async def _publish(self) -> None:
        async with self._connect() as manager:
            while not self.stopping.is_set():
                topic = self._random.choice(TOPICS)
                first = len(self.tried)
                numbers = range(first, first + self._random.randint(1, BATCH_MAX))
                self.tried |= dict.fromkeys(numbers, topic)
                results = await manager.publish_many(topic, [b"%d" % n for n in numbers])
                for number, result in zip(numbers, results, strict=True):
                    if isinstance(result, PutResult):
                        self.acknowledged.add(number)
                while len(self.tried) > len(self.consumed[FAILS]) + BACKLOG_MAX:
                    await asyncio.sleep(0.01)

    async def _consume(self, name: str) -> None:
        async with (
            self._connect() as manager,
            manager.subscribe(SUBSCRIBERS[name], name, prefetch=100, lease_ms=10_000) as found,
        ):
            async for message in found:
                await self._take(manager, name, message)

    async def _take(self, manager: QueueManager, name: str, message: Message) -> None:
        number = self.note(name, message)
        try:
            if name == FAILS and is_failing(number) and not message.republished:
                await manager.release(message, reason="failing")
                return
            await manager.ack(message)
        except RequestError:
            return  # A kill ended the lease, so the message is delivered again.
        self.consumed[name].add(number)

    def note(self, name: str, message: Message) -> int:
        """Records a delivery to the subscriber *name*; returns the number of the publication."""
        number, what = int(message.body), f"{message.body.decode()} to {name}"
        self.delivered += 1
        uid = str(message.uid)
        if number in self.consumed[name] or self._uids.setdefault(number, uid) != uid:
            self.doubled.append(what)
            is_over = number in self.consumed[name]
            print(f"doubled: {what}, is_over={is_over}, {self._uids[number]}, {message}"[:500])
        topic = self.tried.get(number, "")
        if topic != message.topic or not _fits(SUBSCRIBERS[name], topic):
            self.unexpected.append(what)
        if message.republished:
            self.republished.add(number)
            if name != FAILS:
                self.unexpected.append(f"{what}, republished")
        return number

    async def _operate(self) -> None:
        """Republishes parked publications: all, or those of one subscriber."""
        async with self._connect() as manager:
            while True:
                try:
                    rows = [row async for row in manager.admin.republish_list()]
                    self.parked.update(row["uid"] for row in rows)
                    names = {row["subscription"] for row in rows}
                    if names:
                        chosen = self._random.choice([[], sorted(names)])
                        await manager.admin.republish(subscriptions=chosen)
                except RequestError:
                    continue  # The daemon was killed during the request, so the result is unknown.
                await asyncio.sleep(self._random.uniform(0.05, 0.5))


def is_failing(number: int) -> bool:
    """Returns whether the failing subscriber releases a publication until it is parked."""
    return number % FAIL_EVERY == 0


def _fits(filter_: str, topic: str) -> bool:
    return bool(topic) and fits(filter_of(filter_), levels_of(topic))
