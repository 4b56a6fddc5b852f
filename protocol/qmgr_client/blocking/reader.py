# Generated from qmgr_client/aio/reader.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A reader of groups, without asyncio. It gets one group after another, each in order.

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
    """Gets messages in logical order from a queue, for ``with``.

    A message without a group is a group of one. No other reader or consumer gets messages of the
    current group until its last message, or until :meth:`close`. If the connection is lost, the
    rest of the group is available to any reader. Concurrent calls wait for each other.
    """

    @property
    def current(self) -> Group | None:
        """The current group, with the number that was got last. None between groups."""
        return self._aio.current

    @property
    def warning(self) -> ErrorCode | None:
        """The inconsistency that the last call caused in a group, or None."""
        return self._aio.warning

    def get(
        self,
        wait_ms: Duration = 0,
        unit: UnitOfWork | None = None,
        all_available: bool | None = None,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Leases the next message of the current group, or the first of a new group.

        Args:
            wait_ms: How long to wait for a message.
            unit: The unit of work whose commit deletes the message.
            all_available: Whether to start a group only when all of its messages are on the queue.
                None uses the setting of the reader.
            selection: Selects the first message of a group: at most one of ``where``,
                ``correlation_id``, ``group_id`` and ``uid``.

        Returns:
            The message, or None if none arrives within *wait_ms*. The reader then keeps its place.

        Raises:
            RequestError: INCONSISTENT_UNIT, the group was read with a unit of work before, or
                without; MATCH_INCONSISTENT, the next message of the group does not match.
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
        """Leases a message that matches *selection*, in any group. The reader continues after it.

        Use it with ``group_id`` and *number* to resume a group. If the message leaves the current
        group incomplete, ``warning`` is INCOMPLETE_GROUP. If it continues the group with a unit of
        work, but earlier messages had none, or the reverse, it is INCONSISTENT_UNIT.

        Args:
            wait_ms: How long to wait for a message.
            unit: The unit of work whose commit deletes the message.
            number: The number of the message in its group. 0 is any number.
            all_available: Whether to get only messages of complete groups.
            selection: At most one of ``where``, ``correlation_id``, ``group_id`` and ``uid``.

        Returns:
            The message, or None if none arrives within *wait_ms*.
        """
        return self._call(
            self._aio.get_physical(
                wait_ms, asyncio_object(unit), number, all_available, **selection
            )
        )

    def close(self) -> None:
        """Closes the reader. Others may get the rest of its group. Its messages stay leased."""
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
