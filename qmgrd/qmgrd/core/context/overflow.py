"""What a put does that meets a full queue which has its oldest messages make room.

The oldest of the lowest priority goes first, as it is worth least; what waits for its time only
where nothing else is left. What is leased stays, and what is to become a dead letter and cannot.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import TIMESTAMP
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue import lane, order
from qmgrd.core.queue.notes import Cause
from qmgrd.core.queue.order import Rows
from qmgrd.core.queue.put import Put, member_of
from qmgrd.core.queue.queue import Queue

if TYPE_CHECKING:
    from qmgrd.core.context.unit import Held
    from qmgrd.core.returns.dead_letters import DeadLetters

PUSHED_OUT_MAX = 1_000  # for one put
STUCK_MAX = 8  # so many have no place as dead letters: then no others are tried


def put(
    context: Context,
    dead_letters: "DeadLetters",
    queue: Queue,
    batch: list[bytes],
    target: str = "",
    extras: dict[int, Any] | None = None,
) -> Put:
    """Append the records of *batch* that can be, as :meth:`Queue.put`, having room made for them.

    Of a batch that is larger than the queue may be, the later ones push out the earlier.
    """
    limit = context.config.limits.message_max_bytes
    if queue.bounds.overflow == "refuse":
        return queue.put(
            context.tx, context.now, context.stamper, batch, limit, target, extras=extras
        )
    whole, at = Put([], [], 0), 0
    for piece in _pieces(context, queue, batch):
        if not queue.has_room(len(piece), bytes_of(context, piece)):
            new = [record for record in piece if _may_come(context, queue, record, target)]
            make_room(context, dead_letters, queue, len(new), bytes_of(context, new))
        told = {i - at: extra for i, extra in (extras or {}).items() if 0 <= i - at < len(piece)}
        done = queue.put(
            context.tx, context.now, context.stamper, piece, limit, target, extras=told
        )
        whole.refused.extend((at + index, error) for index, error in done.refused)
        whole.stamped.extend([at + index, stamp, count] for index, stamp, count in done.stamped)
        whole, at = whole._replace(rows=whole.rows + done.rows), at + len(piece)
    return whole


def _may_come(context: Context, queue: Queue, record: bytes, target: str) -> bool:
    """Return whether *record* is sound, and new here: else it is refused, and needs no room."""
    try:
        head = records.check(record)
        member_of(queue, context.tx, record, head)
    except RequestError:
        return False
    if records.own_bytes(record) > queue.longest(context.config.limits.message_max_bytes):
        return False
    trailer = record[-8 - head.origin_length :]
    return not head.origin_length or queue.is_new(context.tx, trailer, target.encode())


def bytes_of(context: Context, batch: list[bytes]) -> int:
    """Return how long the records of *batch* are once all have a UID."""
    trailer_bytes = len(context.stamper.origin) + TIMESTAMP.size
    return sum(len(record) + (0 if record[4:5] > b"\0" else trailer_bytes) for record in batch)


def _pieces(context: Context, queue: Queue, batch: list[bytes]) -> Iterator[list[bytes]]:
    """Yield *batch* in pieces that *queue* would hold if it were empty.

    A record that is longer than all of the queue may be is a piece by itself.
    """
    piece: list[bytes] = []
    size = 0
    for record in batch:
        more = bytes_of(context, [record])
        if piece and (
            len(piece) == min(queue.bounds.depth_max, PUSHED_OUT_MAX)
            or size + more > queue.bounds.bytes_max
        ):
            yield piece
            piece, size = [], 0
        piece.append(record)
        size += more
    yield piece


def make_room(
    context: Context, dead_letters: "DeadLetters", queue: Queue, messages: int, bytes_: int
) -> None:
    """Have the oldest leave *queue* where it has no room for so many more, if it is to."""
    bounds, overflow = queue.bounds, queue.bounds.overflow
    if overflow == "refuse" or queue.has_room(messages, bytes_):
        return
    if messages > bounds.depth_max or bytes_ > bounds.bytes_max:
        return  # It is refused, however empty the queue.
    pushed_out, stuck = 0, set[bytes]()
    while pushed_out < PUSHED_OUT_MAX and len(stuck) < STUCK_MAX:
        leaving = list(_oldest(queue, context.tx, messages, bytes_, stuck))
        if not leaving:
            break
        for key, value in leaving:
            if len(stuck) >= STUCK_MAX or pushed_out >= PUSHED_OUT_MAX:
                break
            if _goes(context, dead_letters, queue, key, value):
                pushed_out += 1
            else:
                stuck.add(key)
    if pushed_out:
        context.touch(queue)
        context.rows += 3 * pushed_out
        context.event("queue overflowed", pushed_out, queue=queue.name)


def _goes(
    context: Context, dead_letters: "DeadLetters", queue: Queue, key: bytes, value: bytes
) -> bool:
    """Have one leave; return whether it did: a dead letter may have no place."""
    if queue.bounds.overflow == "dead-letter-oldest":
        return bool(dead_letters.bury(queue, key, value, Cause(ErrorCode.QUEUE_FULL)))
    entry = lane.remove(queue, context.tx, key, value)
    queue.happened(history.REMOVED, key, entry, code=int(ErrorCode.QUEUE_FULL))
    context.rows += entries.body_rows(entry)
    queue.counters.purged += 1
    return True


def make_room_for_all(
    context: Context, dead_letters: "DeadLetters", queue: Queue, held: "list[Held]", *, is_put: bool
) -> None:
    """As :func:`make_room`, for a commit, which is not refused any more.

    Where all else is leased, the oldest of what was *held* itself goes once it *is_put*.
    """
    if queue.bounds.overflow == "refuse":
        return
    messages = size = 0
    if not is_put:
        messages, size = len(held), sum(len(one.prepared.record) for one in held)
    for _ in range(0, len(held), PUSHED_OUT_MAX):
        make_room(context, dead_letters, queue, messages, size)


def _oldest(
    queue: Queue, tx: Transaction, messages: int, bytes_: int, stuck: set[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield what has to go, but what is *stuck*."""
    excess = queue.messages + messages - queue.bounds.depth_max
    excess_bytes = queue.counters.bytes + queue.held_bytes + bytes_ - queue.bounds.bytes_max
    for key, value in islice(_from_the_least(queue, tx), PUSHED_OUT_MAX):
        if excess <= 0 and excess_bytes <= 0:
            return
        if key in stuck:
            continue
        yield key, value
        excess -= 1
        excess_bytes -= entries.record_bytes(entries.decode(value))


def _from_the_least(queue: Queue, tx: Transaction) -> Rows:
    """Yield what may go, in the order in which it does."""
    for priority, head in enumerate(queue.heads):
        # What lies before the position is leased, or of a stopped group.
        grouped_head = min(queue.grouped_heads[priority], queue.stopped_heads[priority])
        for key, value in order.of_priority(queue, tx, priority, head, grouped_head):
            arrival = keys.place(key)[1]
            if arrival not in queue.leases and not queue.is_lost(entries.decode(value), arrival):
                yield key, value
    for priority in range(keys.PRIORITY_TOP + 1) if queue.counters.delayed else ():
        prefix = keys.entry_prefix(queue.id, priority, keys.LANE_DELAYED)
        for key, value in tx.scan(prefix, keys.after(prefix)):
            if not queue.is_lost(entries.decode(value), keys.place(key)[1]):
                yield key, value
