# Generated from qmgr_client/aio/group_put.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A handle that puts groups, without asyncio.

The handle numbers messages and keeps groups consistent.

with queue_manager.group("ORDERS") as group:
    group.put(b"head")
    group.put(b"line")
    group.put(b"foot", last=True)
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Unpack

from qmgr_client.aio import group_put as aio_group_put
from qmgr_client.blocking.bridge import Bridge, asyncio_object, collected
from qmgr_client.blocking.unit import UnitOfWork
from qmgr_client.outgoing import Group, Outgoing, PutOptions, PutResult
from qmgr_protocol.errors import ErrorCode


class GroupPut(Bridge[aio_group_put.GroupPut]):
    """A handle that puts one group after another on a queue, for ``with``.

    A group is current from its first message to its last. The next put then starts a new group. A
    put that is refused, or backed out with its unit of work, does not use up a number. If you
    cancel a put, the message may still be stored, and its number counts as used. Concurrent calls
    wait for each other.
    """

    @property
    def current(self) -> Group | None:
        """The current group, with the number of the last message put. None between groups."""
        return self._aio.current

    @property
    def warning(self) -> ErrorCode | None:
        """The inconsistency in a group that the last call caused, or None."""
        return self._aio.warning

    def put(
        self,
        body: bytes,
        last: bool = False,
        in_group: bool = True,
        unit: UnitOfWork | None = None,
        **options: Unpack[PutOptions],
    ) -> PutResult:
        """Puts the next message of the current group, or the first message of a new group.

        Args:
            body: The content of the message.
            last: Whether the group ends with this message.
            in_group: False puts a message without a group, which is allowed only between groups.
            unit: The unit of work to put the message in.
            options: The options of :meth:`Client.put`, except ``group``.

        Raises:
            RequestError: The queue manager refused the put. The errors INCOMPLETE_GROUP,
                INCONSISTENT_PERSISTENCE, INCONSISTENT_UNIT and GROUP_NUMBER_INVALID are raised
                before the message is sent.
        """
        return self._call(self._aio.put(body, last, in_group, asyncio_object(unit), **options))

    def put_many(
        self, items: Iterable[bytes | Outgoing], last: bool = False, unit: UnitOfWork | None = None
    ) -> list[PutResult]:
        """Puts several messages of the current group, in order.

        Args:
            items: Bodies, or :class:`Outgoing` messages with options.
            last: Whether the group ends with the last of these messages.
            unit: The unit of work to put the messages in.

        Raises:
            RequestError: The first refusal. The messages before the refused one are put. In a
                *unit*, later messages may also be put. To back them out, let the error leave the
                block of the unit.
        """
        return self._call(self._aio.put_many(collected(items), last, asyncio_object(unit)))

    def put_physical(
        self, body: bytes, unit: UnitOfWork | None = None, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Puts a message with its own ``group``, or without a group.

        The handle continues after this message. Use this method to resume a group. If the message
        makes the handle leave the current group incomplete, ``warning`` is INCOMPLETE_GROUP. If the
        message differs from the earlier messages in its persistence or unit of work, ``warning`` is
        INCONSISTENT_PERSISTENCE or INCONSISTENT_UNIT.

        Args:
            body: The content of the message.
            unit: The unit of work to put the message in.
            options: The options of :meth:`Client.put`.
        """
        return self._call(self._aio.put_physical(body, asyncio_object(unit), **options))

    def close(self) -> None:
        """Closes the handle. If a group has not ended, ``warning`` is INCOMPLETE_GROUP."""
        self._call(self._aio.close())

    def __enter__(self) -> "GroupPut":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
