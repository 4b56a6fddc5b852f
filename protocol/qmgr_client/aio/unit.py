"""A unit of work for asyncio: what is put and acknowledged in it is done together, or not at all.

    async with queue_manager.unit_of_work() as unit:
        order = await unit.get("ORDERS", wait_ms=1_000)
        await unit.put("INVOICES", invoice_of(order))

Leaving the block commits, an exception that leaves it backs out.
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
from qmgr_client.sansio.puts import FRAME_BYTES
from qmgr_client.sansio.units import Unit
from qmgr_client.selection import SelectionOrUid, chosen
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, own_bytes, too_large_text

BATCH_MESSAGES_MAX = 1_000  # of what put_many sends at a time
BATCH_BYTES_MAX = 256 * 1024


class UnitOfWork:
    """Puts and acknowledgements that are committed together, for ``async with``.

    It belongs to one connection. If that is lost before its commit was sent, it is backed out, and
    every further step raises UNIT_BACKED_OUT. A commit that was sent has its one answer, however
    often the connection is lost. Steps may be under way at the same time; one that is cancelled may
    be part of the unit, or not: back out then.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._begun: Unit | None = None

    async def __aenter__(self) -> "UnitOfWork":
        if self._begun is not None:
            raise RuntimeError("this unit of work was begun before: make another one")
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
        """Whether the caller has ended it, or it was committed; not whether it was lost."""
        unit = self._unit
        return unit.error is not None and unit.error.code == ErrorCode.UNIT_UNKNOWN

    @property
    def is_lost(self) -> bool:
        """Whether its connection was lost before its end."""
        return self._begun is not None and self._begun.is_lost

    @property
    def _unit(self) -> Unit:
        if self._begun is None:
            text = "the unit of work has not begun: use it in a with or async with block"
            raise RequestError(ErrorCode.UNIT_UNKNOWN, text)
        return self._begun

    @property
    def core_unit(self) -> Unit:
        """What the core knows it by."""
        return self._unit

    # Steps

    async def put(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Put a message in the unit: nobody sees it before the commit.

        Raises:
            RequestError: it is refused, and not in the unit; the unit goes on. UNIT_BACKED_OUT,
                UNIT_UNKNOWN: the unit is over.
        """
        (result,) = await self.put_many(queue, [outgoing_of("put", body, options)])
        return result

    async def put_many(self, queue: str, items: Iterable[bytes | Outgoing]) -> list[PutResult]:
        """Put bodies or whole messages; return what became of each, in their order.

        Raises:
            RequestError: the first refusal. Others of *items* may be in the unit by then: an error
                that leaves the block backs them out; who goes on commits them. UNIT_BACKED_OUT,
                UNIT_UNKNOWN: the unit is over.
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
        limit = min(welcome.message_max_bytes, welcome.frame_max_bytes - FRAME_BYTES)
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
        """Return the next message, which the commit removes; None where none comes in *wait_ms*."""
        found = await self.get_many(queue, 1, wait_ms, **selection)
        return found[0] if found else None

    async def get_many(
        self,
        queue: str,
        messages_max: int,
        wait_ms: Duration = 0,
        **selection: Unpack[SelectionOrUid],
    ) -> list[Message]:
        """Return up to *messages_max* messages, which the commit removes, as soon as there is one.

        Raises:
            MessageDamaged: one cannot be read, and is leased; none is in the unit.
            RequestError: UNIT_TOO_LARGE, or LEASE_LOST: none is in the unit.
        """
        session, unit = self._session, self._unit
        wanted = chosen(**selection)
        found = await get_many(session, queue, messages_max, wait_ms, 0, wanted, unit)
        refused: list[RequestError] = []
        left: list[Message] = []
        taken: list[Message] = []
        try:
            acks = [session.settle(message, m.ACK, unit=unit) for message in found]
        except RequestError:
            give_back(session, found)
            raise
        for message, ack in zip(found, acks, strict=True):
            try:
                await ack
                taken.append(message)
            except RequestError as error:
                refused.append(error)
                left.append(message)
        give_back(session, left)
        if refused and not taken:
            raise refused[0]
        return taken

    async def ack(self, message: Message) -> None:
        """Have the commit remove a message that is under lease, from a consumer say.

        Raises:
            RequestError: LEASE_LOST, another may have it by now: it is not in the unit.
        """
        check_is_message("ack", message)
        await self._session.settle(message, m.ACK, unit=self._unit)

    async def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Do so with many; return why not for each that is not in the unit."""
        wanted = checked_messages("ack_many", messages)
        acks = [self._session.settle(message, m.ACK, unit=self._unit) for message in wanted]
        found = await asyncio.gather(*acks, return_exceptions=True)
        return [error if isinstance(error, RequestError) else None for error in found]

    # Its end

    async def commit(self) -> None:
        """Have all of it done; return when it is on disk.

        Raises:
            RequestError: UNIT_BACKED_OUT, nothing of it is done; STORE_FULL, it can be tried again.
            UnknownOutcome: the queue manager cannot tell any more.
        """
        await self._session.commit(self._unit)

    async def backout(self, reason: str = "", text: str = "") -> None:
        """Have nothing of it done: what was got comes back. Done already where it was lost.

        Args:
            reason, text: why, in a word of at most 64 characters, and for people in at most 1,000;
                kept in the notes of what was got.
        """
        unit = self._unit
        if unit.error is not None and unit.error.code == ErrorCode.UNIT_BACKED_OUT:
            return
        await self._result(self._session.core.back_out(unit, reason, text))

    async def _undone(self, error: BaseException) -> None:
        """Back out, if there is anything to, because of *error*, which matters more than ours."""
        with suppress(RequestError):
            await self.backout(*failure_reason(error))

    async def _result(self, ticket: int) -> Any:
        try:
            return await self._session.result(ticket)
        except asyncio.CancelledError:
            self._session.abandon(ticket)
            raise
