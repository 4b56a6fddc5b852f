# Generated from qmgr_client/aio/reader.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A reader of groups, without asyncio. The reader gets one group after another, each in order.

with queue_manager.reader("ORDERS") as reader:
    while (message := reader.get(wait_ms=1_000)) is not None:
        ...
        queue_manager.ack(message)
"""

from types import TracebackType
from typing import Unpack

from qmgr_client.aio import reader as aio_reader
from qmgr_client.blocking.bridge import Bridge, asyncio_object
from qmgr_client.blocking.unit import UnitOfWork
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.outgoing import Group
from qmgr_client.selection import SelectionOrUid
from qmgr_protocol.errors import ErrorCode


class GroupReader(Bridge[aio_reader.GroupReader]):
    """A reader that gets messages of a queue in logical order, for ``with``.

    A message without a group is treated as a group of one. No other reader or consumer receives
    messages of the current group until the reader has received the last message or is closed. If
    the connection is lost, the rest of the group is available to any reader. Concurrent calls wait
    for each other.
    """

    @property
    def current(self) -> Group | None:
        """The current group, with the number of the last message received. None between groups."""
        return self._aio.current

    @property
    def warning(self) -> ErrorCode | None:
        """The inconsistency in a group that the last call caused, or None."""
        return self._aio.warning

    def get(
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
        return self._call(self._aio.get(wait_ms, asyncio_object(unit), all_available, **selection))

    def get_physical(
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
        return self._call(
            self._aio.get_physical(
                wait_ms, asyncio_object(unit), number, all_available, **selection
            )
        )

    def close(self) -> None:
        """Closes the reader. Its messages stay leased.

        The rest of the current group is then available to other readers and consumers.
        """
        self._call(self._aio.close())

    def __enter__(self) -> "GroupReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave(self._aio.__aexit__(kind, error, traceback), error)
