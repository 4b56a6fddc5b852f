"""A subscription, for asyncio: an iterator over publications."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

from qmgr_client.aio.consumer import Consumer
from qmgr_client.aio.session import Session
from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import Message
from qmgr_client.sansio.core import BYTES_MAX
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError


class SubscriptionTerms(NamedTuple):
    """The topic filter and the options of a subscription."""

    topic: str
    subscription: str
    where: str
    attributes: dict[str, Any]
    retained: bool
    prefetch: int
    lease_ms: int
    order: tuple[int, bool]


class Subscription:
    """An iterator over publications, for ``async with`` and ``async for``.

    A subscription ends with its ``async with`` block or with :meth:`cancel`. If you use neither, a
    subscription that is not durable collects publications until its connection ends. Several tasks
    may share a subscription.
    """

    def __init__(
        self, session: Session, ask: Callable[..., Awaitable[Any]], terms: SubscriptionTerms
    ) -> None:
        self._name = ""
        self._session = session
        self._ask = ask
        self._terms = terms
        self._opening: asyncio.Task[Consumer] | None = None
        self._is_over = False

    @property
    def name(self) -> str:
        """The name of the subscription at the queue manager, or ``""`` before :meth:`open`.

        A subscription that is not durable receives a new name after each loss of the connection.
        """
        return self._name

    async def open(self) -> None:
        """Subscribes, unless the subscription is already open.

        Raises:
            RequestError: TOPIC_INVALID, NAME_INVALID, VALUE_INVALID, SELECTOR_INVALID,
                SUBSCRIPTION_EXISTS or SUBSCRIPTIONS_EXHAUSTED.
        """
        self._is_over = False
        await self._opened()

    async def _opened(self) -> Consumer:
        """Returns the consumer. If the wait is cancelled, the opening still completes."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._subscribe())
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except RequestError:
            self._ended(opening)
            raise

    def _ended(self, opening: "asyncio.Task[Consumer]") -> None:
        if self._opening is opening:
            self._opening = None

    async def _subscribe(self) -> Consumer:
        terms = self._terms
        row = await self._ask(m.Subscribe, *terms[:5])
        self._name = row["subscription"]
        ticket, stream = self._session.consume(
            self._name, terms.prefetch, BYTES_MAX, terms.lease_ms, ("", b"", b""), terms.order
        )
        return Consumer(self._session, ticket, stream)

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Message:
        """Waits for the next publication, leases it and returns it.

        Raises:
            StopAsyncIteration: The subscription was cancelled or the client was closed.
            MessageDamaged: The record of the publication cannot be read. You may continue with the
                next publication.
            RequestError: The queue manager ended the subscription or refused to open it.
        """
        while not self._is_over:
            consumer = await self._opened()
            opening = self._opening
            try:
                return await anext(consumer)
            except RequestError as error:
                is_new = not self._terms.subscription
                if not is_new or error.code != ErrorCode.SUBSCRIPTION_UNKNOWN:
                    raise
                if opening is not None:  # The subscription ended with its connection.
                    self._ended(opening)
        raise StopAsyncIteration

    async def __aenter__(self) -> "Subscription":
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.cancel()

    async def cancel(self) -> None:
        """Ends the iterator. A subscription that is not durable is deleted with its messages."""
        self._is_over = True
        opening, self._opening = self._opening, None
        if opening is None:
            return
        try:
            consumer = await asyncio.shield(opening)
        except RequestError:
            return  # The subscription was never opened.
        await consumer.cancel()
        if not self._terms.subscription:
            try:
                with suppress(ConnectionEnded):  # The subscription has ended with the connection.
                    await self._ask(m.Unsubscribe, self._name)
            except RequestError as error:
                # The connection of the subscription was lost.
                if error.code != ErrorCode.SUBSCRIPTION_UNKNOWN:
                    raise
