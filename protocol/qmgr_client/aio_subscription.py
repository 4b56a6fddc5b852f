"""A subscription that is consumed from, for asyncio."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NamedTuple

from qmgr_client.aio_consumer import Consumer
from qmgr_client.aio_session import Session
from qmgr_client.core import BYTES_MAX
from qmgr_client.message import Message
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
    """Publications as they come, for ``async with`` and ``async for``.

    Invariant: ``name`` is that under which it is known to the queue manager, empty before it is
    opened. One that is not durable has another one after each loss of the connection.
    """

    def __init__(self, session: Session, ask: Callable[..., Awaitable[Any]], terms: Terms) -> None:
        self.name = ""
        self._session = session
        self._ask = ask
        self._terms = terms
        self._consumer: Consumer | None = None

    async def open(self) -> None:
        """Subscribe, unless it has been done.

        Raises:
            RequestError: TOPIC_INVALID, NAME_INVALID, VALUE_INVALID, SELECTOR_INVALID,
                SUBSCRIPTION_EXISTS, SUBSCRIPTIONS_EXHAUSTED.
        """
        if self._consumer is not None:
            return
        terms = self._terms
        row = await self._ask(m.Subscribe, *terms[:5])
        self.name = row["subscription"]
        ticket, stream = self._session.consume(
            self.name, terms.prefetch, BYTES_MAX, terms.lease_ms, ("", b"", b""), terms.order
        )
        self._consumer = Consumer(self._session, ticket, stream)

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Message:
        """Return the next publication; raises as that of a consumer."""
        while True:
            await self.open()
            assert self._consumer is not None, "it is open"
            try:
                return await anext(self._consumer)
            except RequestError as error:
                is_new = not self._terms.subscription
                if not is_new or error.code != ErrorCode.SUBSCRIPTION_UNKNOWN:
                    raise
                self._consumer = None  # It ended with its connection: begin another.

    async def __aenter__(self) -> "Subscription":
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.cancel()

    async def cancel(self) -> None:
        """Consume no more; one that is not durable ends, too."""
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        await consumer.cancel()
        if not self._terms.subscription:
            try:
                await self._ask(m.Unsubscribe, self.name)
            except RequestError as error:
                if error.code != ErrorCode.SUBSCRIPTION_UNKNOWN:  # Its connection was lost.
                    raise
