"""A handle for asyncio that puts groups: it numbers, and says what would break a group.

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
    """Puts messages of one group behind the other on a queue, for ``async with``.

    The group is current from its first message to its last; then the next put begins another. A put
    that is refused uses up no number, and what a unit of work puts and backs out neither. One call
    at a time is under way, others wait for it. A put that is cancelled may still be stored, and
    its number counts as used.
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
        self._given_id = group_id  # for the first group
        self._next_id = b""  # of the group that begins
        self._state = GroupPutState()
        self._turn = asyncio.Lock()
        self._is_closed = False

    @property
    def current(self) -> Group | None:
        """The group that has not ended, and the number put last; None between groups."""
        return self._state.current

    @property
    def warning(self) -> ErrorCode | None:
        """What the last call did that breaks a group, and was done all the same."""
        return self._state.warning

    async def put(
        self,
        body: bytes,
        last: bool = False,
        in_group: bool = True,
        unit: UnitOfWork | None = None,
        **options: Unpack[PutOptions],
    ) -> PutResult:
        """Put the next message of the group, or the first of a new one.

        Args:
            last: whether the group ends with it.
            in_group: False puts a message of no group, which may be between groups only.
            unit: the unit of work to put it in.
            options: as of :meth:`QueueManager.put`, but for group.

        Raises:
            RequestError: INCOMPLETE_GROUP, INCONSISTENT_PERSISTENCE, INCONSISTENT_UNIT,
                GROUP_NUMBER_INVALID: nothing was put; or the queue manager refuses.
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
        """Put bodies or whole messages one behind the other; with *last* the group ends then.

        Raises:
            RequestError: the first refusal. Those before it are put, and in *unit* perhaps others:
                an error that leaves the unit's block backs them out.
        """
        outgoing = list(each_outgoing("put_many", items))
        for item in outgoing:
            _check_ungrouped(item)
        async with self._turn:
            self._check_open()
            if self._state.current is None and outgoing:
                self._next_id = self._given_id or await self._new_id()
                self._given_id = None
            if unit is None:
                ends = [last and index == len(outgoing) for index in range(1, len(outgoing) + 1)]
                pairs = zip(outgoing, ends, strict=True)
                return [await self._put_next(item, is_last) for item, is_last in pairs]
            return await self._put_in(unit, outgoing, last)

    async def put_physical(
        self, body: bytes, unit: UnitOfWork | None = None, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Put a message that says itself where it stands, by ``group=``, or is of no group.

        The handle is there then, wherever it was: so a group is resumed. ``warning`` says where
        that leaves a group (INCOMPLETE_GROUP), or goes on with it in another way than before
        (INCONSISTENT_PERSISTENCE, INCONSISTENT_UNIT).
        """
        outgoing = outgoing_of("put_physical", body, options)
        async with self._turn:
            self._check_open()
            place = None if outgoing.group is None else _checked(outgoing.group)
            self._state.physical(place, _core(unit), persistent=outgoing.persistent)
            return await self._put_one(outgoing, unit)

    async def close(self) -> None:
        """End the handle; ``warning`` is INCOMPLETE_GROUP where a group has not ended."""
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
        """Put all of them at once. Where one is refused the handle is before the first."""
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
            text = f"this handle of {self._queue} is closed: make another with group()"
            raise RequestError(ErrorCode.CANCELLED, text)


def _core(unit: UnitOfWork | None) -> Unit | None:
    return None if unit is None else unit.core_unit


def _check_ungrouped(outgoing: Outgoing) -> None:
    if outgoing.group is not None:
        text = "the handle says the group itself: use put_physical to say one of your own"
        raise RequestError(ErrorCode.VALUE_INVALID, text)


def _checked(group: tuple[GroupId, int, bool]) -> Group:
    try:
        return Group(*group)
    except TypeError:
        said = repr(group)[:SHOWN_MAX]
        text = f"the group {said} is not an id of 24 bytes or a text, a number, and whether last"
        raise RequestError(ErrorCode.VALUE_INVALID, text) from None
