# Generated from qmgr_client/aio/groups_admin.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""What operators ask about message groups, without asyncio."""

from collections.abc import Iterator

from qmgr_client.aio import admin as aio_admin
from qmgr_client.blocking.bridge import Bridge, pages
from qmgr_client.groups.group_id import GroupId
from qmgr_client.rows import GroupAltered, GroupRow, GroupShown


class GroupsAdmin(Bridge[aio_admin.Admin]):
    """What an operator asks about message groups."""

    def groups(self, queue: str, incomplete: bool = False) -> Iterator[GroupRow]:
        """Yield the rows of a queue's groups, in order of their ids: an iterator, not a list.

        "group" is the id in hexadecimal, as all the other verbs take it.

        With *incomplete* those only of which something is missing, or has not come yet.
        """
        return pages(self._call, self._aio.groups(queue, incomplete))

    def show_group(self, queue: str, group_id: GroupId, number: int = 1) -> GroupShown:
        """Return a group's row, with up to 1,000 of its messages from *number* on.

        "members" are those messages, "gaps" what is missing between them, "next_number" is where
        to go on, or None.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return self._call(self._aio.show_group(queue, group_id, number))

    def pause_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Have nothing of a group delivered until it is resumed. Returns its row."""
        return self._call(self._aio.pause_group(queue, group_id))

    def resume_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Have a group that is paused, or parked after a failure, delivered. Returns its row."""
        return self._call(self._aio.resume_group(queue, group_id))

    def skip_group(self, queue: str, group_id: GroupId, number: int = 0) -> GroupAltered:
        """Give up what is due of a group: it becomes a dead letter. Returns the group's row.

        Where what is due is missing, the lowest number that is there is due then. With *number*
        all below it are given up.

        Raises:
            RequestError: GROUP_IN_USE, one of these is leased. VALUE_INVALID, *number* is not
                ahead, or lies beyond the end of the group.
        """
        return self._call(self._aio.skip_group(queue, group_id, number))

    def reassign_group(self, queue: str, group_id: GroupId, connection: int = 0) -> GroupAltered:
        """Take a group from its consumer, once what that was handed is settled.

        Another one has it then, or one of *connection*. Returns the group's row.

        Raises:
            RequestError: GROUP_NO_READER, there is no other, or none of that connection.
        """
        return self._call(self._aio.reassign_group(queue, group_id, connection))

    def close_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """End a group with the highest number that is there. Returns its row.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return self._call(self._aio.close_group(queue, group_id))
