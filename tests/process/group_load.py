"""Clients that put and get groups on one daemon, while it is killed.

    putters: put_group with a status message, over several units ──▶ GROUPS ──▶ pinned consumers

Who loses its daemon in the middle of a group goes on with it by its status message. At the end each
group came out whole, in the order of its numbers, and no message of it twice.
"""

import asyncio
import random
import time
from collections.abc import Sequence

from qmgr_client.aio import QueueManager, connect
from qmgr_protocol.errors import ErrorCode, RequestError

WAIT_MS = 60_000
STALL_MAX_S = 60
PUTTERS, CONSUMERS = 6, 2
LENGTH_MAX = 40
BATCH = 7  # of a unit: most groups need several
BACKLOG_MAX = 200  # groups
STATUS = "GROUPS.STATUS"


class GroupLoad:
    """Putters and pinned consumers of one daemon, and what came of their groups.

    Invariant: ``lengths`` has the groups that are put, ``came`` the numbers that came of each.
    """

    def __init__(self, address: str, seed: int, *, stall_max_s: float = STALL_MAX_S) -> None:
        """Work on the daemon at *address*.

        Args:
            stall_max_s: so long nothing need come out, before what is missing counts as lost.
        """
        self.stopping = asyncio.Event()
        self.lengths: dict[str, int] = {}
        self.came: dict[str, list[int]] = {}
        self.consumed: dict[str, set[int]] = {}
        self.disordered: list[str] = []
        self.doubled: list[str] = []
        self.resumed = 0
        self._address = address
        self._stall_max_s = stall_max_s
        self._random = random.Random(seed)

    @property
    def missing(self) -> int:
        """How many messages of groups that are put have not come out."""
        came = sum(len(set(self.came.get(name, ()))) for name in self.lengths)
        return sum(self.lengths.values()) - came

    def faults(self) -> dict[str, Sequence[str]]:
        """Return what is wrong: groups by fault."""
        whole = {name: set(range(1, length + 1)) for name, length in self.lengths.items()}
        return {
            "incomplete": [x for x in whole if whole[x] - set(self.came.get(x, ()))],
            "never put": [x for x, came in self.came.items() if set(came) - whole.get(x, set())],
            "out of order": self.disordered,
            "doubled": self.doubled,
        }

    async def run(self) -> None:
        """Work until told to stop, then until everything came out."""
        async with self._connect() as manager:
            for queue in ("GROUPS", STATUS):
                await manager.queue_create(queue)
        async with asyncio.TaskGroup() as tasks:
            consumers = [tasks.create_task(self._consume()) for _ in range(CONSUMERS)]
            async with asyncio.TaskGroup() as putters:
                for putter in range(PUTTERS):
                    putters.create_task(self._put_groups(f"p{putter}"))
            missing, since = self.missing, time.monotonic()
            while missing and time.monotonic() < since + self._stall_max_s:
                await asyncio.sleep(0.2)
                if self.missing != missing:
                    missing, since = self.missing, time.monotonic()
            for consumer in consumers:
                consumer.cancel()

    def _connect(self) -> QueueManager:
        return connect(self._address, name="groups", wait_ms=WAIT_MS)

    async def _put_groups(self, putter: str) -> None:
        count = 0
        async with self._connect() as manager:
            while not self.stopping.is_set():
                count += 1
                await self._put_group(manager, f"{putter}.{count}")
                while len(self.lengths) > len(self.came) + BACKLOG_MAX:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.002)

    async def _put_group(self, manager: QueueManager, name: str) -> None:
        """Put a group, as often as it takes: with its status message nothing is put twice."""
        length = self._random.randint(1, LENGTH_MAX)
        items = [b"%s:%d" % (name.encode(), number) for number in range(1, length + 1)]
        group_id = name.encode().ljust(24, b"\0")
        self.lengths[name] = length
        while True:
            try:
                await manager.put_group(
                    "GROUPS", items, status_queue=STATUS, name=name, batch=BATCH, group_id=group_id
                )
            except RequestError:
                self.resumed += 1
                if await self._is_put(manager, name, length):
                    return
                continue
            return

    async def _is_put(self, manager: QueueManager, name: str, length: int) -> bool:
        """Return whether the last of a group is put: its status is gone then, as before its first.

        What nobody knows is asked of what came out of it, or lies there still.
        """
        while True:
            if length in self.came.get(name, ()):
                return True
            try:
                group_id = name.encode().ljust(24, b"\0")
                found = await manager.show_group("GROUPS", group_id)
            except RequestError as error:
                if error.code == ErrorCode.GROUP_UNKNOWN:  # Not begun, or over.
                    return length in self.came.get(name, ())
                continue
            return bool(found["last"])

    async def _consume(self) -> None:
        async with self._connect() as manager:
            consumer = manager.consume("GROUPS", prefetch=30, lease_ms=10_000, groups="pinned")
            async for message in consumer:
                name, _, number = message.body.decode().partition(":")
                self._note(name, int(number))
                try:
                    if self._random.random() < 0.02:
                        await manager.release(message)
                    else:
                        await manager.ack(message)
                        self.consumed.setdefault(name, set()).add(int(number))
                except RequestError:
                    continue  # The lease was lost to a kill: the message comes again.

    def _note(self, name: str, number: int) -> None:
        """Note what came: behind the one before, or one that came already."""
        came = self.came.setdefault(name, [])
        if number > max(came, default=0) + 1:
            self.disordered.append(f"{name}:{number}")
        if number in self.consumed.get(name, ()):  # Its ack was answered.
            self.doubled.append(f"{name}:{number}")
        came.append(number)
