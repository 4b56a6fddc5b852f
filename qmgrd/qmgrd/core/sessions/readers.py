"""Tracks the current group of each reader of a connection (BEHAVIOUR, section 4.4).

The first get that names a reader creates the reader. A reader ends when it is closed or its
connection ends. A consumer in logical or pinned order, and a get without a named reader, have a
separate reader.
"""

from qmgr_protocol import messages as m
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.context.context import Context
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.group.held_groups import Member, Reader
from qmgrd.core.queue.group.take import continue_group
from qmgrd.core.queue.queue import Queue
from qmgrd.core.sessions.session import Session


class Readers:
    """The readers of all connections."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def of_consumer(self, session: Session, queue: Queue, order: int) -> Reader | None:
        """Returns the reader of a consumer or of a get without a named reader, or None if none is
        needed.
        """
        if order == m.PHYSICAL:
            return None
        reader = Reader(session.connection, session.name, queue.id, order)
        queue.groups.held_groups.open(reader)
        return reader

    def find(self, session: Session, queue: Queue, number: int) -> Reader:
        """Returns reader *number* of *session*. Creates the reader if it does not exist.

        Raises:
            RequestError: CONSUMERS_EXHAUSTED, or VALUE_INVALID if the reader reads another queue.
        """
        found = session.readers.get(number)
        if found is None:
            limit = self._context.config.limits.consumers_per_connection_max
            if len(session.readers) >= limit:
                raise RequestError(
                    ErrorCode.CONSUMERS_EXHAUSTED,
                    f"{amount(len(session.readers), 'reader')} on this connection "
                    f"(the limit is {limit})",
                )
            found = session.readers[number] = Reader(
                session.connection, session.name, queue.id, m.LOGICAL
            )
            queue.groups.held_groups.open(found)
        if found.queue_id != queue.id:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"reader {number} reads a queue other than {queue.name}: use one reader per queue",
            )
        return found

    def close(self, queue: Queue, reader: Reader) -> None:
        """Frees a reader's groups.

        Other readers can begin these groups once the reader's leases are settled.
        """
        for group_id in queue.groups.held_groups.close(reader):
            queue.groups.mark_changed(group_id)
        self._context.mark_changed(queue)


def got_in_physical_order(
    queue: Queue, tx: Transaction, reader: Reader, item: bytes, record: bytes
) -> None:
    """Moves a reader to the group of the message that it just received in physical order."""
    group = index.selected_by(record)[1]
    _, arrival, *_ = m.DELIVERY.unpack_from(item)
    is_member = queue.leases[arrival].key[keys.POSITION_AT] == keys.LANE_GROUPED
    row = None
    if group is not None and is_member:
        row = queue.groups.row(tx, group[0])
    left = reader.current
    if left is not None and (group is None or left != group[0]):
        leave_group(queue, left)
    stands = (
        row is not None
        and group is not None
        and continue_group(queue, reader, Member(*group), arrival, row)
    )
    if not stands and reader.current is not None:
        leave_group(queue, reader.current)


def leave_group(queue: Queue, group_id: bytes) -> None:
    """Removes a group's reader from the group."""
    queue.groups.held_groups.release(group_id)
    queue.groups.mark_changed(group_id)
