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
from collections.abc import AsyncGenerator, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Unpack, cast

from qmgr_client import address as addresses
from qmgr_client import destination
from qmgr_client.aio.admin import Admin
from qmgr_client.aio.browse import browse
from qmgr_client.aio.consumer import Consumer
from qmgr_client.aio.dialler import Dialler, Patience
from qmgr_client.aio.get import get_many, give_back
from qmgr_client.aio.groups import Groups
from qmgr_client.aio.replies import Replies
from qmgr_client.aio.session import Session, Unopened
from qmgr_client.aio.settle import Settling
from qmgr_client.aio.topics import Topics
from qmgr_client.aio.unit import UnitOfWork
from qmgr_client.aio.work import Work
from qmgr_client.client_name import checked, client_name
from qmgr_client.duration import Duration, in_ms, in_ms_or_none
from qmgr_client.errors import RequestTimeout as RequestTimeout
from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, each_outgoing, encode, outgoing_of
from qmgr_client.sansio.core import BYTES_MAX, ClientCore
from qmgr_client.selection import (
    BrowseOrder,
    GroupOrder,
    Selection,
    SelectionOrUid,
    chosen_of_consumer,
)
from qmgr_client.selection import chosen as chosen
from qmgr_client.selection import order_of as order_of
from qmgr_protocol.errors import ErrorCode, RequestError

CLOSE_MAX_MS = 5_000
NAMES_KNOWN_MAX = 10_000


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


class QueueManager(Groups, Topics, Settling, Work, Replies):
    """A queue manager, as its client sees it. All verbs raise RequestError where it refuses."""

    _session: Session = cast(Session, Unopened())

    def __init__(self, address: addresses.Address, core: ClientCore, patience: Patience) -> None:
        self._address = address
        self._core = core
        self._patience = patience
        self._task: asyncio.Task[None] | None = None
        Groups.__init__(self)
        Work.__init__(self)
        Replies.__init__(self)
        self._names: set[str] = set()  # known to be well-formed

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

    # Putting

    async def submit(
        self, queue: str, body: bytes, **options: Unpack[PutOptions]
    ) -> "asyncio.Future[PutResult]":
        """Have a message put; return a future that is done when it is on disk, or refused.

        Waits only while more than a window of puts waits to be sent. *options* are the fields of
        :class:`Outgoing`: priority, headers, expiry_ms and so on.
        """
        return await self._submit(queue, outgoing_of("submit", body, options))

    async def put(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Put a message; return when it is on disk. *options* are as of :meth:`submit`.

        A put that is cancelled may still be stored.
        """
        return await (await self._submit(queue, outgoing_of("put", body, options)))

    async def put_many(
        self, queue: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Put bodies or whole messages; return what became of each, in their order."""
        futures: list[asyncio.Future[PutResult] | RequestError] = []
        for outgoing in each_outgoing("put_many", items):
            try:
                futures.append(await self._submit(queue, outgoing))
            except RequestError as error:
                futures.append(error)
        return [await _outcome(future) for future in futures]

    async def _submit(self, queue: str, outgoing: Outgoing) -> "asyncio.Future[PutResult]":
        if outgoing.deliver_at is not None or outgoing.key is not None:
            outgoing = outgoing.resolved(datetime.now(UTC))
        record = encode(outgoing)
        if type(queue) is not str or queue not in self._names:
            self._check(queue)
        if not self._core.can_put:
            await self._session.room()
        return self._session.put(queue, record, outgoing.uid)

    def _check(self, queue: str) -> None:
        if not isinstance(queue, str):
            raise RequestError(ErrorCode.NAME_INVALID, f"a queue's name is text, not {queue!r}")
        destination.check(queue)
        if len(self._names) >= NAMES_KNOWN_MAX:
            self._names.clear()
        self._names.add(queue)

    # Getting

    async def get(
        self,
        queue: str,
        wait_ms: Duration = 0,
        lease_ms: Duration = 0,
        messages_max: int = 1,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Return the next message under lease, or None where none comes within *wait_ms*.

        Args:
            wait_ms: at most 7 days.
            lease_ms: how long it is this client's, at most a day; 0 leaves it to the queue.
            messages_max: for :meth:`get_many`.
            selection: one of where, correlation_id, group_id and uid.

        Raises:
            MessageDamaged: it cannot be read.
        """
        found = await self.get_many(queue, messages_max, wait_ms, lease_ms, **selection)
        give_back(self._session, found[1:])
        return found[0] if found else None

    async def get_many(
        self,
        queue: str,
        messages_max: int,
        wait_ms: Duration = 0,
        lease_ms: Duration = 0,
        **selection: Unpack[SelectionOrUid],
    ) -> list[Message]:
        """Return up to *messages_max* messages, as soon as there is one; at most 256 at a time.

        Raises:
            MessageDamaged: one cannot be read; the others are given back.
        """
        wanted = chosen(**selection)
        return await get_many(self._session, queue, messages_max, wait_ms, lease_ms, wanted)

    def consume(
        self,
        queue: str,
        prefetch: int = 256,
        lease_ms: Duration = 0,
        bytes_max: int = BYTES_MAX,
        *,
        groups: GroupOrder = "physical",
        all_available: bool = False,
        auto_renew: bool = False,
        **selection: Unpack[Selection],
    ) -> "Consumer":
        """Return an iterator over messages under lease, which come as they are put.

        Args:
            prefetch: how many the client may hold that are not settled. It prefetches as many
                as it takes in about a second.
            lease_ms: how long each is this client's once the iterator has returned it; 0 leaves it
                to the queue.
            bytes_max: as *prefetch*, in bytes.
            auto_renew: whether it is this client's until it is settled.
            groups: "logical" has one group after the other, each in the order of its numbers;
                "pinned" many at a time, all of each to one consumer. What came behind a message
                that is given back comes again: to settle it is LEASE_LOST.
            all_available: whether groups are begun only when all of them is there.
            selection: one of where, correlation_id and group_id.
        """
        wanted = chosen_of_consumer(**selection)
        ticket, stream = self._session.consume(
            queue,
            prefetch,
            bytes_max,
            in_ms("lease_ms", lease_ms),
            wanted,
            (order_of(groups, pinned=True), all_available),
            auto_renew=auto_renew,
        )
        return Consumer(self._session, ticket, stream)

    def unit_of_work(self) -> UnitOfWork:
        """Return a unit of work, for ``async with``: puts and acks done together, or not at all."""
        return UnitOfWork(self._session)

    async def browse(
        self,
        queue: str,
        limit: int | None = None,
        *,
        delayed: bool = False,
        after: Message | None = None,
        order: BrowseOrder = "physical",
        all_available: bool = False,
        **selection: Unpack[SelectionOrUid],
    ) -> AsyncGenerator[Message, None]:
        """Yield messages in their order, at most *limit*, and leave them where they are.

        One that cannot be read says so in ``damage``. With *delayed* those that wait for their time
        come, instead of those that can be got; with *after* those behind that message, which was
        browsed here in the same *order* (else INCONSISTENT_BROWSE) and may be gone. In logical
        *order* groups come from their due message on, and *after* is of no group; with
        *all_available* only those that are all there. *selection* is as of :meth:`get`.
        """
        wanted, groups = chosen(**selection), (order_of(order), all_available)
        async for message in browse(self._ask, queue, limit, after, wanted, delayed, groups):
            yield message

    async def _ask(self, kind: type[Any], *fields: Any) -> Any:
        ticket, future = self._session.request(kind, *fields)
        try:
            return await future
        except asyncio.CancelledError:
            self._session.abandon(ticket)
            raise


async def _outcome(future: "asyncio.Future[PutResult] | RequestError") -> PutResult | RequestError:
    if isinstance(future, RequestError):
        return future
    try:
        return await future
    except RequestError as error:
        return error
