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

        The ``group`` of a row is the id in hexadecimal. The other methods accept this form.

        Args:
            queue: The name of the queue.
            incomplete: Whether to yield only groups without their last message or with gaps.
        """
        return pages(self._call, self._aio.groups(queue, incomplete))

    def show_group(self, queue: str, group_id: GroupId, number: int = 1) -> GroupShown:
        """Returns the row of a group, with up to 1,000 of its messages from *number* on.

        Returns:
            The row. ``members`` has the messages, and ``gaps`` has the ranges of missing numbers
            between them. ``next_number`` is the *number* for the next call, or None.

        Raises:
            RequestError: GROUP_UNKNOWN if the group does not exist.
        """
        return self._call(self._aio.show_group(queue, group_id, number))

    def pause_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Pauses a group until it is resumed: its messages are not delivered. Returns its row."""
        return self._call(self._aio.pause_group(queue, group_id))

    def resume_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Resumes a group that is paused or was parked after a failure. Returns its row."""
        return self._call(self._aio.resume_group(queue, group_id))

    def skip_group(self, queue: str, group_id: GroupId, number: int = 0) -> GroupAltered:
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
        return self._call(self._aio.skip_group(queue, group_id, number))

    def reassign_group(self, queue: str, group_id: GroupId, connection: int = 0) -> GroupAltered:
        """Assigns a group to another consumer and returns the group's row.

        The group moves once its current consumer has settled the messages that it leased.

        Args:
            queue: The name of the queue.
            group_id: The id of the group.
            connection: The number of the new consumer's connection. 0 means any connection.

        Raises:
            RequestError: GROUP_NO_READER if the connection, or the queue, has no other consumer.
        """
        return self._call(self._aio.reassign_group(queue, group_id, connection))

    def close_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Ends a group after the highest number that is on the queue. Returns the group's row.

        Raises:
            RequestError: GROUP_UNKNOWN if the group does not exist.
        """
        return self._call(self._aio.close_group(queue, group_id))
