"""Selection in logical or pinned order.

The selection decides the next message or group of a reader.

A reader skips a selected member that is not the next member of its group, and examines it again
once it is. Therefore, each such consumer has its own positions, even in an index, and a list of
messages to examine again.
"""

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.seek import fits


class MatchInconsistent(RequestError):
    """The selection of a reader in a group does not include the next member (MQRC 2247)."""

    def __init__(self, number: int) -> None:
        super().__init__(
            ErrorCode.MATCH_INCONSISTENT,
            f"the selection does not include number {number}, which is next in the reader's "
            "group; select nothing until the group has ended, or leave the group with a get in "
            "physical order",
        )


def check_selection(queue: Queue, tx: Transaction, consumer: Consumer, group_id: bytes) -> None:
    """Raises MatchInconsistent if *consumer* does not select the next member of a group."""
    if consumer.selector is None and not consumer.prefix:
        return
    held_group, row = queue.groups.held_groups.by_group[group_id], queue.groups.row(tx, group_id)
    number = held_group.next if row is None else row.after(held_group.next)
    if consumer.prefix.startswith(keys.SPACE_GROUP):
        if not keys.group(queue.id, group_id, number).startswith(consumer.prefix):
            raise MatchInconsistent(number)
        return
    position = queue.groups.position(tx, Member(group_id, number))
    if position is None:
        return
    key = keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position
    value = tx.get(key)
    sound = None if value is None else entries.open_sound(tx, value)
    if sound is not None and not fits(queue, tx, consumer, key, sound):
        raise MatchInconsistent(number)
