"""Requests and replies, for asyncio: the reply to a message is another message.

    asking    request ──put, reply_to=/replies/4f2a..., correlation id──▶ queue
                 ▲                                                          │ consume
                 └──────── subscription to /replies/4f2a... ◀── publish ── reply

1. The reply address is a random topic with a subscription that is not durable. A client creates
   the subscription at its first request and uses it for all requests.
2. The correlation id assigns a reply to its request. Late and repeated replies are dropped.
3. If the connection is lost, the client subscribes again. Replies that are sent in the meantime are
   lost.
"""

import asyncio
import secrets
from contextlib import suppress
from typing import Unpack

from qmgr_client.aio.session import Session
from qmgr_client.aio.subscription import Subscription
from qmgr_client.aio.topics import Topics
from qmgr_client.duration import Duration, in_ms
from qmgr_client.errors import ConnectionEnded, MessageDamaged, RequestTimeout
from qmgr_client.message import Message, check_is_message
from qmgr_client.outgoing import PutOptions, PutResult, outgoing_of
from qmgr_client.sansio.core import ClientCore
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.topic import MARK

TOPICS = "replies/"  # prefix of the topics of all clients
ID_BYTES = 16
TIMEOUT_MS = 5_000


class _ReplyAddress:
    """The subscription that receives replies.

    Invariant: ``_waiting`` has each request that waits for a reply. The keys are correlation ids.
    """

    def __init__(self, session: Session, subscription: Subscription, topic: str) -> None:
        self.reply_to = MARK + topic
        self._session = session
        self._subscription = subscription
        self._waiting: dict[bytes, asyncio.Future[Message]] = {}
        self._reading: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the subscription has ended."""
        return self._reading is not None and self._reading.done()

    async def open(self) -> None:
        """Subscribes, unless the subscription is already open.

        Raises:
            RequestError: SUBSCRIPTIONS_EXHAUSTED or STORE_FULL.
        """
        await self._subscription.open()
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())

    def wait_for(self, correlation_id: bytes) -> "asyncio.Future[Message]":
        """Returns the future of the reply with this id. Call :meth:`forget` after the wait."""
        future = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        return future

    def forget(self, correlation_id: bytes) -> None:
        """Stops waiting for the reply with this id."""
        self._waiting.pop(correlation_id, None)

    async def close(self) -> None:
        """Ends the subscription."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self) -> None:
        error: RequestError = ConnectionEnded(ErrorCode.CANCELLED, "the client was closed")
        try:
            while (reply := await self._next()) is not None:
                future = self._waiting.pop(reply.correlation_id, None)
                if future is not None and not future.done():
                    future.set_result(reply)
        except RequestError as failed:
            error = failed
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)

    async def _next(self) -> Message | None:
        """Acknowledges and returns the next reply, or returns None if the client is closed."""
        while True:
            try:
                message = await anext(self._subscription, None)
            except MessageDamaged as damaged:
                self._acknowledge(damaged.message)
                continue
            if message is not None:
                self._acknowledge(message)
            return message

    def _acknowledge(self, message: Message) -> None:
        with suppress(RequestError):  # The reply is delivered again and dropped.
            self._session.settle(message, m.ACK)


class Replies(Topics):
    """The methods that send requests and replies."""

    def __init__(self, core: ClientCore) -> None:
        super().__init__(core)
        self._reply_address: _ReplyAddress | None = None

    async def request(
        self,
        queue: str,
        body: bytes,
        timeout_ms: Duration = TIMEOUT_MS,
        **options: Unpack[PutOptions],
    ) -> Message:
        """Sends a request and returns its reply. The client has already acknowledged the reply.

        Args:
            queue: The name of a local queue, or a topic with a leading ``/``.
            body: The content of the request.
            timeout_ms: The maximum time to wait for the reply, at least 1 ms. The request expires
                after the same time, unless *options* has another ``expiry_ms``.
            options: The options of :meth:`put`, except ``reply_to`` and ``correlation_id``.

        Raises:
            RequestTimeout: No reply arrived in time. A consumer may have processed the request.
            RequestError: The put was refused. SUBSCRIPTIONS_EXHAUSTED if the queue manager cannot
                create the subscription for replies. VALUE_INVALID if *queue* is behind a link or an
                argument is invalid.
        """
        wait_ms = in_ms("timeout_ms", timeout_ms)
        _check(wait_ms, options)
        if "@" in queue and not queue.startswith("/"):
            text = (
                f"{queue} is a queue of another queue manager, whose clients cannot reply to this "
                "client: use put with your own reply_to"
            )
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        options.setdefault("expiry_ms", wait_ms)
        address, correlation_id = self._replies_to(), secrets.token_bytes(ID_BYTES)
        outgoing = outgoing_of("request", body, options)._replace(
            reply_to=address.reply_to, correlation_id=correlation_id
        )
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await address.open()
                reply = address.wait_for(correlation_id)
                await (await self._submit(queue, outgoing))
                return await reply
        except TimeoutError:
            raise RequestTimeout(queue, wait_ms) from None
        finally:
            address.forget(correlation_id)

    async def reply(
        self, message: Message, body: bytes, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Sends the reply to a request and returns once the reply is on disk.

        The reply has the correlation id of *message*. You must acknowledge *message* yourself.

        Args:
            message: The request.
            body: The content of the reply.
            options: The options of :meth:`put`.

        Returns:
            The result of the put. ``subscriptions`` is 0 if the :meth:`request` call no longer
            waits.

        Raises:
            RequestError: VALUE_INVALID if *message* has no ``reply_to``. Also the errors of
                :meth:`put`.
        """
        check_is_message("reply", message)
        if not message.reply_to:
            text = f"message {message.uid} has no reply_to: the producer does not expect a reply"
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        options.setdefault("correlation_id", message.correlation_id)
        return await (await self._submit(message.reply_to, outgoing_of("reply", body, options)))

    def _replies_to(self) -> _ReplyAddress:
        found = self._reply_address
        if found is None or found.has_ended:
            topic = TOPICS + secrets.token_hex(ID_BYTES)
            found = _ReplyAddress(self._session, self.subscribe(topic, retained=False), topic)
            self._reply_address = found
        return found

    async def _close_replies(self) -> None:
        if self._reply_address is not None:
            await self._reply_address.close()


def _check(timeout_ms: int, options: PutOptions) -> None:
    if timeout_ms < 1:
        text = f"timeout_ms is {timeout_ms}: the minimum is 1"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if options.get("reply_to") or options.get("correlation_id"):
        text = "request sets reply_to and correlation_id itself: omit both"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
