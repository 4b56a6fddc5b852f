"""A reader for asyncio: gets groups one behind the other, each in the order of its numbers.

async with queue_manager.reader("ORDERS") as reader:
    while (message := await reader.get(wait_ms=1_000)) is not None:
        ...
        await queue_manager.ack(message)
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Unpack

from qmgr_client.aio.get import get_many, give_back
from qmgr_client.aio.session import Session
from qmgr_client.aio.unit import UnitOfWork
from qmgr_client.duration import Duration
from qmgr_client.errors import ConnectionEnded
from qmgr_client.groups.get import GroupGetState
from qmgr_client.message import Message
from qmgr_client.outgoing import Group
from qmgr_client.selection import SelectionOrUid, chosen
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError


class GroupReader:
    """Gets messages in logical order from a queue, for ``async with``.

    A message of no group is a group of one. The group that it is in is nobody else's until its last
    message, or :meth:`close`. A lost connection ends that: then what is left of the group is
    offered again, to whoever asks first. One call at a time is under way, others wait for it.
    """

    def __init__(
        self, session: Session, queue: str, number: int, *, all_available: bool, lease_ms: Duration
    ) -> None:
        self._session = session
        self._queue = queue
        self._number = number
        self._all_available = all_available
        self._lease_ms = lease_ms
        self._state = GroupGetState()
        self._turn = asyncio.Lock()
        self._connection = session.over  # It is another one on each.
        self._is_known = False  # to the queue manager, perhaps
        self._is_closed = False

    @property
    def current(self) -> Group | None:
        """The group that has not ended, and the number got last; None between groups."""
        self._look()
        return self._state.current

    @property
    def warning(self) -> ErrorCode | None:
        """What the last call did that leaves a group, or reads it in another way than before."""
        return self._state.warning

    async def get(
        self,
        wait_ms: Duration = 0,
        unit: UnitOfWork | None = None,
        all_available: bool | None = None,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Return the next message of the group, or the first of another one, under lease.

        None where none comes within *wait_ms*: the reader stays where it is.

        Args:
            unit: the unit of work whose commit removes it.
            all_available: whether only a group is begun of which all is there; None is as the
                reader was made.
            selection: of the message that a group begins with: where, correlation_id, group_id or
                uid.

        Raises:
            RequestError: INCONSISTENT_UNIT; MATCH_INCONSISTENT: inside a group, and its next
                message is not what is selected.
            MessageDamaged: it cannot be read.
        """
        everything = self._all_available if all_available is None else all_available
        wanted = chosen(**selection)
        async with self._turn:
            self._look()
            self._state.logical(None if unit is None else unit.core_unit)
            groups = m.LOGICAL, everything, 0, self._number
            return await self._get(wait_ms, unit, wanted, groups)

    async def get_physical(
        self,
        wait_ms: Duration = 0,
        unit: UnitOfWork | None = None,
        number: int = 0,
        all_available: bool = False,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Return a message by selection alone, under lease; the reader is behind it then.

        With *group_id* and *number* that one of the group: so a group is resumed. *all_available*
        counts for each message: of a group all of which is there the first one. ``warning`` says
        where that leaves a group (INCOMPLETE_GROUP), or reads on in another way than before
        (INCONSISTENT_UNIT).
        """
        wanted = chosen(**selection)
        async with self._turn:
            self._look()
            self._state.physical()
            return await self._get(
                wait_ms, unit, wanted, (m.PHYSICAL, all_available, number, self._number)
            )

    async def _get(
        self,
        wait_ms: Duration,
        unit: UnitOfWork | None,
        wanted: tuple[str, bytes, bytes, bytes],
        groups: tuple[int, bool, int, int],
    ) -> Message | None:
        if self._is_closed:
            text = f"this reader of {self._queue} is closed: make another with reader()"
            raise RequestError(ErrorCode.CANCELLED, text)
        core = None if unit is None else unit.core_unit
        self._is_known = True
        found = await get_many(
            self._session, self._queue, 1, wait_ms, self._lease_ms, wanted, core, groups
        )
        self._look()
        if not found:
            return None
        (message,) = found
        if unit is not None:
            await self._join(unit, message)
        self._state.got(message.group, core, logical=groups[0] == m.LOGICAL)
        return message

    async def _join(self, unit: UnitOfWork, message: Message) -> None:
        """Have *unit* remove the message; give it back where that is refused."""
        try:
            await unit.ack(message)
        except BaseException:
            give_back(self._session, [message])
            raise

    def _look(self) -> None:
        """Take note of a connection that was lost: the queue manager knows no place any more."""
        if self._session.over is not self._connection:
            self._connection = self._session.over
            self._state.lost()

    async def close(self) -> None:
        """End it: the group that it is in is offered to others. What was got stays leased."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._is_known:
            return
        ticket, closing = self._session.request(m.ReaderClose, self._number)
        try:
            await closing
        except asyncio.CancelledError:
            self._session.abandon(ticket)
            raise

    async def __aenter__(self) -> "GroupReader":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(ConnectionEnded):  # And the reader with it.
            await self.close()
