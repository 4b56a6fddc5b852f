"""Selection in logical or pinned order: it decides which message or group a reader begins.

A reader steps over a selected member that is not the next of its group, and looks at it again once
it is. So each such consumer has its own position, also in an index, and a list of messages to look
at again.
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
    """A reader in a group selects something other than its next member (MQRC 2247)."""

    def __init__(self, number: int) -> None:
        super().__init__(
            ErrorCode.MATCH_INCONSISTENT,
            f"the reader is in a group, whose number {number} is not what is selected; select "
            "nothing until it has ended, or leave it with a get in physical order",
        )


def check_selection(queue: Queue, tx: Transaction, consumer: Consumer, group_id: bytes) -> None:
    """Raises MatchInconsistent if the next member of a group is not selected."""
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
