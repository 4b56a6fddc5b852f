"""Administration of message groups, for asyncio."""

from collections.abc import AsyncGenerator
from typing import Any

from qmgr_client.aio.asker import Asker
from qmgr_client.groups.group_id import GroupId, encoded
from qmgr_client.rows import GroupAltered, GroupRow, GroupShown
from qmgr_protocol import messages as m

GROUPS_PAGE = 1_000


class GroupsAdmin(Asker):
    """The requests of operators about message groups."""

    async def groups(self, queue: str, incomplete: bool = False) -> AsyncGenerator[GroupRow, None]:
        """Yields the rows of the groups on a queue, in the order of their ids.

        The ``group`` of a row is the id in hexadecimal. The other methods accept it.

        Args:
            queue: The name of the queue.
            incomplete: Whether to yield only groups with missing messages, or without their last.
        """
        after: bytes | None = b""
        while after is not None:
            value = await self._row(
                dict[str, Any], m.GroupList, queue, after, GROUPS_PAGE, incomplete
            )
            for row in value["groups"]:
                yield row
            after = value["next"]

    async def show_group(self, queue: str, group_id: GroupId, number: int = 1) -> GroupShown:
        """Returns the row of a group, with up to 1,000 of its messages, from *number* on.

        Returns:
            The row. ``members`` has the messages, ``gaps`` the ranges of missing numbers between
            them. ``next_number`` is where the next call continues, or None.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return await self._row(GroupShown, m.GroupShow, queue, encoded(group_id), number)

    async def pause_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Pauses a group: no message of it is delivered until it is resumed. Returns its row."""
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "pause")

    async def resume_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Resumes a group that is paused, or parked after a failure. Returns its row."""
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "resume")

    async def skip_group(self, queue: str, group_id: GroupId, number: int = 0) -> GroupAltered:
        """Skips the message of a group that is due, and returns the group's row.

        The message becomes a dead letter. If it is missing, the group continues with the lowest
        number that is on the queue.

        Args:
            queue: The name of the queue.
            group_id: The id of the group.
            number: Skip all messages below this number. 0 skips only the message that is due.

        Raises:
            RequestError: GROUP_IN_USE, one of the messages is leased; VALUE_INVALID, *number* was
                passed already, or is beyond the end of the group.
        """
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "skip", number)

    async def reassign_group(
        self, queue: str, group_id: GroupId, connection: int = 0
    ) -> GroupAltered:
        """Assigns a group to another consumer, and returns the group's row.

        The group moves once its present consumer has settled the messages that it leased.

        Args:
            queue: The name of the queue.
            group_id: The id of the group.
            connection: The connection whose consumer gets the group. 0 is any connection.

        Raises:
            RequestError: GROUP_NO_READER, no other consumer exists, or none on that connection.
        """
        return await self._row(
            GroupAltered, m.GroupAlter, queue, encoded(group_id), "reassign", 0, connection
        )

    async def close_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Ends a group with the highest number that is on the queue. Returns its row.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "close")
