"""Message groups without async; aio_groups says more of each verb."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any, TypeAlias, TypeVar, Unpack

from qmgr_client import aio
from qmgr_client.aio.group_run import BATCH_MESSAGES
from qmgr_client.blocking.bridge import Ask, Caller, converse
from qmgr_client.blocking.unit import UnitOfWork
from qmgr_client.duration import Duration
from qmgr_client.groups.group_id import GroupId
from qmgr_client.message import Message
from qmgr_client.outgoing import Group, Outgoing, PutOptions, PutResult, each_outgoing
from qmgr_client.selection import SelectionOrUid
from qmgr_protocol.errors import ErrorCode

Value = TypeVar("Value")
Handler: TypeAlias = Callable[[Message, UnitOfWork], object]


class GroupPut:
    """Puts messages of one group behind the other on a queue, for ``with``."""

    def __init__(self, call: Caller, handle: aio.GroupPut) -> None:
        self._call = call
        self._handle = handle

    def __enter__(self) -> "GroupPut":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def current(self) -> Group | None:
        """The group that has not ended, and the number put last; None between groups."""
        return self._handle.current

    @property
    def warning(self) -> ErrorCode | None:
        """What the last call did that breaks a group, and was done all the same."""
        return self._handle.warning

    def put(
        self,
        body: bytes,
        last: bool = False,
        in_group: bool = True,
        unit: UnitOfWork | None = None,
        **options: Unpack[PutOptions],
    ) -> PutResult:
        """Put the next message of the group, or the first of a new one."""
        return self._call(self._handle.put(body, last, in_group, _aio(unit), **options))

    def put_many(
        self, items: Iterable[bytes | Outgoing], last: bool = False, unit: UnitOfWork | None = None
    ) -> list[PutResult]:
        """Put bodies or whole messages one behind the other; with *last* the group ends then."""
        return self._call(
            self._handle.put_many(list(each_outgoing("put_many", items)), last, _aio(unit))
        )

    def put_physical(
        self, body: bytes, unit: UnitOfWork | None = None, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Put a message that says itself where it stands, by ``group=``, or is of no group."""
        return self._call(self._handle.put_physical(body, _aio(unit), **options))

    def close(self) -> None:
        """End the handle; ``warning`` is INCOMPLETE_GROUP where a group has not ended."""
        self._call(self._handle.close())


class GroupReader:
    """Gets messages in logical order from a queue, for ``with``."""

    def __init__(self, call: Caller, reader: aio.GroupReader) -> None:
        self._call = call
        self._reader = reader

    def __enter__(self) -> "GroupReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._call(self._reader.__aexit__(kind, error, traceback))

    @property
    def current(self) -> Group | None:
        """The group that has not ended, and the number got last; None between groups."""
        return self._reader.current

    @property
    def warning(self) -> ErrorCode | None:
        """What the last call did that leaves a group, or reads it in another way than before."""
        return self._reader.warning

    def get(
        self,
        wait_ms: Duration = 0,
        unit: UnitOfWork | None = None,
        all_available: bool | None = None,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Return the next message of the group, or the first of another one, under lease."""
        return self._call(self._reader.get(wait_ms, _aio(unit), all_available, **selection))

    def get_physical(
        self,
        wait_ms: Duration = 0,
        unit: UnitOfWork | None = None,
        number: int = 0,
        all_available: bool = False,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Return a message by selection alone, under lease; the reader is behind it then."""
        getting = self._reader.get_physical(wait_ms, _aio(unit), number, all_available, **selection)
        return self._call(getting)

    def close(self) -> None:
        """End it: the group that it is in is offered to others. What was got stays leased."""
        self._call(self._reader.close())


class Groups:
    """What a queue manager does with groups."""

    _manager: aio.QueueManager

    def new_group_id(self) -> bytes:
        """Return 24 bytes that no other group has, of whatever queue manager."""
        return self._call(self._manager.new_group_id())

    def group(self, queue: str, *, group_id: GroupId | None = None) -> GroupPut:
        """Return a handle that puts groups, for ``with``."""

        async def made() -> aio.GroupPut:
            return self._manager.group(queue, group_id=group_id)

        return GroupPut(self._call, self._call(made()))

    def reader(
        self, queue: str, *, all_available: bool = False, lease_ms: Duration = 0
    ) -> GroupReader:
        """Return a reader that gets groups one behind the other, for ``with``."""

        async def made() -> aio.GroupReader:
            return self._manager.reader(queue, all_available=all_available, lease_ms=lease_ms)

        return GroupReader(self._call, self._call(made()))

    def put_group(
        self,
        queue: str,
        items: Iterable[bytes | Outgoing],
        *,
        status_queue: str,
        name: str,
        batch: int = BATCH_MESSAGES,
        resume_from: int | None = None,
        group_id: GroupId | None = None,
    ) -> aio.GroupPutDone:
        """Put *items* as one group over several units of work, or go on where that broke off.

        They are taken from their iterator on this thread, which may call the client.
        """
        iterator = iter(items)

        async def begin(ask: Ask) -> aio.GroupPutDone:
            return await self._manager.put_group(
                queue,
                _asked(ask, iterator, max(batch, 1)),
                status_queue=status_queue,
                name=name,
                batch=batch,
                resume_from=resume_from,
                group_id=group_id,
            )

        return converse(self._call, begin)

    def get_group(
        self,
        queue: str,
        handler: Handler,
        *,
        status_queue: str,
        name: str,
        batch: int = BATCH_MESSAGES,
        wait_ms: Duration = 0,
        all_available: bool = True,
        **selection: Unpack[SelectionOrUid],
    ) -> aio.GroupGot | None:
        """Have *handler* do one group over several units of work, or go on where that broke off.

        ``handler(message, unit)`` is called on this thread, and may call the client.
        """

        async def begin(ask: Ask) -> aio.GroupGot | None:
            async def handle(message: Message, unit: aio.UnitOfWork) -> None:
                await ask(handler, message, UnitOfWork.of(self._call, self._manager, unit))

            return await self._manager.get_group(
                queue,
                handle,
                status_queue=status_queue,
                name=name,
                batch=batch,
                wait_ms=wait_ms,
                all_available=all_available,
                **selection,
            )

        return converse(self._call, begin)

    def _call(self, call: Coroutine[Any, Any, Value]) -> Value:
        """Have *call* done on the loop's thread, and return what it returns."""
        raise NotImplementedError


def _aio(unit: UnitOfWork | None) -> aio.UnitOfWork | None:
    return None if unit is None else unit.begun


async def _asked(
    ask: Ask, items: Iterator[bytes | Outgoing], batch: int
) -> AsyncGenerator[bytes | Outgoing, None]:
    """Yield *items*, which the caller's thread takes from their iterator, a batch at a time."""
    while some := await ask(lambda: list(islice(items, batch))):
        for item in some:
            yield item
