# Generated from qmgr_client/aio/groups_admin.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Administration of message groups, without asyncio."""

from collections.abc import Iterator

from qmgr_client.aio import admin as aio_admin
from qmgr_client.blocking.bridge import Bridge, pages
from qmgr_client.groups.group_id import GroupId
from qmgr_client.rows import GroupAltered, GroupRow, GroupShown


class GroupsAdmin(Bridge[aio_admin.Admin]):
    """The requests of operators about message groups."""

    def groups(self, queue: str, incomplete: bool = False) -> Iterator[GroupRow]:
        """Yields the rows of the groups on a queue, in the order of their ids.

        The ``group`` of a row is the id in hexadecimal. The other methods accept it.

        Args:
            queue: The name of the queue.
            incomplete: Whether to yield only groups with missing messages, or without their last.
        """
        return pages(self._call, self._aio.groups(queue, incomplete))

    def show_group(self, queue: str, group_id: GroupId, number: int = 1) -> GroupShown:
        """Returns the row of a group, with up to 1,000 of its messages, from *number* on.

        Returns:
            The row. ``members`` has the messages, ``gaps`` the ranges of missing numbers between
            them. ``next_number`` is where the next call continues, or None.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return self._call(self._aio.show_group(queue, group_id, number))

    def pause_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Pauses a group: no message of it is delivered until it is resumed. Returns its row."""
        return self._call(self._aio.pause_group(queue, group_id))

    def resume_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Resumes a group that is paused, or parked after a failure. Returns its row."""
        return self._call(self._aio.resume_group(queue, group_id))

    def skip_group(self, queue: str, group_id: GroupId, number: int = 0) -> GroupAltered:
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
        return self._call(self._aio.skip_group(queue, group_id, number))

    def reassign_group(self, queue: str, group_id: GroupId, connection: int = 0) -> GroupAltered:
        """Assigns a group to another consumer, and returns the group's row.

        The group moves once its present consumer has settled the messages that it leased.

        Args:
            queue: The name of the queue.
            group_id: The id of the group.
            connection: The connection whose consumer gets the group. 0 is any connection.

        Raises:
            RequestError: GROUP_NO_READER, no other consumer exists, or none on that connection.
        """
        return self._call(self._aio.reassign_group(queue, group_id, connection))

    def close_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Ends a group with the highest number that is on the queue. Returns its row.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return self._call(self._aio.close_group(queue, group_id))
