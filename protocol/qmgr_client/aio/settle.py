"""Settling leased messages, for asyncio."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from qmgr_client.aio.channel import Channel
from qmgr_client.aio.processing import Processing
from qmgr_client.duration import Duration, in_ms
from qmgr_client.message import Message, check_is_message, checked_messages
from qmgr_client.outgoing import delay_until
from qmgr_client.sansio.settles import PLAIN, SettleTerms
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import DELAY_MAX_MS


class Settling(Channel):
    """The methods that acknowledge, release and reject messages and renew their leases."""

    async def ack_soon(self, message: Message) -> "asyncio.Future[None]":
        """Acknowledges a message. Returns a future that is done when the ack is on disk.

        The call does not wait, so many acknowledgements can be in flight.

        Returns:
            A future with None or with the RequestError of a refusal.
        """
        return self._settle("ack_soon", message, m.ACK)

    async def ack(self, message: Message) -> None:
        """Acknowledges and deletes a message. Returns once the deletion is on disk.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
        """
        await self._settle("ack", message, m.ACK)

    async def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Acknowledges and deletes several messages.

        Returns:
            For each message, None or the RequestError with the reason why the message was not
            deleted.
        """
        found = checked_messages("ack_many", messages)
        futures = [self._session.settle(message, m.ACK) for message in found]
        return [await _refusal(future) for future in futures]

    async def release(
        self,
        message: Message,
        delay_ms: Duration | None = None,
        *,
        failed: bool = True,
        retry_at: datetime | None = None,
        reason: str = "",
        text: str = "",
    ) -> None:
        """Releases a message and returns it to its original position in the queue.

        Args:
            message: A leased message.
            delay_ms: The time before the next delivery, at most ten years. 0 makes the message
                available immediately. None uses the retry delay of the queue.
            failed: Whether the release counts as a failure. When the failures reach the limit of
                the queue, the message becomes a dead letter.
            retry_at: The time of the next delivery, with a time zone, instead of *delay_ms*.
            reason: The reason for the failure, a word of at most 64 characters. The note of the
                message shows this word to operators.
            text: A description of the failure, at most 1,000 characters.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
            RequestError: VALUE_INVALID if *delay_ms* and *retry_at* are both set, or if one of them
                is out of range.
        """
        if retry_at is not None:
            if delay_ms is not None:
                text = "delay_ms and retry_at are both set: set only one of them"
                raise RequestError(ErrorCode.VALUE_INVALID, text)
            delay_ms = min(delay_until(retry_at, datetime.now(UTC), "retry_at"), DELAY_MAX_MS)
        delay_ms = m.DELAY_OF_QUEUE if delay_ms is None else in_ms("delay_ms", delay_ms)
        action = m.RELEASE if failed else m.RETURN
        await self._settle("release", message, action, SettleTerms(delay_ms, 0, reason, text))

    async def reject(self, message: Message, reason: str = "", text: str = "") -> None:
        """Rejects a message that would fail again. The message becomes a dead letter immediately.

        Args:
            message: A leased message.
            reason: The reason, a word of at most 64 characters.
            text: A description, at most 1,000 characters.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
        """
        terms = SettleTerms(reason=reason, text=text)
        await self._settle("reject", message, m.REJECT, terms)

    async def renew(self, message: Message, lease_ms: Duration = 0) -> None:
        """Renews the lease of a message. The lease then ends *lease_ms* from now.

        Args:
            message: A leased message.
            lease_ms: The length of the lease, at most one day. 0 uses the previous length.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
        """
        check_is_message("renew", message)
        await self._session.renew(message, in_ms("lease_ms", lease_ms))

    def processing(self, message: Message) -> Processing:
        """Returns a context manager that settles *message*, for ``async with``.

        The end of the block acknowledges the message. An Exception releases the message as failed,
        with the exception's type and text as the reason, and is raised to the caller. A
        cancellation, KeyboardInterrupt or SystemExit returns the message immediately without
        counting a failure. If the block itself settles the message or acknowledges it in a unit of
        work, the end of the block does nothing.

        Raises:
            LeaseLost: The lease ended before the end of the block. Another consumer may have the
                message and process it again.
        """
        check_is_message("processing", message)
        return Processing(self._session, message)

    def _settle(
        self, verb: str, message: Message, action: int, terms: SettleTerms = PLAIN
    ) -> "asyncio.Future[None]":
        check_is_message(verb, message)
        return self._session.settle(message, action, terms)


async def _refusal(future: "asyncio.Future[None]") -> RequestError | None:
    try:
        await future
    except RequestError as error:
        return error
    return None
