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

        The ``group`` of a row is the id in hexadecimal. The other methods accept this form.

        Args:
            queue: The name of the queue.
            incomplete: Whether to yield only groups without their last message or with gaps.
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
        """Returns the row of a group, with up to 1,000 of its messages from *number* on.

        Returns:
            The row. ``members`` has the messages, and ``gaps`` has the ranges of missing numbers
            between them. ``next_number`` is the *number* for the next call, or None.

        Raises:
            RequestError: GROUP_UNKNOWN if the group does not exist.
        """
        return await self._row(GroupShown, m.GroupShow, queue, encoded(group_id), number)

    async def pause_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Pauses a group until it is resumed: its messages are not delivered. Returns its row."""
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "pause")

    async def resume_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Resumes a group that is paused or was parked after a failure. Returns its row."""
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "resume")

    async def skip_group(self, queue: str, group_id: GroupId, number: int = 0) -> GroupAltered:
        """Skips the due message of a group and returns the group's row.

        The message becomes a dead letter. If the due message is missing, the group continues with
        the lowest number that is on the queue.

        Args:
            queue: The name of the queue.
            group_id: The id of the group.
            number: Skip all messages below this number. 0 skips only the due message.

        Raises:
            RequestError: GROUP_IN_USE if one of the messages is leased. VALUE_INVALID if the group
                has already passed *number*, or if *number* is beyond its end.
        """
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "skip", number)

    async def reassign_group(
        self, queue: str, group_id: GroupId, connection: int = 0
    ) -> GroupAltered:
        """Assigns a group to another consumer and returns the group's row.

        The group moves once its current consumer has settled the messages that it leased.

        Args:
            queue: The name of the queue.
            group_id: The id of the group.
            connection: The number of the new consumer's connection. 0 means any connection.

        Raises:
            RequestError: GROUP_NO_READER if the connection, or the queue, has no other consumer.
        """
        return await self._row(
            GroupAltered, m.GroupAlter, queue, encoded(group_id), "reassign", 0, connection
        )

    async def close_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Ends a group after the highest number that is on the queue. Returns the group's row.

        Raises:
            RequestError: GROUP_UNKNOWN if the group does not exist.
        """
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "close")
