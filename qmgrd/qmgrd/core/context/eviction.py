"""Evicts the oldest messages of a queue when a put finds it full.

The oldest message of the lowest priority is evicted first. Delayed messages are evicted only when
no other messages are left. Leased messages are never evicted. A message is not evicted either if no
dead-letter queue has room for it.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeAlias

from qmgr_protocol import history
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue import lane, order
from qmgrd.core.queue.held_puts import HeldPut
from qmgrd.core.queue.notes import Cause
from qmgrd.core.queue.order import Rows
from qmgrd.core.queue.queue import Queue

EVICTED_MAX = 1_000  # maximum number of messages that one put evicts
STUCK_MAX = 8  # number of messages refused by dead-letter queues after which eviction stops
# A function that makes a message a dead letter, given its queue, key, entry and cause. The function
# returns the name of the queue that accepted the message, or "" if no queue did.
MakeDeadLetter: TypeAlias = Callable[[Queue, bytes, bytes, Cause], str]


def make_room(
    context: Context, make_dead_letter: MakeDeadLetter, queue: Queue, messages: int, bytes_: int
) -> None:
    """Evicts messages of *queue* to make room, if its overflow policy allows eviction.

    Args:
        context: The context of the current turn.
        make_dead_letter: The function that makes an evicted message a dead letter.
        queue: The queue that needs room.
        messages: The number of messages to make room for.
        bytes_: The total size of these messages.
    """
    bounds, overflow = queue.bounds, queue.bounds.overflow
    if overflow == "refuse" or queue.has_room(messages, bytes_):
        return
    if messages > bounds.depth_max or bytes_ > queue.bytes_limit:
        return  # The put is refused even if the queue is empty.
    evicted, stuck = 0, set[bytes]()
    while evicted < EVICTED_MAX and len(stuck) < STUCK_MAX:
        leaving = list(_oldest(queue, context.tx, messages, bytes_, stuck))
        if not leaving:
            break
        for key, value in leaving:
            if len(stuck) >= STUCK_MAX or evicted >= EVICTED_MAX:
                break
            if _evict(context, make_dead_letter, queue, key, value):
                evicted += 1
            else:
                stuck.add(key)
    if evicted:
        context.mark_changed(queue)
        context.event("queue overflowed", evicted, queue=queue.name)


def _evict(
    context: Context, make_dead_letter: MakeDeadLetter, queue: Queue, key: bytes, value: bytes
) -> bool:
    """Evicts a message. Returns False if no dead-letter queue accepts the message."""
    if queue.bounds.overflow == "dead-letter-oldest":
        return bool(make_dead_letter(queue, key, value, Cause(ErrorCode.QUEUE_FULL)))
    entry = lane.remove(queue, context.tx, key, value)
    queue.record_history(history.REMOVED, key, entry, code=int(ErrorCode.QUEUE_FULL))
    queue.counters.count_purged()
    return True


def make_room_for_all(
    context: Context,
    make_dead_letter: MakeDeadLetter,
    queue: Queue,
    held: list[HeldPut],
    *,
    is_put: bool,
) -> None:
    """Makes room for a commit, which can no longer be refused.

    The caller calls this function before it appends the *held* puts, and again afterwards with
    *is_put*. If all other messages are leased, the second call evicts the oldest of these puts.
    """
    if queue.bounds.overflow == "refuse":
        return
    messages = size = 0
    if not is_put:
        messages, size = len(held), sum(len(one.prepared.record) for one in held)
    for _ in range(0, len(held), EVICTED_MAX):
        make_room(context, make_dead_letter, queue, messages, size)


def _oldest(
    queue: Queue, tx: Transaction, messages: int, bytes_: int, stuck: set[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the messages to evict, except *stuck* messages."""
    excess = queue.messages + messages - queue.bounds.depth_max
    excess_bytes = queue.counters.bytes + queue.uncommitted.bytes + bytes_ - queue.bytes_limit
    for key, value in islice(_from_the_least(queue, tx), EVICTED_MAX):
        if excess <= 0 and excess_bytes <= 0:
            return
        if key in stuck:
            continue
        yield key, value
        excess -= 1
        excess_bytes -= entries.record_bytes(entries.decode(value))


def _from_the_least(queue: Queue, tx: Transaction) -> Rows:
    """Yields the messages that may be evicted, in the order of eviction."""
    for priority, head in enumerate(queue.positions.ready):
        # Messages before the position are leased or belong to a stopped group.
        grouped_head = min(queue.positions.grouped[priority], queue.positions.stopped[priority])
        for key, value in order.of_priority(queue, tx, priority, head, grouped_head):
            arrival = keys.place(key)[1]
            if arrival not in queue.leases and not queue.is_lost(entries.decode(value), arrival):
                yield key, value
    for priority in range(keys.PRIORITY_TOP + 1) if queue.counters.delayed else ():
        prefix = keys.entry_prefix(queue.id, priority, keys.LANE_DELAYED)
        for key, value in tx.scan(prefix, keys.after(prefix)):
            if not queue.is_lost(entries.decode(value), keys.place(key)[1]):
                yield key, value
