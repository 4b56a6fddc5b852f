"""The verbs of message groups for asyncio."""

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
from qmgr_protocol.layout import ID_END


class Groups(Messaging):
    """Puts and gets message groups."""

    def __init__(self, core: ClientCore) -> None:
        super().__init__(core)
        self._readers = count()

    async def new_group_id(self) -> bytes:
        """Return 24 bytes that no other group has, of whatever queue manager."""
        return cast(bytes, await self._ask(m.GroupNew))

    def group(self, queue: str, *, group_id: GroupId | None = None) -> GroupPut:
        """Return a handle that puts groups, for ``async with``.

        *group_id*, 24 bytes or a text, is for the first group; without it that has a new one, as
        all others have.
        """
        first_id = None if group_id is None else encoded(group_id)
        return GroupPut(queue, self._submit, self.new_group_id, first_id)

    def reader(
        self, queue: str, *, all_available: bool = False, lease_ms: Duration = 0
    ) -> GroupReader:
        """Return a reader that gets groups one behind the other, for ``async with``.

        Args:
            all_available: whether it begins only groups of which all is there.
            lease_ms: how long each message is this client's; 0 leaves it to the queue.
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
        """Put *items* as one group over several units of work, or go on where that broke off.

        Each unit also replaces a status message on *status_queue*, the last one removes it. Called
        again with the same queue, name and items, after whatever broke, this puts what is missing,
        and nothing twice. While there is no status message, a call begins another group; all of
        what fits in one unit needs none.

        Args:
            name: of this group's status on *queue*, 1 to 64 bytes.
            batch: how many messages are put in one unit.
            resume_from: the number that the first of *items* has in the group, where those before
                it are left out; None: they are all there.
            group_id: 24 bytes or a text for a group that begins; None: a new one.

        Raises:
            RequestError: GROUP_UNKNOWN: *resume_from* is over 1 and no status is there;
                VALUE_INVALID: *items* begin behind what is missing, or are fewer than were put;
                LEASE_LOST: another call puts under this name; nothing was put by this one but what
                it had put before.
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
        """Have *handler* do one group over several units of work, or go on where that broke off.

        ``await handler(message, unit)`` is called in the order of numbers; what it puts and gets
        in that unit is committed with the message. The status message is as of :meth:`put_group`.
        An error of the handler backs out its unit, and is raised: called again, this goes on from
        there. If a unit is lost with its connection, or by a restart of the queue manager, its
        messages are got again in a new unit, five times at most: *handler* is called again for
        them. Returns None where no group is there within *wait_ms*.

        Args:
            batch: how many messages are got in one unit.
            wait_ms: how long each message is waited for.
            all_available: whether a group is begun only when all of it is there.
            selection: of the first message of a group.

        Raises:
            RequestError: LEASE_LOST: another call reads under this name, and the unit was backed
                out; UNIT_BACKED_OUT: it took longer than a unit may, or its connection was
                lost five times. Call again.
        """
        return await aio_group_run.get_group(
            self, queue, handler, status_queue, name, batch, wait_ms, all_available, selection
        )
