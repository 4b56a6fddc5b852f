"""What operators ask about message groups, for asyncio."""

from collections.abc import AsyncGenerator
from typing import Any

from qmgr_client.aio.asker import Asker
from qmgr_client.groups.group_id import GroupId, encoded
from qmgr_client.rows import GroupAltered, GroupRow, GroupShown
from qmgr_protocol import messages as m

GROUPS_PAGE = 1_000


class GroupsAdmin(Asker):
    """What an operator asks about message groups."""

    async def groups(self, queue: str, incomplete: bool = False) -> AsyncGenerator[GroupRow, None]:
        """Yield the rows of a queue's groups, in order of their ids: an iterator, not a list.

        "group" is the id in hexadecimal, as all the other verbs take it.

        With *incomplete* those only of which something is missing, or has not come yet.
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
        """Return a group's row, with up to 1,000 of its messages from *number* on.

        "members" are those messages, "gaps" what is missing between them, "next_number" is where
        to go on, or None.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return await self._row(GroupShown, m.GroupShow, queue, encoded(group_id), number)

    async def pause_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Have nothing of a group delivered until it is resumed. Returns its row."""
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "pause")

    async def resume_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Have a group that is paused, or parked after a failure, delivered. Returns its row."""
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "resume")

    async def skip_group(self, queue: str, group_id: GroupId, number: int = 0) -> GroupAltered:
        """Give up what is due of a group: it becomes a dead letter. Returns the group's row.

        Where what is due is missing, the lowest number that is there is due then. With *number*
        all below it are given up.

        Raises:
            RequestError: GROUP_IN_USE, one of these is leased. VALUE_INVALID, *number* is not
                ahead, or lies beyond the end of the group.
        """
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "skip", number)

    async def reassign_group(
        self, queue: str, group_id: GroupId, connection: int = 0
    ) -> GroupAltered:
        """Take a group from its consumer, once what that was handed is settled.

        Another one has it then, or one of *connection*. Returns the group's row.

        Raises:
            RequestError: GROUP_NO_READER, there is no other, or none of that connection.
        """
        return await self._row(
            GroupAltered, m.GroupAlter, queue, encoded(group_id), "reassign", 0, connection
        )

    async def close_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """End a group with the highest number that is there. Returns its row.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return await self._row(GroupAltered, m.GroupAlter, queue, encoded(group_id), "close")
