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
from qmgr_client.aio_admin import Admin
from qmgr_client.aio_browse import browse
from qmgr_client.aio_consumer import Consumer
from qmgr_client.aio_dialler import Dialler, Patience
from qmgr_client.aio_get import get_many, give_back
from qmgr_client.aio_group_put import GroupPut
from qmgr_client.aio_group_run import GroupGot, GroupPutDone
from qmgr_client.aio_groups import Groups
from qmgr_client.aio_reader import GroupReader
from qmgr_client.aio_session import Session, Unopened
from qmgr_client.aio_subscription import Subscription
from qmgr_client.aio_topics import Topics
from qmgr_client.aio_unit import UnitOfWork
from qmgr_client.client_name import client_name
from qmgr_client.core import BYTES_MAX, ClientCore
from qmgr_client.errors import ConnectFailed, ConnectionEnded, MessageDamaged, UnknownOutcome
from qmgr_client.message import DeadLetter, Group, Message
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, delay_until, encode
from qmgr_client.selection import BrowseOrder, GroupOrder, Selection, SelectionOrUid
from qmgr_client.selection import chosen as chosen
from qmgr_client.selection import order_of as order_of
from qmgr_client.settles import Terms
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import CLIENT_NAME_MAX
from qmgr_protocol.record import Uid

__all__ = [
    "ConnectFailed",
    "ConnectionEnded",
    "Consumer",
    "DeadLetter",
    "Group",
    "GroupGot",
    "GroupPut",
    "GroupPutDone",
    "GroupReader",
    "Message",
    "MessageDamaged",
    "Outgoing",
    "PutResult",
    "QueueManager",
    "RequestError",
    "Subscription",
    "Uid",
    "UnitOfWork",
    "UnknownOutcome",
    "connect",
]

CLOSE_MAX_MS = 5_000
NAMES_KNOWN_MAX = 10_000


def connect(
    address: str, *, name: str = "", producer_id: bytes | None = None, reconnect: bool = True,
    wait_ms: int | None = 0, give_up_ms: int | None = None, coalesce: bool = True,
) -> "QueueManager":  # fmt: skip
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
            bytes, or a time is negative. Nothing else: it connects only once it is opened.
    """
    producer_id = os.urandom(16) if producer_id is None else producer_id
    if type(producer_id) is not bytes or len(producer_id) != 16:
        raise ValueError(f"the producer id {producer_id!r} is not 16 bytes")
    return QueueManager(
        addresses.parse(address),
        ClientCore(
            _checked(name) or client_name(),
            producer_id,
            instance=secrets.randbits(63),
            coalesce=coalesce,
        ),
        Patience(wait_ms, give_up_ms if reconnect else 0),
    )


def _checked(name: str) -> str:
    try:
        str.encode(name)
    except (TypeError, UnicodeEncodeError):
        raise ValueError(f"the name {name!r} is no text of UTF-8") from None
    if len(name) > CLIENT_NAME_MAX:
        raise ValueError(f"a name of {len(name)} characters, at most {CLIENT_NAME_MAX}")
    return name


class QueueManager(Admin, Groups, Topics):
    """A queue manager, as its client sees it. All verbs raise RequestError where it refuses."""

    _session: Session = cast(Session, Unopened())

    def __init__(self, address: addresses.Address, core: ClientCore, patience: Patience) -> None:
        self._address = address
        self._core = core
        self._patience = patience
        self._task: asyncio.Task[None] | None = None
        Groups.__init__(self)
        self._names: set[str] = set()  # known to be well-formed

    async def __aenter__(self) -> "QueueManager":
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.close()

    @property
    def name(self) -> str:
        """The queue manager's name."""
        return self._core.welcome.name

    async def open(self) -> None:
        """Connect, and stay so until :meth:`close`.

        Raises:
            ConnectFailed: what, where, and what to try.
            ConnectionEnded: the queue manager wants no such client.
        """
        assert self._task is None, "opened before"
        self._session = Session(self._core)
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        dialler = Dialler(self._session, self._address, self._patience)
        self._task = asyncio.create_task(dialler.run(opened))
        try:
            await opened
        except BaseException:
            await self._stop()
            raise

    async def close(self, timeout_ms: int = CLOSE_MAX_MS) -> None:
        """Wait up to *timeout_ms* for puts and settles under way, then end. Any number of times."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._session.settled_down()
        except TimeoutError:
            pass  # What is left ends below, each with an error of its own.
        finally:
            await self._stop()

    async def _stop(self) -> None:
        self._session.end(ErrorCode.CANCELLED, "closed by the caller")
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
        return await self._submit(queue, Outgoing(body, **options))

    async def put(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Put a message; return when it is on disk. *options* are as of :meth:`submit`.

        A put that is cancelled may still be stored.
        """
        return await (await self._submit(queue, Outgoing(body, **options)))

    async def put_many(
        self, queue: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Put bodies or whole messages; return what became of each, in their order."""
        futures: list[asyncio.Future[PutResult] | RequestError] = []
        for item in items:
            outgoing = item if isinstance(item, Outgoing) else Outgoing(item)
            try:
                futures.append(await self._submit(queue, outgoing))
            except RequestError as error:
                futures.append(error)
        return [await _outcome(future) for future in futures]

    async def _submit(self, queue: str, outgoing: Outgoing) -> "asyncio.Future[PutResult]":
        if outgoing.deliver_at is not None:
            outgoing = outgoing.dated(datetime.now(UTC))
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
        self, queue: str, wait_ms: int = 0, lease_ms: int = 0, messages_max: int = 1,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:  # fmt: skip
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
        self, queue: str, messages_max: int, wait_ms: int = 0, lease_ms: int = 0,
        **selection: Unpack[SelectionOrUid],
    ) -> list[Message]:  # fmt: skip
        """Return up to *messages_max* messages, as soon as there is one; at most 256 at a time.

        Raises:
            MessageDamaged: one cannot be read; the others are given back.
        """
        wanted = chosen(**selection)
        return await get_many(self._session, queue, messages_max, wait_ms, lease_ms, wanted)

    def consume(
        self, queue: str, prefetch: int = 256, lease_ms: int = 0, bytes_max: int = BYTES_MAX, *,
        groups: GroupOrder = "physical", all_available: bool = False,
        **selection: Unpack[Selection],
    ) -> "Consumer":  # fmt: skip
        """Return an iterator over messages under lease, which come as they are put.

        Args:
            prefetch: how many may be here and not settled.
            lease_ms: how long each is this client's; 0 leaves it to the queue.
            bytes_max: as *prefetch*, in bytes.
            groups: "logical" has one group after the other, each in the order of its numbers;
                "pinned" many at a time, all of each to one consumer. What came behind a message
                that is given back comes again: to settle it is LEASE_LOST.
            all_available: whether groups are begun only when all of them is there.
            selection: one of where, correlation_id and group_id.
        """
        wanted, order = chosen(**selection)[:3], (order_of(groups, pinned=True), all_available)
        ticket, stream = self._session.consume(queue, prefetch, bytes_max, lease_ms, wanted, order)
        return Consumer(self._session, ticket, stream)

    async def ack_soon(self, message: Message) -> "asyncio.Future[None]":
        """Have a message removed for good; return a future that is done when that is on disk.

        Waits for nothing: what is leased bounds it.
        """
        return self._session.settle(message, m.ACK)

    async def ack(self, message: Message) -> None:
        """Remove a message for good.

        Raises:
            RequestError: LEASE_LOST, another may have it by now.
        """
        await self._session.settle(message, m.ACK)

    async def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Remove messages for good; return why not for each that was not."""
        futures = [self._session.settle(message, m.ACK) for message in messages]
        return [await _refusal(future) for future in futures]

    async def release(
        self, message: Message, delay_ms: int | None = None, *, failed: bool = True,
        retry_at: datetime | None = None, reason: str = "", text: str = "",
    ) -> None:  # fmt: skip
        """Give a message back: it can be had again.

        Args:
            delay_ms: not before so long, at most ten years; None is as the queue has it for what
                failed, 0 at once.
            failed: whether that counts as a failure: after as many as its queue allows it becomes
                a dead letter.
            retry_at: the same as *delay_ms* as a time of day, with its time zone.
            reason, text: why, in a word of at most 64 characters, and for people in at most 1,000;
                its note has them.

        Raises:
            RequestError: LEASE_LOST, another may have it by now.
        """
        if retry_at is not None:
            if delay_ms is not None:
                text = "delay_ms and retry_at are both given: one says it all"
                raise RequestError(ErrorCode.VALUE_INVALID, text)
            delay_ms = min(delay_until(retry_at, datetime.now(UTC), "retry_at"), m.DELAY_MAX_MS)
        delay_ms = m.DELAY_OF_QUEUE if delay_ms is None else delay_ms
        action = m.RELEASE if failed else m.RETURN
        await self._session.settle(message, action, Terms(delay_ms, 0, reason, text))

    async def reject(self, message: Message, reason: str = "", text: str = "") -> None:
        """Have a message be a dead letter at once: it would fail again. Otherwise as a release."""
        terms = Terms(reason=reason, text=text)
        await self._session.settle(message, m.REJECT, terms)

    async def renew(self, message: Message, lease_ms: int = 0) -> None:
        """Keep a message for *lease_ms* from now on, at most a day; 0: as long as it was.

        Raises:
            RequestError: LEASE_LOST, another may have it by now.
        """
        await self._session.renew(message, lease_ms)

    def unit_of_work(self) -> UnitOfWork:
        """Return a unit of work, for ``async with``: puts and acks done together, or not at all."""
        return UnitOfWork(self._session)

    async def browse(
        self, queue: str, limit: int | None = None, *, delayed: bool = False,
        after: Message | None = None, order: BrowseOrder = "physical", all_available: bool = False,
        **selection: Unpack[SelectionOrUid],
    ) -> AsyncGenerator[Message, None]:  # fmt: skip
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


async def _refusal(future: "asyncio.Future[None]") -> RequestError | None:
    try:
        await future
    except RequestError as error:
        return error
    return None
