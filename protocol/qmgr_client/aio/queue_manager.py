"""The client for asyncio.

    async with connect("127.0.0.1:7470") as queue_manager:
        await queue_manager.put("ORDERS", b"one ton of apples")
        async for message in queue_manager.consume("ORDERS"):
            ...
            await queue_manager.ack(message)

A lost connection is made again, what was under way is sent again, and every call has one result:
a value, or RequestError with the queue manager's code. Belongs to the loop it was opened on.
"""

import asyncio
import os
import secrets
from types import TracebackType

from qmgr_client import address as addresses
from qmgr_client.aio.admin import Admin
from qmgr_client.aio.dialler import Dialler, Patience
from qmgr_client.aio.groups import Groups
from qmgr_client.aio.replies import Replies
from qmgr_client.aio.session import Session
from qmgr_client.aio.settle import Settling
from qmgr_client.aio.work import Work
from qmgr_client.client_name import checked, client_name
from qmgr_client.duration import Duration, in_ms, in_ms_or_none
from qmgr_client.sansio.core import ClientCore
from qmgr_protocol.errors import ErrorCode

CLOSE_MAX_MS = 5_000


def connect(
    address: str,
    *,
    name: str = "",
    producer_id: bytes | None = None,
    reconnect: bool = True,
    wait_ms: Duration | None = 0,
    give_up_ms: Duration | None = None,
    coalesce: bool = True,
) -> "QueueManager":
    """Return a client of the queue manager at *address*; ``async with``, or ``open``, connects it.

    Args:
        address: "host:port" or "unix:/path".
        name: what the queue manager's log calls this client, and by which it keeps one out whose
            request met a bug. Else its program, host and process id: "billing.host7.4711".
        producer_id: 16 bytes that stay this application's over restarts. One process at a time may
            use them: the newest sends the others away. None makes new ones.
        reconnect: whether a lost connection is made again; else all that is open fails.
        wait_ms: how long the first connection is tried for; 0 tries once, None for ever.
        give_up_ms: how long a lost connection is tried for; None for ever.
        coalesce: whether what is put in one turn of the loop is sent together.

    Raises:
        AddressInvalid: *address* names nothing; a ConnectFailed and a ValueError.
        ValueError: *name* is no text of UTF-8 or over 255 characters, *producer_id* is not 16
            bytes, or a time is negative. It connects only once it is opened.
        RequestError: VALUE_INVALID, a time is not a duration, or a negative timedelta.
    """
    producer_id = os.urandom(16) if producer_id is None else producer_id
    if type(producer_id) is not bytes or len(producer_id) != 16:
        raise ValueError(f"the producer id {producer_id!r} is not 16 bytes")
    return QueueManager(
        addresses.parse(address),
        ClientCore(
            checked(name) or client_name(),
            producer_id,
            instance=secrets.randbits(63),
            coalesce=coalesce,
        ),
        Patience(
            in_ms_or_none("wait_ms", wait_ms),
            in_ms_or_none("give_up_ms", give_up_ms) if reconnect else 0,
        ),
    )


class QueueManager(Groups, Replies, Settling, Work):
    """A connection to a queue manager, for ``async with``.

    Every method raises RequestError if the queue manager refuses a request, and ConnectionEnded
    once the client is closed. Use the object only on the event loop that opened it.
    """

    def __init__(self, address: addresses.Address, core: ClientCore, patience: Patience) -> None:
        super().__init__(core)
        self._address = address
        self._patience = patience
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "QueueManager":
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The queue manager's name."""
        return self._core.welcome.name

    @property
    def admin(self) -> Admin:
        """What operators ask of it: queues, links, topics, jobs, history."""
        return Admin(self._ask)

    async def open(self) -> None:
        """Connect, and stay so until :meth:`close`.

        Raises:
            ConnectFailed: what, where, and what to try.
            ConnectionEnded: the queue manager wants no such client.
        """
        if self._task is not None:
            raise RuntimeError("the client is open already: open a client once, or connect another")
        self._session = Session(self._core)
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        dialler = Dialler(self._session, self._address, self._patience)
        self._task = asyncio.create_task(dialler.run(opened))
        try:
            await opened
        except BaseException:
            await self._stop()
            raise

    async def close(self, timeout_ms: Duration = CLOSE_MAX_MS) -> None:
        """Wait up to *timeout_ms* for puts and settles under way, then end. Any number of times."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(in_ms("timeout_ms", timeout_ms) / 1000):
                await self._session.settled_down()
        except TimeoutError:
            pass  # What is left ends below, each with an error of its own.
        finally:
            await self._stop()

    async def _stop(self) -> None:
        self._session.end(ErrorCode.CANCELLED, "closed by the caller")
        await self._close_replies()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()):
                raise error
        await self._session.closed()
