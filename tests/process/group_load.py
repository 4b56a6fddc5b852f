"""Applications that put and read groups while they and the daemon are killed.

    putters: put_group, in several units ──┬─▶ GROUPS ──▶ pinned consumers
                                           └─▶ READ ──reader: get_group, in several units──▶ BILLS

The putters and the reader are separate processes. From time to time, one of them is killed with -9
in the middle of a group. After a restart, the process continues from its status message. The same
happens after a kill of the daemon. At the end, each group was received completely and in order, no
message was received twice, and no status message remains.
"""

import asyncio
import random
import time
from collections.abc import Sequence

from qmgr_client.aio import QueueManager
from qmgr_client.credentials import Credentials
from qmgr_client.message import Message
from qmgr_demo.security import User
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.process.application import COMMAND, Application
from tests.process.group_app import BATCH, BILLS, STATUS
from tests.process.load import OWNER, connected

STALL_MAX_S = 60
PUTTERS, CONSUMERS = 4, 2
LENGTH_MAX = 40
KILL_EVERY = 5  # in one of this many groups, the application is killed
TRIES_MAX = 50  # maximum number of tries for one group
BACKLOG_MAX = 200  # maximum number of groups that are put but not yet received
QUEUES = ("GROUPS", "READ", BILLS, STATUS)
RIGHTS = ["create", "put", "get", "browse", "show"]
USER = User("groups", grants=[(RIGHTS, "queue", queue) for queue in QUEUES])


class GroupLoad:
    """Putters, a reader and pinned consumers of one daemon, and a ledger of their groups.

    Invariant: ``lengths`` has the groups that were put, ``came`` the numbers received from each.
    """

    def __init__(
        self,
        address: str,
        seed: int,
        *,
        stall_max_s: float = STALL_MAX_S,
        kill_every: int = KILL_EVERY,
        command: Sequence[str] = COMMAND,
        login: Credentials = OWNER,
    ) -> None:
        """Works on the daemon at *address*.

        Args:
            stall_max_s: The time without a message after which missing messages count as lost.
            kill_every: An application is killed in one of this many groups.
            command: The program to run as an application.
            login: The user of all applications and clients.
        """
        self.stopping = asyncio.Event()
        self.lengths: dict[str, int] = {}
        self.came: dict[str, list[int]] = {}
        self.uids: dict[tuple[str, int], str] = {}
        self.consumed: dict[str, set[int]] = {}
        self.disordered: list[str] = []
        self.doubled: list[str] = []
        self.given_up: list[str] = []
        self.left: list[str] = []
        self.resumed = 0  # number of groups whose put resumed from a status message
        self.read_on = 0  # number of groups whose read resumed
        self._address, self._login = address, login
        self._stall_max_s = stall_max_s
        self._kill_every = kill_every
        self._random = random.Random(seed)
        self._putters = [Application(address, command, login) for _ in range(PUTTERS)]
        self._reader = Application(address, command, login)

    @property
    def kills(self) -> int:
        """The number of kills of applications."""
        return sum(app.kills for app in (*self._putters, self._reader))

    @property
    def missing(self) -> int:
        """The number of messages of completed groups that have not been received."""
        came = sum(len(set(self.came.get(name, ()))) for name in self.lengths)
        return sum(self.lengths.values()) - came

    def faults(self) -> dict[str, Sequence[str]]:
        """Returns the faulty groups, by type of fault."""
        whole = {name: set(range(1, length + 1)) for name, length in self.lengths.items()}
        return {
            "incomplete": [x for x in whole if whole[x] - set(self.came.get(x, ()))],
            "never put": [x for x, came in self.came.items() if set(came) - whole.get(x, set())],
            "out of order": self.disordered,
            "doubled": self.doubled,
            "given up": self.given_up,
            "status left": self.left,
        }

    async def run(self) -> None:
        """Works until a stop is requested, then until all messages are received."""
        async with self._connect() as manager:
            for queue in QUEUES:
                await manager.admin.queue_create(queue)
            async with asyncio.TaskGroup() as tasks:
                takers = [tasks.create_task(self._consume()) for _ in range(CONSUMERS)]
                takers += [tasks.create_task(self._collect()), tasks.create_task(self._read())]
                async with asyncio.TaskGroup() as putters:
                    for number in range(PUTTERS):
                        putters.create_task(self._put_groups(number))
                await self._drain()
                for taker in takers:
                    taker.cancel()
            left = await manager.admin.queue_show(STATUS)
            if left["depth"]:
                self.left.append(f"{left['depth']} on {STATUS}")

    async def _drain(self) -> None:
        missing, since = self.missing, time.monotonic()
        while missing and time.monotonic() < since + self._stall_max_s:
            await asyncio.sleep(0.2)
            if self.missing != missing:
                missing, since = self.missing, time.monotonic()

    def _connect(self) -> QueueManager:
        return connected(self._address, "groups", self._login)

    # -- putting

    async def _put_groups(self, putter: int) -> None:
        app, queue, count = self._putters[putter], QUEUES[putter % 2], 0
        keeps_all = putter < PUTTERS // 2
        try:
            async with self._connect() as manager:
                while not self.stopping.is_set():
                    count += 1
                    is_killed = count % self._kill_every == 0
                    name = f"p{putter}.{count}"
                    await self._put_group(manager, app, queue, name, is_killed, keeps_all)
                    while len(self.lengths) > len(self.came) + BACKLOG_MAX:
                        await asyncio.sleep(0.01)
        finally:
            await app.close()

    async def _put_group(
        self,
        manager: QueueManager,
        app: Application,
        queue: str,
        name: str,
        is_killed: bool,
        keeps_all: bool,
    ) -> None:
        """Puts a group, and tries again until it succeeds. The status message prevents duplicates.

        Args:
            keeps_all: True if *app* keeps all items to the end; False if it discards committed
            items.
        """
        length = self._random.randint(2 * BATCH if is_killed else 1, LENGTH_MAX)
        killed_at = self._random.randint(1, length) if is_killed else 0
        told = {"put": queue, "name": name, "group_id": _group_id(name).hex(), "length": length}
        self.lengths[name] = length
        app.begin()
        for _ in range(TRIES_MAX):
            resume_from = 1 if keeps_all else kept_from(app.at)
            done = await app.ask(told | {"resume_from": resume_from}, killed_at)
            if done and "done" in done:
                self.resumed += done["skipped"] > 0
                return
            # After the reconnect, the last commit has either succeeded or will never succeed.
            await app.start()
            killed_at, error = 0, done["error"] if done else ""
            if resume_from > 1 and error == ErrorCode.GROUP_UNKNOWN.name:
                # The last commit was pending, and no status message remains, so the group is
                # complete.
                return
            is_unclear = keeps_all or kept_from(app.at) == 1
            if is_unclear and await self._is_put(manager, queue, name):
                return
        self.given_up.append(f"{name}: {error}")

    async def _is_put(self, manager: QueueManager, queue: str, name: str) -> bool:
        """Returns whether a group is complete. A complete group has no status message.

        If the daemon does not know the group, the result depends on its received and stored
        messages.
        """
        while True:
            try:
                found = await manager.admin.show_group(queue, _group_id(name))
                return bool(found["last"])
            except RequestError as error:
                if error.code != ErrorCode.GROUP_UNKNOWN:
                    continue
            try:  # The group is not begun, or is complete.
                key = name.encode()
                is_billed = [x async for x in manager.browse(BILLS, 1, correlation_id=key)]
            except RequestError:
                continue
            return bool(is_billed) or self.lengths[name] in self.came.get(name, ())

    # -- consuming

    async def _read(self) -> None:
        """Reads one group after another, with one application."""
        app, count = self._reader, 0
        try:
            while True:
                count += 1
                is_killed = count % self._kill_every == 0
                killed_at = self._random.randint(2, 2 * BATCH) if is_killed else 0
                done = await app.ask({"read": "READ", "name": "reader"}, killed_at)
                self.read_on += bool(done and done.get("skipped"))
        finally:
            await app.close()

    async def _consume(self) -> None:
        async with self._connect() as manager:
            consumer = manager.consume("GROUPS", prefetch=30, lease_ms=10_000, groups="pinned")
            async for message in consumer:
                await self._take(manager, message, released=self._random.random() < 0.02)

    async def _collect(self) -> None:
        async with self._connect() as manager:
            async for message in manager.consume(BILLS, prefetch=30, lease_ms=10_000):
                await self._take(manager, message)

    async def _take(
        self, manager: QueueManager, message: Message, *, released: bool = False
    ) -> None:
        name, _, digits = message.body.decode().partition(":")
        number = int(digits)
        self._note(name, number, str(message.uid))
        try:
            if released:
                await manager.release(message)
            else:
                await manager.ack(message)
                self.consumed.setdefault(name, set()).add(number)
        except RequestError:
            return  # A kill ended the lease, so the message is delivered again.

    def _note(self, name: str, number: int, uid: str) -> None:
        """Records an arrival, which must have the next number or a repeated one."""
        came = self.came.setdefault(name, [])
        if number > max(came, default=0) + 1:
            self.disordered.append(f"{name}:{number}")
        is_over = number in self.consumed.get(name, ())  # The ack of the number succeeded.
        if is_over or self.uids.setdefault((name, number), uid) != uid:
            self.doubled.append(f"{name}:{number}")
        came.append(number)


def _group_id(name: str) -> bytes:
    return name.encode().ljust(24, b"\0")


def kept_from(at: int) -> int:
    """Returns the first number that an application has not yet discarded after reporting *at*.

    The application reports the items of a batch just before it puts the previous batch. All earlier
    items are committed and discarded.
    """
    return max((at - 1) // BATCH - 1, 0) * BATCH + 1
