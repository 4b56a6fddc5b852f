"""Clients that try what they may not do, while an operator changes the rights of some.

    stranger   never has a right: tries each queue
    impostor   does not know the password of the administrator: tries to log in
    guest      puts on GUEST and gets from it, while the right is granted and revoked
    visitor    the same, while the user is created with all rights and deleted

A right is *barred* from the answer to the request that takes it away until the next request that
gives it back. The law let_in: an attempt that begins and ends in one barred period fails, and its
message is never on the queue. The law shut_out: an attempt that begins and ends in one period in
which the right is given is not refused.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from qmgr_client.aio import QueueManager, connect
from qmgr_client.errors import ConnectFailed, ConnectionEnded, NotAuthorized
from qmgr_demo.cluster import Node
from qmgr_demo.security import User
from qmgr_protocol.errors import ErrorCode, RequestError

QUEUE = "GUEST"
STRANGER, GUEST, VISITOR = "stranger", "guest", "visitor"
PAUSE_S = (0.01, 0.1)
PERIOD_S = (0.1, 1.5)  # time between two changes of rights
RIGHTS = ["put", "get"]
USERS = [User(STRANGER), User(GUEST), User(VISITOR)]
TRIES = 5  # number of different requests of the stranger
DONE_BEFORE = (ErrorCode.USER_EXISTS, ErrorCode.USER_UNKNOWN, ErrorCode.GRANT_UNKNOWN)


class Period(NamedTuple):
    """A time in which a user has all rights, none, or an unknown part of them."""

    number: int
    may: bool | None  # None while a change is unanswered


class GuestLoad:
    """The attempts at one daemon. ``let_in`` and ``shut_out`` contain the faults."""

    def __init__(self, node: Node, queues: list[str], seed: int) -> None:
        """Prepares attempts at *node*. The stranger tries *queues*, too."""
        self.let_in: list[str] = []
        self.shut_out: list[str] = []
        self.refused = 0
        self.allowed = 0
        self.changes = 0
        self.stopping = asyncio.Event()
        self.node, self._queues = node, [QUEUE, *queues]
        self._random = random.Random(seed)
        self._periods = {GUEST: Period(0, False), VISITOR: Period(0, False)}
        self._barred: set[bytes] = set()  # bodies of attempts in a barred period
        self._next = 0

    async def run(self) -> None:
        """Tries until a stop is requested, then looks at what is on the queue."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._strange())
            tasks.create_task(self._pretend())
            for user in self._periods:
                tasks.create_task(self._visit(user))
            tasks.create_task(self._change(GUEST, self._grant, self._revoke))
            tasks.create_task(self._change(VISITOR, self._create, self._delete))
        async with self._owner() as owner:
            async for message in owner.browse(QUEUE):
                if message.body in self._barred or message.body.startswith(b"stranger"):
                    self.let_in.append(f"{message.body!r} is on {QUEUE}")

    def faults(self) -> dict[str, list[str]]:
        """Returns the problems by type of fault."""
        return {"let in": self.let_in, "shut out": self.shut_out}

    def _owner(self) -> QueueManager:
        return self.node.connect("operator")

    # -- changes of rights

    async def _change(
        self,
        user: str,
        give: Callable[[QueueManager], Awaitable[object]],
        take: Callable[[QueueManager], Awaitable[object]],
    ) -> None:
        async with self._owner() as owner:
            if user == VISITOR:  # The guest begins without rights, the visitor does not exist.
                await self._delete(owner)
            while not self.stopping.is_set():
                for may, change in ((True, give), (False, take)):
                    await asyncio.sleep(self._random.uniform(*PERIOD_S))
                    number = self._periods[user].number + 1
                    self._periods[user] = Period(number, None)
                    await self._surely(change, owner)
                    self._periods[user] = Period(number, may)
                    self.changes += 1

    async def _surely(
        self, change: Callable[[QueueManager], Awaitable[object]], owner: QueueManager
    ) -> None:
        """Makes a change. The client repeats it if a kill loses the answer."""
        try:
            await change(owner)
        except RequestError as error:
            if error.code not in DONE_BEFORE:
                raise

    async def _grant(self, owner: QueueManager) -> None:
        await owner.admin.grant_create(RIGHTS, "queue", QUEUE, user=GUEST)

    async def _revoke(self, owner: QueueManager) -> None:
        await owner.admin.grant_delete(RIGHTS, "queue", QUEUE, user=GUEST)

    async def _create(self, owner: QueueManager) -> None:
        password = await asyncio.to_thread(self._password, VISITOR)
        await owner.admin.user_create(VISITOR, password, roles=["producer", "consumer"])

    async def _delete(self, owner: QueueManager) -> None:
        await owner.admin.user_delete(VISITOR)

    def _password(self, user: str) -> str:
        with open(self.node.password_file(user)) as file:
            return file.read()

    # -- attempts

    async def _visit(self, user: str) -> None:
        """Puts and gets as *user*, on connections that stay open if the daemon lets them."""
        while not self.stopping.is_set():
            await self._pause()
            before = self._periods[user]
            try:
                async with self.node.connect("guest", user) as client:
                    while not self.stopping.is_set():
                        await self._attempt(user, client)
                        await self._pause()
            except (ConnectFailed, RequestError):
                self.refused += 1
            else:
                self._check_login(user, before)

    def _check_login(self, user: str, before: Period) -> None:
        if user == VISITOR and before.may is False and self._periods[user] == before:
            self.let_in.append(f"{user} logged in without being a user")

    async def _attempt(self, user: str, client: QueueManager) -> None:
        """Puts a message or gets one.

        Raises:
            ConnectionEnded: The daemon ended the connection.
        """
        self._next += 1
        body, before = b"%s:%d" % (user.encode(), self._next), self._periods[user]
        is_put = self._random.random() < 0.7
        error: RequestError | None = None
        try:
            if is_put:
                await client.put(QUEUE, body)
            elif (message := await client.get(QUEUE)) is not None:
                with suppress(RequestError):  # The right may be gone, which ends the lease.
                    await client.release(message)
        except RequestError as refusal:
            error = refusal
        is_same = self._periods[user] == before
        if is_same and before.may is False:
            self._barred |= {body} if is_put else set()
            if error is None:
                self.let_in.append(f"{user} {'put' if is_put else 'got'} in {before}: {body!r}")
        if is_same and before.may and isinstance(error, NotAuthorized):
            self.shut_out.append(f"{user} in {before}: {error.text}")
        self.refused += error is not None
        self.allowed += error is None
        if isinstance(error, ConnectionEnded):
            raise error

    async def _strange(self) -> None:
        """Tries all queues as a user without rights."""
        async with self.node.connect("stranger", STRANGER) as client:
            while not self.stopping.is_set():
                queue = self._random.choice(self._queues)
                number = self._random.randrange(TRIES)
                try:
                    await _tried(client, number, queue)
                except RequestError:
                    self.refused += 1
                else:
                    self.let_in.append(f"{STRANGER} did try {number} on {queue}")
                await self._pause()

    async def _pretend(self) -> None:
        """Tries to log in as the administrator with a wrong password."""
        while not self.stopping.is_set():
            try:
                async with connect(self.node.address, user="admin", password="a wrong guess"):
                    self.let_in.append("an impostor logged in as admin")
            except (ConnectFailed, RequestError):
                self.refused += 1
            await asyncio.sleep(self._random.uniform(*PERIOD_S))

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.uniform(*PAUSE_S))


def counted(guests: Sequence[GuestLoad]) -> str:
    """Returns the counters of all *guests* for a summary line."""
    return (
        f"let_in={sum(len(one.let_in) for one in guests)} "
        f"shut_out={sum(len(one.shut_out) for one in guests)} "
        f"denied={sum(one.refused for one in guests)} "
        f"allowed={sum(one.allowed for one in guests)} "
        f"rights_changed={sum(one.changes for one in guests)}"
    )


async def _tried(client: QueueManager, number: int, queue: str) -> None:
    """Sends request *number* of TRIES for *queue*.

    Raises:
        RequestError: The request was refused.
    """
    match number:
        case 0:
            await client.put(queue, b"stranger")
        case 1:
            await client.get(queue)
        case 2:
            await client.admin.queue_show(queue)
        case 3:
            await client.admin.queue_purge(queue)
        case _:
            await client.admin.grant_create(RIGHTS, "queue", "*", user=STRANGER)
