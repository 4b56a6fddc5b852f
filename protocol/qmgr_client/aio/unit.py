"""A unit of work, for asyncio: puts and acknowledgements that take effect together.

    async with queue_manager.unit_of_work() as unit:
        order = await unit.get("ORDERS", wait_ms=1_000)
        await unit.put("INVOICES", invoice_of(order))

The end of the block commits the unit. An exception that leaves the block backs it out.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Unpack

from qmgr_client import destination
from qmgr_client.aio.get import get_many, give_back, has_result
from qmgr_client.aio.session import Session
from qmgr_client.duration import Duration
from qmgr_client.failure_reason import failure_reason
from qmgr_client.message import Message, check_is_message, checked_messages
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, each_outgoing, encode, outgoing_of
from qmgr_client.sansio.outgoing_body import record_limit
from qmgr_client.sansio.puts import FRAME_BYTES
from qmgr_client.sansio.units import Unit
from qmgr_client.selection import SelectionOrUid, chosen
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, own_bytes, too_large_text

BATCH_MESSAGES_MAX = 1_000  # maximum number of messages that put_many sends at a time
BATCH_BYTES_MAX = 256 * 1024


class UnitOfWork:
    """A unit of work for ``async with``: puts and acknowledgements that are committed together.

    A unit belongs to one connection. If the connection is lost before the commit is sent, the unit
    is backed out, and each further step raises UNIT_BACKED_OUT. Once the commit is sent, the unit
    has exactly one result, even if the connection is lost. Steps may run concurrently. If you
    cancel a step, back out the unit, because the step may already be part of it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._begun: Unit | None = None

    async def __aenter__(self) -> "UnitOfWork":
        if self._begun is not None:
            raise RuntimeError("this unit of work was used before: create a new one")
        core = self._session.core
        ticket = core.begin_unit()
        future = self._session.result(ticket)
        try:
            self._begun = await future
        except asyncio.CancelledError:
            self._session.abandon(ticket)
            if has_result(future):
                core.back_out(future.result())
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            await self._undone(error)
        elif not self.has_ended:
            try:
                await self.commit()
            except BaseException as failed:
                await self._undone(failed)
                raise

    @property
    def has_ended(self) -> bool:
        """Whether the caller committed or backed out the unit. False if the unit was lost."""
        unit = self._unit
        return unit.error is not None and unit.error.code == ErrorCode.UNIT_UNKNOWN

    @property
    def is_lost(self) -> bool:
        """Whether the connection was lost before the end of the unit."""
        return self._begun is not None and self._begun.is_lost

    @property
    def _unit(self) -> Unit:
        if self._begun is None:
            text = "the unit of work has not begun: use it in a with or async with block"
            raise RequestError(ErrorCode.UNIT_UNKNOWN, text)
        return self._begun

    @property
    def core_unit(self) -> Unit:
        """The state of the unit in the client core."""
        return self._unit

    # Steps

    async def put(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Puts a message in the unit. Consumers can receive the message after the commit.

        Args:
            queue: The name of a queue or topic, as in :meth:`QueueManager.put`.
            body: The content of the message.
            options: The options of :meth:`QueueManager.put`.

        Raises:
            RequestError: UNIT_BACKED_OUT or UNIT_UNKNOWN if the unit has ended. After any other
                refusal, the message is not part of the unit, and the unit continues.
        """
        (result,) = await self.put_many(queue, [outgoing_of("put", body, options)])
        return result

    async def put_many(self, queue: str, items: Iterable[bytes | Outgoing]) -> list[PutResult]:
        """Puts several messages in the unit and returns their results in order.

        Args:
            queue: The name of a queue or topic, as in :meth:`QueueManager.put`.
            items: Bodies, or :class:`Outgoing` messages with options.

        Raises:
            RequestError: The first refusal. Other items may be part of the unit. An error that
                leaves the block backs them out. If you catch the error and continue, they are
                committed. UNIT_BACKED_OUT or UNIT_UNKNOWN if the unit has ended.
        """
        self._unit.check()
        destination.check(queue)
        results: list[PutResult] = []
        batch: list[tuple[bytes, Uid | None]] = []
        size = 0
        for outgoing in each_outgoing("put_many", items):
            outgoing = outgoing.resolved(datetime.now(UTC))
            record = self._record(outgoing)
            if batch and (
                len(batch) == BATCH_MESSAGES_MAX or size + len(record) > self._batch_bytes_max
            ):
                results += await self._put(queue, batch)
                batch, size = [], 0
            batch.append((record, outgoing.uid))
            size += len(record) + FRAME_BYTES
        if batch:
            results += await self._put(queue, batch)
        return results

    @property
    def _batch_bytes_max(self) -> int:
        return min(BATCH_BYTES_MAX, self._session.core.welcome.frame_max_bytes - FRAME_BYTES)

    def _record(self, outgoing: Outgoing) -> bytes:
        record = encode(outgoing)
        welcome = self._session.core.welcome
        limit = record_limit(welcome, FRAME_BYTES)
        size = own_bytes(record)
        if size > limit:
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, too_large_text(size, limit))
        return record

    async def _put(self, queue: str, batch: list[tuple[bytes, Uid | None]]) -> list[PutResult]:
        ticket = self._session.core.unit_put(self._unit, queue, batch)
        found: list[PutResult | RequestError] = await self._result(ticket)
        results: list[PutResult] = []
        for result in found:
            if isinstance(result, RequestError):
                raise result
            results.append(result)
        return results

    async def get(
        self, queue: str, wait_ms: Duration = 0, **selection: Unpack[SelectionOrUid]
    ) -> Message | None:
        """Gets the next message. The commit deletes it.

        Args:
            queue: The name of a queue or durable subscription.
            wait_ms: The maximum time to wait for a message, at most 7 days. 0 does not wait.
            selection: At most one of ``where``, ``correlation_id``, ``group_id`` and ``uid``.

        Returns:
            The message, or None if no message arrives within *wait_ms*.

        Raises:
            MessageDamaged: The record of the message cannot be read. The message is leased, but not
                part of the unit.
            RequestError: UNIT_TOO_LARGE or LEASE_LOST if the message cannot become part of the
                unit. Also, for example, QUEUE_UNKNOWN.
        """
        found = await self.get_many(queue, 1, wait_ms, **selection)
        return found[0] if found else None

    async def get_many(
        self,
        queue: str,
        messages_max: int,
        wait_ms: Duration = 0,
        **selection: Unpack[SelectionOrUid],
    ) -> list[Message]:
        """Gets up to *messages_max* messages as soon as one is available. The commit deletes them.

        Args:
            queue: The name of a queue or durable subscription.
            messages_max: The maximum number of messages to return, at most 256.
            wait_ms: The maximum time to wait for a message, at most 7 days. 0 does not wait.
            selection: At most one of ``where``, ``correlation_id``, ``group_id`` and ``uid``.

        Returns:
            The messages, or an empty list if no message arrives within *wait_ms*.

        Raises:
            MessageDamaged: The record of one message cannot be read. That message is leased, and no
                message is part of the unit.
            RequestError: UNIT_TOO_LARGE or LEASE_LOST if no message can become part of the unit.
                Also, for example, QUEUE_UNKNOWN.
        """
        session, unit = self._session, self._unit
        wanted = chosen(**selection)
        found = await get_many(session, queue, messages_max, wait_ms, 0, wanted, unit)
        refused: list[RequestError] = []
        outside: list[Message] = []
        joined: list[Message] = []
        try:
            acks = [session.settle(message, m.ACK, unit=unit) for message in found]
        except RequestError:
            give_back(session, found)
            raise
        for message, ack in zip(found, acks, strict=True):
            try:
                await ack
                joined.append(message)
            except RequestError as error:
                refused.append(error)
                outside.append(message)
        give_back(session, outside)
        if refused and not joined:
            raise refused[0]
        return joined

    async def ack(self, message: Message) -> None:
        """Acknowledges a leased message in the unit. The commit deletes it.

        Use this method for messages that were not received in the unit, for example messages of a
        consumer.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message. The message
                is not part of the unit.
        """
        check_is_message("ack", message)
        await self._session.settle(message, m.ACK, unit=self._unit)

    async def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Acknowledges several leased messages in the unit. The commit deletes them.

        Returns:
            For each message, None or the RequestError with the reason why the message is not part
            of the unit.
        """
        wanted = checked_messages("ack_many", messages)
        acks = [self._session.settle(message, m.ACK, unit=self._unit) for message in wanted]
        found = await asyncio.gather(*acks, return_exceptions=True)
        return [error if isinstance(error, RequestError) else None for error in found]

    # End

    async def commit(self) -> None:
        """Commits the unit and returns once it is on disk.

        Raises:
            RequestError: UNIT_BACKED_OUT if none of its steps took effect. After STORE_FULL, you
                may commit again.
            UnknownOutcome: The connection was lost, and the queue manager no longer knows the
                result.
        """
        await self._session.commit(self._unit)

    async def backout(self, reason: str = "", text: str = "") -> None:
        """Backs out the unit: its messages return to their queues, and its puts are dropped.

        Does nothing if the unit was lost with its connection.

        Args:
            reason: The reason, a word of at most 64 characters. The notes of the returned messages
                show this word to operators.
            text: A description of at most 1,000 characters.
        """
        unit = self._unit
        if unit.error is not None and unit.error.code == ErrorCode.UNIT_BACKED_OUT:
            return
        await self._result(self._session.core.back_out(unit, reason, text))

    async def _undone(self, error: BaseException) -> None:
        """Backs out the unit because of *error*.

        If the backout is refused, *error* is still raised.
        """
        with suppress(RequestError):
            await self.backout(*failure_reason(error))

    async def _result(self, ticket: int) -> Any:
        try:
            return await self._session.result(ticket)
        except asyncio.CancelledError:
            self._session.abandon(ticket)
            raise
