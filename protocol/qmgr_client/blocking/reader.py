# Generated from qmgr_client/aio/reader.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A reader for asyncio: gets groups one behind the other, each in the order of its numbers.

with queue_manager.reader("ORDERS") as reader:
    while (message := reader.get(wait_ms=1_000)) is not None:
        ...
        queue_manager.ack(message)
"""

from types import TracebackType
from typing import Unpack

from qmgr_client.aio import reader as aio_reader
from qmgr_client.blocking.bridge import Bridge, inner_of
from qmgr_client.blocking.unit import UnitOfWork
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.outgoing import Group
from qmgr_client.selection import SelectionOrUid
from qmgr_protocol.errors import ErrorCode


class GroupReader(Bridge[aio_reader.GroupReader]):
    """Gets messages in logical order from a queue, for ``with``.

    A message of no group is a group of one. The group that it is in is nobody else's until its last
    message, or :meth:`close`. A lost connection ends that: then what is left of the group is
    offered again, to whoever asks first. One call at a time is under way, others wait for it.
    """

    @property
    def current(self) -> Group | None:
        """The group that has not ended, and the number got last; None between groups."""
        return self._aio.current

    @property
    def warning(self) -> ErrorCode | None:
        """What the last call did that leaves a group, or reads it in another way than before."""
        return self._aio.warning

    def get(
        self,
        wait_ms: Duration = 0,
        unit: UnitOfWork | None = None,
        all_available: bool | None = None,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Return the next message of the group, or the first of another one, under lease.

        None where none comes within *wait_ms*: the reader stays where it is.

        Args:
            unit: the unit of work whose commit removes it.
            all_available: whether only a group is begun of which all is there; None is as the
                reader was made.
            selection: of the message that a group begins with: where, correlation_id, group_id or
                uid.

        Raises:
            RequestError: INCONSISTENT_UNIT; MATCH_INCONSISTENT: inside a group, and its next
                message is not what is selected.
            MessageDamaged: it cannot be read.
        """
        return self._call(self._aio.get(wait_ms, inner_of(unit), all_available, **selection))

    def get_physical(
        self,
        wait_ms: Duration = 0,
        unit: UnitOfWork | None = None,
        number: int = 0,
        all_available: bool = False,
        **selection: Unpack[SelectionOrUid],
    ) -> Message | None:
        """Return a message by selection alone, under lease; the reader is behind it then.

        With *group_id* and *number* that one of the group: so a group is resumed. *all_available*
        counts for each message: of a group all of which is there the first one. ``warning`` says
        where that leaves a group (INCOMPLETE_GROUP), or reads on in another way than before
        (INCONSISTENT_UNIT).
        """
        return self._call(
            self._aio.get_physical(wait_ms, inner_of(unit), number, all_available, **selection)
        )

    def close(self) -> None:
        """End it: the group that it is in is offered to others. What was got stays leased."""
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
