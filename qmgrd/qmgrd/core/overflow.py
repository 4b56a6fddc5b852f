"""What a put does that meets a full queue which has its oldest messages make room.

The oldest of the lowest priority goes first, as it is worth least. What is leased stays.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qmgr_protocol.errors import ErrorCode
from qmgrd.core import entry as entries
from qmgrd.core import keys, lane
from qmgrd.core.context import Context
from qmgrd.core.kv import Transaction
from qmgrd.core.queue import Queue

if TYPE_CHECKING:
    from qmgrd.core.dead_letters import DeadLetters

PUSHED_OUT_MAX = 1_000  # for one put


def make_room(
    context: Context, dead_letters: "DeadLetters", queue: Queue, messages: int, bytes_: int
) -> None:
    """Have the oldest leave *queue* where it has no room for so many more, if it is to."""
    overflow = queue.bounds.overflow
    if overflow == "refuse" or queue.has_room(messages, bytes_):
        return
    pushed_out = 0
    for key, value in list(_oldest(queue, context.tx, messages, bytes_)):
        if overflow == "dead-letter-oldest":
            from qmgrd.core.dead_letters import Cause

            if not dead_letters.bury(queue, key, value, Cause(ErrorCode.QUEUE_FULL)):
                break
        else:
            lane.remove(queue, context.tx, key, value)
            queue.counters.purged += 1
        pushed_out += 1
    if pushed_out:
        context.touch(queue)
        context.rows += 3 * pushed_out
        context.event("queue overflowed", pushed_out, queue=queue.name)


def _oldest(
    queue: Queue, tx: Transaction, messages: int, bytes_: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield what has to go, of the ready lane."""
    excess = queue.messages + messages - queue.bounds.depth_max
    excess_bytes = queue.counters.bytes + queue.held_bytes + bytes_ - queue.bounds.bytes_max
    count = 0
    for prefix in queue.prefixes:  # The lowest priority first.
        for key, value in tx.scan(prefix + bytes(8), keys.after(prefix)):
            if (excess <= 0 and excess_bytes <= 0) or count == PUSHED_OUT_MAX:
                return
            entry, arrival = entries.decode(value), keys.place(key)[1]
            if arrival in queue.leases or queue.is_lost(entry, arrival):
                continue
            yield key, value
            count += 1
            excess -= 1
            excess_bytes -= entries.record_bytes(entry)
