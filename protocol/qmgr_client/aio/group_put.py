"""A handle that puts groups, for asyncio.

The handle numbers messages and keeps groups consistent.

async with queue_manager.group("ORDERS") as group:
    await group.put(b"head")
    await group.put(b"line")
    await group.put(b"foot", last=True)
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Unpack

from qmgr_client.aio.unit import UnitOfWork
from qmgr_client.groups.group_id import SHOWN_MAX, GroupId
from qmgr_client.groups.put import GroupPutState
from qmgr_client.outgoing import Group, Outgoing, PutOptions, PutResult, each_outgoing, outgoing_of
from qmgr_client.sansio.units import Unit
from qmgr_protocol.errors import ErrorCode, RequestError

Submit = Callable[[str, Outgoing], Awaitable[Awaitable[PutResult]]]


class GroupPut:
    """A handle that puts one group after another on a queue, for ``async with``.

    A group is current from its first message to its last. The next put then starts a new group. A
    put that is refused, or backed out with its unit of work, does not use up a number. If you
    cancel a put, the message may still be stored, and its number counts as used. Concurrent calls
    wait for each other.
    """

    def __init__(
        self,
        queue: str,
        submit: Submit,
        new_id: Callable[[], Awaitable[bytes]],
        group_id: bytes | None,
    ) -> None:
        self._queue = queue
        self._submit = submit
        self._new_id = new_id
        self._first_id = group_id
        self._next_id = b""  # id of the next group
        self._state = GroupPutState()
        self._turn = asyncio.Lock()
        self._is_closed = False

    @property
    def current(self) -> Group | None:
        """The current group, with the number of the last message put. None between groups."""
        return self._state.current

    @property
    def warning(self) -> ErrorCode | None:
        """The inconsistency in a group that the last call caused, or None."""
        return self._state.warning

    async def put(
        self,
        body: bytes,
        last: bool = False,
        in_group: bool = True,
        unit: UnitOfWork | None = None,
        **options: Unpack[PutOptions],
    ) -> PutResult:
        """Puts the next message of the current group, or the first message of a new group.

        Args:
            body: The content of the message.
            last: Whether the group ends with this message.
            in_group: False puts a message without a group, which is allowed only between groups.
            unit: The unit of work to put the message in.
            options: The options of :meth:`QueueManager.put`, except ``group``.

        Raises:
            RequestError: The queue manager refused the put. The errors INCOMPLETE_GROUP,
                INCONSISTENT_PERSISTENCE, INCONSISTENT_UNIT and GROUP_NUMBER_INVALID are raised
                before the message is sent.
        """
        outgoing = outgoing_of("put", body, options)
        if in_group or last:
            (result,) = await self.put_many([outgoing], last, unit)
            return result
        _check_ungrouped(outgoing)
        async with self._turn:
            self._check_open()
            self._state.alone()
            return await self._put_one(outgoing, unit)

    async def put_many(
        self, items: Iterable[bytes | Outgoing], last: bool = False, unit: UnitOfWork | None = None
    ) -> list[PutResult]:
        """Puts several messages of the current group, in order.

        Args:
            items: Bodies, or :class:`Outgoing` messages with options.
            last: Whether the group ends with the last of these messages.
            unit: The unit of work to put the messages in.

        Raises:
            RequestError: The first refusal. The messages before the refused one are put. In a
                *unit*, later messages may also be put. To back them out, let the error leave the
                block of the unit.
        """
        outgoing = list(each_outgoing("put_many", items))
        for item in outgoing:
            _check_ungrouped(item)
        async with self._turn:
            self._check_open()
            if self._state.current is None and outgoing:
                self._next_id = self._first_id or await self._new_id()
                self._first_id = None
            if unit is None:
                ends = [last and index == len(outgoing) for index in range(1, len(outgoing) + 1)]
                pairs = zip(outgoing, ends, strict=True)
                return [await self._put_next(item, is_last) for item, is_last in pairs]
            return await self._put_in(unit, outgoing, last)

    async def put_physical(
        self, body: bytes, unit: UnitOfWork | None = None, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Puts a message with its own ``group``, or without a group.

        The handle continues after this message. Use this method to resume a group. If the message
        makes the handle leave the current group incomplete, ``warning`` is INCOMPLETE_GROUP. If the
        message differs from the earlier messages in its persistence or unit of work, ``warning`` is
        INCONSISTENT_PERSISTENCE or INCONSISTENT_UNIT.

        Args:
            body: The content of the message.
            unit: The unit of work to put the message in.
            options: The options of :meth:`QueueManager.put`.
        """
        outgoing = outgoing_of("put_physical", body, options)
        async with self._turn:
            self._check_open()
            place = None if outgoing.group is None else _checked(outgoing.group)
            self._state.physical(place, _core(unit), persistent=outgoing.persistent)
            return await self._put_one(outgoing, unit)

    async def close(self) -> None:
        """Closes the handle. If a group has not ended, ``warning`` is INCOMPLETE_GROUP."""
        if not self._is_closed:
            self._is_closed = True
            self._state.close()

    async def __aenter__(self) -> "GroupPut":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _put_next(self, outgoing: Outgoing, last: bool) -> PutResult:
        group = self._next(outgoing, None, last)
        return await self._put_one(outgoing._replace(group=group), None)

    async def _put_in(
        self, unit: UnitOfWork, outgoing: Sequence[Outgoing], last: bool
    ) -> list[PutResult]:
        """Puts all items together. If an item is refused, the handle does not move."""
        numbered: list[Outgoing] = []
        try:
            for index, item in enumerate(outgoing, 1):
                group = self._next(item, unit, last and index == len(outgoing), index > 1)
                numbered.append(item._replace(group=group))
            return await unit.put_many(self._queue, numbered)
        except RequestError:
            self._state.refused()
            raise

    def _next(
        self, outgoing: Outgoing, unit: UnitOfWork | None, last: bool, is_further: bool = False
    ) -> Group:
        return self._state.logical(
            self._next_id,
            _core(unit),
            last=last,
            persistent=outgoing.persistent,
            is_further=is_further,
        )

    async def _put_one(self, outgoing: Outgoing, unit: UnitOfWork | None) -> PutResult:
        try:
            if unit is not None:
                (result,) = await unit.put_many(self._queue, [outgoing])
                return result
            return await (await self._submit(self._queue, outgoing))
        except RequestError:
            self._state.refused()
            raise

    def _check_open(self) -> None:
        if self._is_closed:
            text = f"this handle of {self._queue} is closed: create a new one with group()"
            raise RequestError(ErrorCode.CANCELLED, text)


def _core(unit: UnitOfWork | None) -> Unit | None:
    return None if unit is None else unit.core_unit


def _check_ungrouped(outgoing: Outgoing) -> None:
    if outgoing.group is not None:
        text = "the handle sets the group: use put_physical to set it yourself"
        raise RequestError(ErrorCode.VALUE_INVALID, text)


def _checked(group: tuple[GroupId, int, bool]) -> Group:
    try:
        return Group(*group)
    except TypeError:
        shown = repr(group)[:SHOWN_MAX]
        text = f"the group {shown} is not (id, number, last): a group id, an int and a bool"
        raise RequestError(ErrorCode.VALUE_INVALID, text) from None
