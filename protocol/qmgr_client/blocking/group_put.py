# Generated from qmgr_client/aio/group_put.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A handle for asyncio that puts groups: it numbers, and says what would break a group.

with queue_manager.group("ORDERS") as group:
    group.put(b"head")
    group.put(b"line")
    group.put(b"foot", last=True)
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Unpack

from qmgr_client.aio import group_put as aio_group_put
from qmgr_client.blocking.bridge import Bridge, collected, inner_of
from qmgr_client.blocking.unit import UnitOfWork
from qmgr_client.outgoing import Group, Outgoing, PutOptions, PutResult
from qmgr_protocol.errors import ErrorCode


class GroupPut(Bridge[aio_group_put.GroupPut]):
    """Puts messages of one group behind the other on a queue, for ``with``.

    The group is current from its first message to its last; then the next put begins another. A put
    that is refused uses up no number, and what a unit of work puts and backs out neither. One call
    at a time is under way, others wait for it. A put that is cancelled may still be stored, and
    its number counts as used.
    """

    @property
    def current(self) -> Group | None:
        """The group that has not ended, and the number put last; None between groups."""
        return self._aio.current

    @property
    def warning(self) -> ErrorCode | None:
        """What the last call did that breaks a group, and was done all the same."""
        return self._aio.warning

    def put(
        self,
        body: bytes,
        last: bool = False,
        in_group: bool = True,
        unit: UnitOfWork | None = None,
        **options: Unpack[PutOptions],
    ) -> PutResult:
        """Put the next message of the group, or the first of a new one.

        Args:
            last: whether the group ends with it.
            in_group: False puts a message of no group, which may be between groups only.
            unit: the unit of work to put it in.
            options: as of :meth:`Client.put`, but for group.

        Raises:
            RequestError: INCOMPLETE_GROUP, INCONSISTENT_PERSISTENCE, INCONSISTENT_UNIT,
                GROUP_NUMBER_INVALID: nothing was put; or the queue manager refuses.
        """
        return self._call(self._aio.put(body, last, in_group, inner_of(unit), **options))

    def put_many(
        self, items: Iterable[bytes | Outgoing], last: bool = False, unit: UnitOfWork | None = None
    ) -> list[PutResult]:
        """Put bodies or whole messages one behind the other; with *last* the group ends then.

        Raises:
            RequestError: the first refusal. Those before it are put, and in *unit* perhaps others:
                an error that leaves the unit's block backs them out.
        """
        return self._call(self._aio.put_many(collected(items), last, inner_of(unit)))

    def put_physical(
        self, body: bytes, unit: UnitOfWork | None = None, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Put a message that says itself where it stands, by ``group=``, or is of no group.

        The handle is there then, wherever it was: so a group is resumed. ``warning`` says where
        that leaves a group (INCOMPLETE_GROUP), or goes on with it in another way than before
        (INCONSISTENT_PERSISTENCE, INCONSISTENT_UNIT).
        """
        return self._call(self._aio.put_physical(body, inner_of(unit), **options))

    def close(self) -> None:
        """End the handle; ``warning`` is INCOMPLETE_GROUP where a group has not ended."""
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
