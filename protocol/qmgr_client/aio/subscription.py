"""A subscription that is consumed from, for asyncio."""

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


class Terms(NamedTuple):
    """What is subscribed to, and how it is consumed."""

    topic: str
    subscription: str
    where: str
    attributes: dict[str, Any]
    retained: bool
    prefetch: int
    lease_ms: int
    order: tuple[int, bool]


class Subscription:
    """Publications as they come, for ``async with`` and ``async for``. Several tasks may share one.

    Left without ``async with`` or cancel, one that is not durable goes on holding what is published
    until its connection ends.

    Invariant: ``name`` is that under which it is known to the queue manager, empty before it is
    opened. One that is not durable has another one after each loss of the connection.
    """

    def __init__(self, session: Session, ask: Callable[..., Awaitable[Any]], terms: Terms) -> None:
        self._name = ""
        self._session = session
        self._ask = ask
        self._terms = terms
        self._opening: asyncio.Task[Consumer] | None = None
        self._is_over = False

    @property
    def name(self) -> str:
        """The name that the queue manager knows the subscription by; empty before it is opened.

        A subscription that is not durable gets a new name after each loss of the connection.
        """
        return self._name

    async def open(self) -> None:
        """Subscribe, unless it has been done.

        Raises:
            RequestError: TOPIC_INVALID, NAME_INVALID, VALUE_INVALID, SELECTOR_INVALID,
                SUBSCRIPTION_EXISTS, SUBSCRIPTIONS_EXHAUSTED.
        """
        self._is_over = False
        await self._opened()

    async def _opened(self) -> Consumer:
        """Return the consumer. Who gives up waiting for it leaves no subscription without one."""
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
        """Return the next publication; raises as that of a consumer."""
        while not self._is_over:
            consumer = await self._opened()
            opening = self._opening
            try:
                return await anext(consumer)
            except RequestError as error:
                is_new = not self._terms.subscription
                if not is_new or error.code != ErrorCode.SUBSCRIPTION_UNKNOWN:
                    raise
                if opening is not None:  # It ended with its connection: begin another.
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
        """Consume no more; one that is not durable ends, too, with what is not acknowledged."""
        self._is_over = True
        opening, self._opening = self._opening, None
        if opening is None:
            return
        try:
            consumer = await asyncio.shield(opening)
        except RequestError:
            return  # It never came about.
        await consumer.cancel()
        if not self._terms.subscription:
            try:
                with suppress(ConnectionEnded):  # And it with that.
                    await self._ask(m.Unsubscribe, self._name)
            except RequestError as error:
                if error.code != ErrorCode.SUBSCRIPTION_UNKNOWN:  # Its connection was lost.
                    raise
