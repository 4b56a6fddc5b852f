"""How a message that was got ends: acknowledged, released, rejected; or it is kept for longer."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from qmgr_client.aio.channel import Channel
from qmgr_client.aio.processing import Processing
from qmgr_client.duration import Duration, in_ms
from qmgr_client.message import Message, check_is_message, checked_messages
from qmgr_client.outgoing import delay_until
from qmgr_client.sansio.settles import PLAIN, Terms
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError


class Settling(Channel):
    """Settles leased messages: acknowledges, releases, rejects them, or renews their leases."""

    async def ack_soon(self, message: Message) -> "asyncio.Future[None]":
        """Have a message removed for good; return a future that is done when that is on disk.

        Waits for nothing: what is leased bounds it.
        """
        return self._settle("ack_soon", message, m.ACK)

    async def ack(self, message: Message) -> None:
        """Remove a message for good.

        Raises:
            RequestError: LEASE_LOST, another may have it by now.
        """
        await self._settle("ack", message, m.ACK)

    async def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Remove messages for good; return why not for each that was not."""
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
        delay_ms = m.DELAY_OF_QUEUE if delay_ms is None else in_ms("delay_ms", delay_ms)
        action = m.RELEASE if failed else m.RETURN
        await self._settle("release", message, action, Terms(delay_ms, 0, reason, text))

    async def reject(self, message: Message, reason: str = "", text: str = "") -> None:
        """Have a message be a dead letter at once: it would fail again. Otherwise as a release."""
        terms = Terms(reason=reason, text=text)
        await self._settle("reject", message, m.REJECT, terms)

    async def renew(self, message: Message, lease_ms: Duration = 0) -> None:
        """Keep a message for *lease_ms* from now on, at most a day; 0: as long as it was.

        Raises:
            RequestError: LEASE_LOST, another may have it by now.
        """
        check_is_message("renew", message)
        await self._session.renew(message, in_ms("lease_ms", lease_ms))

    def processing(self, message: Message) -> Processing:
        """Return the work on *message*, for ``async with``, whose end settles it.

        Its end acknowledges the message. An Exception releases it as failed, with its type as the
        reason and its text, and goes on to the caller. Being cancelled, KeyboardInterrupt and
        SystemExit return it at once, which counts as no failure. What the block settles itself, by
        ack, release, reject or in a unit of work, stays as it is.

        Raises:
            RequestError: LEASE_LOST, at the end of the block: another may have the message by now,
                so what was done may be done twice.
        """
        check_is_message("processing", message)
        return Processing(self._session, message)

    def _settle(
        self, verb: str, message: Message, action: int, terms: Terms = PLAIN
    ) -> "asyncio.Future[None]":
        check_is_message(verb, message)
        return self._session.settle(message, action, terms)


async def _refusal(future: "asyncio.Future[None]") -> RequestError | None:
    try:
        await future
    except RequestError as error:
        return error
    return None
