"""Putting and getting messages, for asyncio."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Unpack

from qmgr_client.aio.browse import browse
from qmgr_client.aio.channel import Channel
from qmgr_client.aio.consumer import Consumer
from qmgr_client.aio.get import get_many, give_back
from qmgr_client.aio.unit import UnitOfWork
from qmgr_client.duration import Duration, in_ms
from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, each_outgoing, outgoing_of
from qmgr_client.sansio.core import BYTES_MAX
from qmgr_client.selection import (
    BrowseOrder,
    GroupOrder,
    Selection,
    SelectionOrUid,
    chosen,
    chosen_of_consumer,
    order_of,
)
from qmgr_protocol.errors import RequestError


class Messaging(Channel):
    """The methods that put, get, consume and browse messages."""

    async def submit(
        self, queue: str, body: bytes, **options: Unpack[PutOptions]
    ) -> "asyncio.Future[PutResult]":
        """Sends a message and returns a future that is done when the message is on disk.

        Use this method to keep many puts in flight. The call waits only while a full window of puts
        is pending.

        Args:
            queue: The name of a queue, ``QUEUE@MANAGER`` for a queue of another queue manager, or
                a topic with a leading ``/``.
            body: The content of the message.
            options: The fields of :class:`Outgoing`, such as ``priority``, ``headers`` and
                ``expiry_ms``.

        Returns:
            A future with the :class:`PutResult` or with the RequestError of a refusal.

        Raises:
            RequestError: NAME_INVALID, TOPIC_INVALID or VALUE_INVALID. The message was not sent.
        """
        return await self._submit(queue, outgoing_of("submit", body, options))

    async def put(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Puts a message and returns once it is on disk.

        If you cancel the call, the message may still be stored.

        Args:
            queue: The name of a queue, ``QUEUE@MANAGER`` for a queue of another queue manager, or
                a topic with a leading ``/``.
            body: The content of the message.
            options: The fields of :class:`Outgoing`, such as ``priority``, ``headers`` and
                ``expiry_ms``.

        Returns:
            The UID of the message, and whether the put was sent more than once.

        Raises:
            RequestError: The put is invalid, or the queue manager refused it, for example with
                QUEUE_UNKNOWN or QUEUE_FULL.
            UnknownOutcome: The connection was lost, and the queue manager no longer knows whether
                it has stored the message.
        """
        return await (await self._submit(queue, outgoing_of("put", body, options)))

    async def put_many(
        self, queue: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Puts several messages and returns once each message is on disk or refused.

        Args:
            queue: The name of a queue or topic, as in :meth:`put`.
            items: Bodies, or :class:`Outgoing` messages with options.

        Returns:
            A PutResult or a RequestError for each item, in the order of *items*.

        Raises:
            RequestError: VALUE_INVALID if *items* is a single body instead of a list.
        """
        return await self._put_each(queue, each_outgoing("put_many", items))

    async def _put_each(
        self, queue: str, messages: Iterable[Outgoing]
    ) -> list[PutResult | RequestError]:
        futures: list[asyncio.Future[PutResult] | RequestError] = []
        for outgoing in messages:
            try:
                futures.append(await self._submit(queue, outgoing))
            except RequestError as error:
                futures.append(error)
        return [await _outcome(future) for future in futures]

    async def get(
        self,
        queue: str,
        wait_ms: Duration = 0,
        lease_ms: Duration = 0,
        messages_max: int = 1,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Leases and returns the next message, or returns None if no message arrives in time.

        The lease ends when you acknowledge, release or reject the message, when the lease times
        out, or when the connection is lost.

        Args:
            queue: The name of a queue or of a durable subscription.
            wait_ms: The maximum time to wait for a message, at most 7 days. 0 does not wait.
            lease_ms: The length of the lease, at most one day. 0 uses the queue's ``lease_ms``.
            messages_max: Leave this argument at 1. To get several messages, call :meth:`get_many`.
            selection: At most one of ``where``, ``correlation_id``, ``group_id`` and ``uid``.

        Raises:
            MessageDamaged: The record of the message cannot be read. The message is leased.
            RequestError: For example QUEUE_UNKNOWN, GET_INHIBITED or SELECTOR_INVALID.
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
        """Leases and returns up to *messages_max* messages as soon as at least one is available.

        Args:
            queue: The name of a queue or of a durable subscription.
            messages_max: The maximum number of messages to return, at most 256.
            wait_ms: The maximum time to wait for a message, at most 7 days. 0 does not wait.
            lease_ms: The length of each lease, at most one day. 0 uses the queue's ``lease_ms``.
            selection: At most one of ``where``, ``correlation_id``, ``group_id`` and ``uid``.

        Returns:
            The messages, or an empty list if no message arrives within *wait_ms*.

        Raises:
            MessageDamaged: The record of one message cannot be read. That message is leased, and
                the other messages are returned to the queue.
            RequestError: For example QUEUE_UNKNOWN, GET_INHIBITED or SELECTOR_INVALID.
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
    ) -> Consumer:
        """Returns an iterator that leases and yields the messages of a queue as they arrive.

        Args:
            queue: The name of a queue or of a durable subscription.
            prefetch: The maximum number of unsettled messages in the client. Within this limit, the
                client prefetches about as many messages as the application takes in one second.
            lease_ms: The length of each lease, from the time when the iterator returns the
                message. 0 uses the queue's ``lease_ms``.
            bytes_max: The maximum size of the unsettled messages in the client, in bytes.
            groups: ``"physical"`` ignores groups. ``"logical"`` delivers one group after another,
                each in the order of its numbers. ``"pinned"`` delivers many groups at a time, each
                to a single consumer. If you release a message of a group, the later messages of the
                group are delivered again, and settling their earlier copies raises LEASE_LOST.
            all_available: Whether to start a group only when all of its messages are on the queue.
            auto_renew: Whether to renew each lease until the message is settled.
            selection: At most one of ``where``, ``correlation_id`` and ``group_id``.

        Raises:
            RequestError: VALUE_INVALID or SELECTOR_INVALID. The iterator raises the errors of the
                queue manager, such as QUEUE_UNKNOWN.
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
        """Returns a unit of work for ``async with``.

        The puts and acknowledgements of the unit are committed together when the block ends, or
        not at all.
        """
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
        """Yields messages in the order of the queue without removing or leasing them.

        If the record of a message cannot be read, the message is yielded with the reason in
        ``damage``.

        Args:
            queue: The name of a queue or of a durable subscription.
            limit: The maximum number of messages to yield. None means unlimited.
            delayed: Whether to yield the delayed messages instead of the ready messages.
            after: Start after this message, which an earlier browse in the same *order* yielded.
                The message may have been removed since then. In logical order, the message must not
                be part of a group.
            order: ``"physical"``, or ``"logical"`` to yield each group from its due message on.
            all_available: Whether to yield only groups that are complete.
            selection: At most one of ``where``, ``correlation_id``, ``group_id`` and ``uid``.

        Raises:
            RequestError: INCONSISTENT_BROWSE if *after* was browsed in another order. Also, for
                example, QUEUE_UNKNOWN or SELECTOR_INVALID.
        """
        wanted, groups = chosen(**selection), (order_of(order), all_available)
        async for message in browse(self._ask, queue, limit, after, wanted, delayed, groups):
            yield message


async def _outcome(future: "asyncio.Future[PutResult] | RequestError") -> PutResult | RequestError:
    if isinstance(future, RequestError):
        return future
    try:
        return await future
    except RequestError as error:
        return error
