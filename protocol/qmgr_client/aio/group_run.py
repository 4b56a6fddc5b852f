"""Putting or processing one group in several units of work, for asyncio.

    unit 1   put status (id, 100)              put 1..100
    unit 2   get status, put status (id, 200)  put 101..200
    unit 3   get status                        put 201..250    (the last unit deletes the status)

The status records the number of the last committed message, and a later call continues after this
message. The call makes one put or get in physical order, which sets the group id and number. All
further puts or gets are in logical order. Each unit replaces the status first. If another call has
replaced the status, the unit therefore fails before it does any other work.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

from qmgr_client.aio.group_put import GroupPut
from qmgr_client.aio.group_status import WAIT_MS, RunStatus
from qmgr_client.aio.reader import GroupReader
from qmgr_client.aio.unit import UnitOfWork
from qmgr_client.duration import Duration, in_ms
from qmgr_client.groups.status import GroupRun, GroupStatus
from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing
from qmgr_client.selection import SelectionOrUid
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import shown

BATCH_MESSAGES = 100
TRIES_MAX = 5  # maximum number of attempts for one unit, for example after lost connections

Handler: TypeAlias = Callable[[Message, UnitOfWork], Awaitable[object]]
Item: TypeAlias = bytes | Outgoing


class GroupPutDone(NamedTuple):
    """The result of ``put_group``."""

    group_id: bytes
    put: int  # number of messages that this call put
    skipped: int  # number of messages that earlier calls put


class GroupGot(NamedTuple):
    """The result of ``get_group``."""

    group_id: bytes  # id of the group, 24 bytes; all bytes are zero for a message without a group
    got: int  # number of messages that this call processed
    skipped: int  # number of messages that earlier calls processed
    has_ended: bool  # whether the group has ended; False if the next message did not arrive in time


class RunManager(Protocol):
    """The methods of a queue manager that a run uses."""

    async def new_group_id(self) -> bytes: ...
    async def _ask(self, kind: type[m.RequestWithId], *fields: Any) -> Any: ...
    def unit_of_work(self) -> UnitOfWork: ...
    def group(self, queue: str, *, group_id: bytes | None = None) -> GroupPut: ...
    def reader(self, queue: str, *, all_available: bool = False) -> GroupReader: ...
    def browse(
        self, queue: str, limit: int | None = None, *, correlation_id: bytes
    ) -> AsyncGenerator[Message, None]: ...


async def put_group(
    manager: RunManager,
    queue: str,
    items: Iterable[Item] | AsyncIterable[Item],
    status_queue: str,
    name: str,
    batch: int,
    resume_from: int | None,
    group_id: bytes | None,
) -> GroupPutDone:
    """Puts one group. See QueueManager.put_group."""
    _check_batch(batch)
    status = RunStatus(manager, status_queue, GroupRun("put_group", queue, name))
    found = await status.find()
    skip = _skipped(status.run, found, 1 if resume_from is None else resume_from)
    if found is not None:
        group_id = found.group_id
    elif group_id is None:
        group_id = await manager.new_group_id()
    putting = _Putting(manager, queue, group_id, status)
    before = count = 0 if found is None else found.number
    async for some, last in _batches(items, skip, batch):
        await putting.put(some, last)
        count += len(some)
    if count == before:
        text = "there are no messages to put: a group must have at least one"
        if before:
            text = f"{status.run}: {before} messages were put earlier: pass the rest of the group"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return GroupPutDone(group_id, count - before, before)


def _skipped(run: GroupRun, found: GroupStatus | None, resume_from: int) -> int:
    """Returns the number of items to skip because they were put earlier."""
    missing = 1 if found is None else found.number + 1
    if resume_from < 1:
        text = f"resume_from is {resume_from}: the first number of a group is 1"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if found is None and resume_from > 1:
        text = f"{run}: there is no group to resume: it is complete, or was never started"
        raise RequestError(ErrorCode.GROUP_UNKNOWN, text)
    if resume_from > missing:
        text = f"{run}: number {missing} is missing, but the items start at {resume_from}"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return missing - resume_from


async def _batches(
    items: Iterable[Item] | AsyncIterable[Item], skip: int, batch: int
) -> AsyncGenerator[tuple[list[Item], bool], None]:
    """Yields lists of the items after the first *skip*, each with a flag for the last list."""
    some: list[Item] = []
    async for item in _each(items):
        if skip:
            skip -= 1
            continue
        if len(some) == batch:  # Another item follows, so this list is not the last.
            yield some, False
            some = []
        some.append(item)
    if some:
        yield some, True


async def _each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncGenerator[Item, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


class _Putting:
    """A group that is being put, one unit of work at a time.

    ``_status.now`` is the committed progress.
    """

    def __init__(self, manager: RunManager, queue: str, group_id: bytes, status: RunStatus) -> None:
        self._manager = manager
        self._queue = queue
        self._group_id = group_id
        self._status = status
        self._handle = manager.group(queue, group_id=group_id)

    async def put(self, items: list[Item], last: bool) -> None:
        """Puts *items* in a unit. Repeats the unit if it is backed out."""
        before = 0 if self._status.now is None else self._status.now.number
        now = GroupStatus(self._group_id, before + len(items))
        for left in reversed(range(TRIES_MAX)):
            try:
                async with self._manager.unit_of_work() as unit:
                    await self._status.replace(unit, None if last else now)
                    await self._put_in(unit, items, last)
            except RequestError as error:
                if error.code != ErrorCode.UNIT_BACKED_OUT or not left:
                    raise
            else:
                self._status.committed()
                return

    async def _put_in(self, unit: UnitOfWork, items: list[Item], last: bool) -> None:
        now, handle = self._status.now, self._handle
        if handle.current is None and now is None:
            handle = self._handle = self._manager.group(self._queue, group_id=self._group_id)
        elif handle.current is None and now is not None:  # Resume with one put in physical order.
            first = items[0] if isinstance(items[0], Outgoing) else Outgoing(items[0])
            place = now.group_id, now.number + 1, last and len(items) == 1
            await handle.put_physical(unit=unit, **_options(first._replace(group=place)))
            items = items[1:]
        await handle.put_many(items, last, unit)


def _options(outgoing: Outgoing) -> Any:
    return outgoing._asdict()


async def get_group(
    manager: RunManager,
    queue: str,
    handler: Handler,
    status_queue: str,
    name: str,
    batch: int,
    wait_ms: Duration,
    all_available: bool,
    selection: SelectionOrUid,
) -> GroupGot | None:
    """Processes one group. See QueueManager.get_group."""
    _check_batch(batch)
    status = RunStatus(manager, status_queue, GroupRun("get_group", queue, name))
    found = await status.find()
    async with manager.reader(queue, all_available=all_available) as reader:
        reading = _Reading(manager, reader, handler, status, batch, selection)
        while not (reading.has_ended or reading.is_late):
            await reading.read(in_ms("wait_ms", wait_ms))
    at, got = reading.at, reading.got
    if at is None:
        return None
    if found is not None and not got:
        await _check_goes_on(manager, queue, found, status)
    return GroupGot(at.group_id, got, 0 if found is None else found.number, reading.has_ended)


class _Reading:
    """A group that is being processed, one unit of work at a time.

    Invariant: between units, ``at`` is the last committed message, and ``got`` is the number of
    committed messages.
    """

    def __init__(
        self,
        manager: RunManager,
        reader: GroupReader,
        handler: Handler,
        status: RunStatus,
        batch: int,
        selection: SelectionOrUid,
    ) -> None:
        self.at = status.now
        self.got = 0
        self.has_ended = False
        self.is_late = False  # whether the next message did not arrive in time
        self._manager = manager
        self._reader = reader
        self._handler = handler
        self._status = status
        self._batch = batch
        self._selection = selection

    async def read(self, wait_ms: int) -> None:
        """Processes a batch in a unit. Repeats the unit if it was lost with its connection."""
        for left in reversed(range(TRIES_MAX)):
            before, unit = self.at, self._manager.unit_of_work()
            try:
                async with unit:
                    count = await self._read_in(unit, wait_ms)
            except RequestError as error:
                if error.code != ErrorCode.UNIT_BACKED_OUT or not unit.is_lost or not left:
                    raise
                self.at, self.has_ended, self.is_late = before, False, False
                wait_ms = max(wait_ms, WAIT_MS)  # A dead connection may still hold the message.
            else:
                if count:
                    self._status.committed()
                self.got += count
                return

    async def _read_in(self, unit: UnitOfWork, wait_ms: int) -> int:
        """Processes a batch or the rest of the group. Returns the number of messages."""
        count = 0
        while count < self._batch and not (self.has_ended or self.is_late):
            message = await self._next(unit, wait_ms)
            if message is None:
                self.is_late = True
                break
            await self._handler(message, unit)
            self.at = GroupStatus(message.group_id, message.group_number)
            self.has_ended = message.group_last
            count += 1
        if count:
            await self._status.replace(unit, None if self.has_ended else self.at)
        return count

    async def _next(self, unit: UnitOfWork, wait_ms: int) -> Message | None:
        reader, at = self._reader, self.at
        if at is None:
            return await reader.get(wait_ms, unit, **self._selection)
        if reader.current is None:  # Resume with one get in physical order.
            return await reader.get_physical(wait_ms, unit, at.number + 1, group_id=at.group_id)
        return await reader.get(wait_ms, unit)


async def _check_goes_on(
    manager: RunManager, queue: str, at: GroupStatus, status: RunStatus
) -> None:
    """Raises GROUP_UNKNOWN if another consumer has received the next message of the group."""
    try:
        row = await manager._ask(m.GroupShow, queue, at.group_id)
        is_behind = row["next"] <= at.number + 1
    except RequestError as error:
        if error.code != ErrorCode.GROUP_UNKNOWN:
            raise
        is_behind = False
    if not is_behind:
        text = (
            f"{status.run}: another consumer has received number {at.number + 1}, the next one, of "
            f"group {shown(at.group_id)}: to start another group, remove the status with: "
            f"{status.removal}"
        )
        raise RequestError(ErrorCode.GROUP_UNKNOWN, text)


def _check_batch(batch: int) -> None:
    if type(batch) is not int or batch < 1:
        text = f"batch is {batch!r}: the minimum is 1"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
