"""Putting and getting message groups, for asyncio."""

from collections.abc import AsyncIterable, Iterable
from itertools import count
from typing import Unpack, cast

from qmgr_client.aio import group_run as aio_group_run
from qmgr_client.aio.group_put import GroupPut
from qmgr_client.aio.group_run import BATCH_MESSAGES, GroupGot, GroupPutDone, Handler
from qmgr_client.aio.messaging import Messaging
from qmgr_client.aio.reader import GroupReader
from qmgr_client.duration import Duration
from qmgr_client.groups.group_id import GroupId, encoded
from qmgr_client.outgoing import Outgoing
from qmgr_client.sansio.core import ClientCore
from qmgr_client.selection import SelectionOrUid
from qmgr_protocol import messages as m
from qmgr_protocol.field import ID_END


class Groups(Messaging):
    """The methods that put and get message groups."""

    def __init__(self, core: ClientCore) -> None:
        super().__init__(core)
        self._readers = count()

    async def new_group_id(self) -> bytes:
        """Returns a new group id: 24 bytes that are unique across queue managers."""
        return cast(bytes, await self._ask(m.GroupNew))

    def group(self, queue: str, *, group_id: GroupId | None = None) -> GroupPut:
        """Returns a handle that puts groups, for ``async with``.

        Args:
            queue: The name of a queue.
            group_id: The id of the first group, 24 bytes or a string. Default: a new id. Later
                groups always have new ids.

        Raises:
            RequestError: VALUE_INVALID if *group_id* is not a valid group id.
        """
        first_id = None if group_id is None else encoded(group_id)
        return GroupPut(queue, self._submit, self.new_group_id, first_id)

    def reader(
        self, queue: str, *, all_available: bool = False, lease_ms: Duration = 0
    ) -> GroupReader:
        """Returns a reader that gets one group after another, for ``async with``.

        Args:
            queue: The name of a queue or durable subscription.
            all_available: Whether to start a group only when all of its messages are on the queue.
            lease_ms: The length of each lease. 0 uses the queue's ``lease_ms``.
        """
        number = next(self._readers) % (ID_END - 1) + 1
        return GroupReader(
            self._session, queue, number, all_available=all_available, lease_ms=lease_ms
        )

    async def put_group(
        self,
        queue: str,
        items: Iterable[bytes | Outgoing] | AsyncIterable[bytes | Outgoing],
        *,
        status_queue: str,
        name: str,
        batch: int = BATCH_MESSAGES,
        resume_from: int | None = None,
        group_id: GroupId | None = None,
    ) -> GroupPutDone:
        """Puts *items* as one group in several units of work. Resumes after an interruption.

        Each unit also replaces a status message on *status_queue*, and the last unit deletes it.
        After an interruption, call the method again with the same queue, name and items. The method
        then puts the missing messages, and does not put any message twice. If no status message
        exists, the call starts a new group. A group that fits in one unit needs no status message.

        Args:
            queue: The name of the queue to put the group on.
            items: Bodies, or :class:`Outgoing` messages with options.
            status_queue: The name of the queue for the status message.
            name: The name of the status message, 1 to 64 bytes. Calls at the same time need
                different names.
            batch: The number of messages in each unit.
            resume_from: The group number of the first of *items*, if you omit items that were put
                earlier. None means that *items* has all messages of the group.
            group_id: The id of a new group, 24 bytes or a string. Default: a new id.

        Returns:
            The id of the group, and the numbers of messages that were put and skipped.

        Raises:
            RequestError: GROUP_UNKNOWN if *resume_from* is above 1 and no status message exists.
                VALUE_INVALID if *items* starts after the first missing message, or has fewer
                messages than were put earlier. LEASE_LOST if another call uses the same name.
                Messages of earlier units remain on the queue.
        """
        first_id = None if group_id is None else encoded(group_id)
        return await aio_group_run.put_group(
            self, queue, items, status_queue, name, batch, resume_from, first_id
        )

    async def get_group(
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
    ) -> GroupGot | None:
        """Processes one group with *handler* in several units of work. Resumes when called again.

        The method calls ``await handler(message, unit)`` for each message, in the order of the
        numbers. Puts and gets of the handler in *unit* are committed together with the message. A
        status message records the progress, as in :meth:`put_group`.

        If the handler raises an error, the unit is backed out and the error is raised. Call the
        method again to continue. If a unit is lost with its connection or by a restart of the queue
        manager, its messages are processed again in a new unit. A unit is repeated at most five
        times.

        Args:
            queue: The name of the queue to get the group from.
            handler: The function that processes a message.
            status_queue: The name of the queue for the status message.
            name: The name of the status message, 1 to 64 bytes. Calls at the same time need
                different names.
            batch: The number of messages in each unit.
            wait_ms: The maximum time to wait for each message, in milliseconds or as a timedelta.
            all_available: Whether to start a group only when all of its messages are on the queue.
            selection: The selection of the first message of the group.

        Returns:
            The id of the group, and the numbers of messages that were processed and skipped. None
            if no group is available within *wait_ms*.

        Raises:
            RequestError: LEASE_LOST if another call uses the same name. The unit is then backed
                out. UNIT_BACKED_OUT if a unit took too long or its connection was lost five times.
                To continue, call the method again.
        """
        return await aio_group_run.get_group(
            self, queue, handler, status_queue, name, batch, wait_ms, all_available, selection
        )
