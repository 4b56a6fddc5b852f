"""A reader of groups, for asyncio. The reader gets one group after another, each in order.

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
    """A reader that gets messages of a queue in logical order, for ``async with``.

    A message without a group is treated as a group of one. No other reader or consumer receives
    messages of the current group until the reader has received the last message or is closed. If
    the connection is lost, the rest of the group is available to any reader. Concurrent calls wait
    for each other.
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
        self._connection = session.over  # an object that is different for each connection
        self._is_known = False  # whether the queue manager may know this reader
        self._is_closed = False

    @property
    def current(self) -> Group | None:
        """The current group, with the number of the last message received. None between groups."""
        self._notice_loss()
        return self._state.current

    @property
    def warning(self) -> ErrorCode | None:
        """The inconsistency in a group that the last call caused, or None."""
        return self._state.warning

    async def get(
        self,
        wait_ms: Duration = 0,
        unit: UnitOfWork | None = None,
        all_available: bool | None = None,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Leases the next message of the current group, or the first message of a new group.

        Args:
            wait_ms: The maximum time to wait for a message. 0 does not wait.
            unit: The unit of work whose commit deletes the message.
            all_available: Whether to start a group only when all of its messages are on the queue.
                None uses the setting of the reader.
            selection: The selection of the first message of a group: at most one of ``where``,
                ``correlation_id``, ``group_id`` and ``uid``.

        Returns:
            The message, or None if no message arrives within *wait_ms*. If the result is None, the
            position of the reader is unchanged.

        Raises:
            RequestError: INCONSISTENT_UNIT if earlier messages of the group were read with a unit
                of work and this message is read without one, or the reverse. MATCH_INCONSISTENT if
                the next message of the group does not match.
            MessageDamaged: The record of the message cannot be read.
        """
        everything = self._all_available if all_available is None else all_available
        wanted = chosen(**selection)
        async with self._turn:
            self._notice_loss()
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
        """Leases a message of any group that matches *selection*. The reader continues after it.

        To resume a group, use this method with ``group_id`` and *number*. If the message leaves the
        current group incomplete, ``warning`` is INCOMPLETE_GROUP. If the message continues the
        group with a unit of work after messages without a unit, or the reverse, ``warning`` is
        INCONSISTENT_UNIT.

        Args:
            wait_ms: The maximum time to wait for a message. 0 does not wait.
            unit: The unit of work whose commit deletes the message.
            number: The number of the message in its group. 0 means any number.
            all_available: Whether to get only messages of complete groups.
            selection: At most one of ``where``, ``correlation_id``, ``group_id`` and ``uid``.

        Returns:
            The message, or None if no message arrives within *wait_ms*.
        """
        wanted = chosen(**selection)
        async with self._turn:
            self._notice_loss()
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
            text = f"this reader of {self._queue} is closed: create a new one with reader()"
            raise RequestError(ErrorCode.CANCELLED, text)
        core = None if unit is None else unit.core_unit
        self._is_known = True
        found = await get_many(
            self._session, self._queue, 1, wait_ms, self._lease_ms, wanted, core, groups
        )
        self._notice_loss()
        if not found:
            return None
        (message,) = found
        if unit is not None:
            await self._join(unit, message)
        self._state.got(message.group, core, logical=groups[0] == m.LOGICAL)
        return message

    async def _join(self, unit: UnitOfWork, message: Message) -> None:
        """Acknowledges the message in *unit*. Returns the message unread if the ack is refused."""
        try:
            await unit.ack(message)
        except BaseException:
            give_back(self._session, [message])
            raise

    def _notice_loss(self) -> None:
        """Forgets the position of the reader if its connection was lost."""
        if self._session.over is not self._connection:
            self._connection = self._session.over
            self._state.lost()

    async def close(self) -> None:
        """Closes the reader. Its messages stay leased.

        The rest of the current group is then available to other readers and consumers.
        """
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
        with suppress(ConnectionEnded):  # The reader ended with the connection.
            await self.close()
