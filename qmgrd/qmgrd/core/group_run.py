"""Runs of members, put and taken: the next numbers of one group, each plain.

Most members are: without a time, a correlation id or a target, not stamped yet when they are put,
short, and right behind those that came before. They go through the tight loops here, as messages of
no group go through those of put.py and take.py; every other goes step by step, to the same bytes.
"""

import struct
from typing import TYPE_CHECKING

from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.messages import DELIVERY, STATE_TAKEN_OVER
from qmgrd.core import entry as entries
from qmgrd.core import keys, lane
from qmgrd.core.group_admission import NO_GROUP
from qmgrd.core.hold import Hold, Member
from qmgrd.core.ids import COUNT_BITS, MARK_SHIFT
from qmgrd.core.kv import Now, Transaction
from qmgrd.core.lease import Consumer, Lease
from qmgrd.core.order import Rows
from qmgrd.core.stamp import Stamper
from qmgrd.core.take import DELIVER_MAX_BYTES, state_of

if TYPE_CHECKING:
    from qmgrd.core.queue import Queue

# The head of a record, the four bytes from origin_length to flags in one piece, and its group.
_PUT = struct.Struct(">I4sQHHI24sI")
_PUT_BYTES = _PUT.size
_OF_A_GROUP = (records.IN_GROUP, records.IN_GROUP | records.LAST_IN_GROUP)  # no correlation id
# The head of an entry, and that of the record behind it where there is no target, with its group.
_TAKE = struct.Struct(">xBxBHHQQQIB11xHHI24sI")
_RECORD_AT = entries.HEAD_BYTES
_SUMMED_AT = _RECORD_AT + records.SUMMED_AT
_LEAST_BYTES = _TAKE.size + records.TIMESTAMP.size
ROWS_OF_A_PUT = lane.ROWS_OF_A_PUT + 1


def looks_like_a_run(record: bytes) -> bool:
    """Return whether it is worth to begin with *record*, which may be anything."""
    return record[17:18] in b"\1\3" and record[16:17] == b"\0" and len(record) >= _PUT_BYTES


def put_run(
    queue: "Queue", tx: Transaction, now: Now, stamper: Stamper, batch: list[bytes], plain_max: int
) -> tuple[int, int]:
    """Append the members that *batch* begins with, if they are a run; return how many, and rows.

    They are of one group and come behind all that ever came of it: so none is there, or was.
    """
    groups, group_id = queue.groups, batch[0][records.HEAD_BYTES : _PUT_BYTES - 4]
    number = groups.next_to_put(tx, group_id)
    is_near_end = number + len(batch) > records.GROUP_NUMBER_MAX
    if not number or is_near_end or queue.seeking or group_id == NO_GROUP:
        return 0, 0
    counters, first = queue.counters, number
    rows: list[tuple[bytes, bytes]] = []
    uids: list[tuple[bytes, bytes]] = []
    members: list[tuple[bytes, bytes]] = []
    add_row, add_uid, add_member = rows.append, uids.append, members.append
    unpack, head = _PUT.unpack_from, entries.encode_head(now.wall_us)
    index_prefix, origin = queue.origins.index_prefix(), stamper.origin
    group_prefix = keys.group(queue.id, group_id, 0)[:-4]
    prefix_of, timestamp, arrival, size = (
        queue.plain_grouped.get, stamper.last_us, counters.next_arrival, 0,
    )  # fmt: skip
    front, is_last = records.CHECK.pack, False
    for record in batch:
        if is_last or not _PUT_BYTES <= len(record) <= plain_max:
            break
        checksum, four, expiry_ms, flags, envelope, body, found, at = unpack(record)
        prefix, rest = prefix_of(four), record[records.SUMMED_AT :]
        if (found != group_id or at != number or flags not in _OF_A_GROUP or prefix is None
                or expiry_ms or len(record) != _PUT_BYTES + envelope + body
                or crc32(rest) != checksum):  # fmt: skip
            break
        timestamp += 1
        trailer = origin + timestamp.to_bytes(8, "big")
        key = prefix + arrival.to_bytes(8, "big")
        position = key[keys.POSITION_AT :]
        stamp = front(crc32(trailer, checksum), len(origin))
        add_row((key, b"".join((head, stamp, rest, trailer))))
        add_uid((index_prefix + trailer, position))
        add_member((group_prefix + number.to_bytes(4, "big"), position))
        is_last = flags == _OF_A_GROUP[1]
        number, arrival, size = number + 1, arrival + 1, size + len(record)
    count = number - first
    if count:
        for found in (rows, uids, members):
            tx.put_all(found)
        groups.enter_run(tx, group_id, counters.next_arrival, count, now.wall_us, is_last=is_last)
        _count(queue, tx, stamper, count, size)
    return count, ROWS_OF_A_PUT * count


def _count(queue: "Queue", tx: Transaction, stamper: Stamper, count: int, size: int) -> None:
    counters = queue.counters
    stamper.last_us += count
    queue.origins.raise_to(tx, stamper.origin, stamper.last_us)
    counters.next_arrival += count
    counters.depth += count
    counters.grouped += count
    counters.bytes += size + count * (len(stamper.origin) + records.TIMESTAMP.size)
    counters.puts += count
    counters.fast += count


def take_run(
    queue: "Queue", tx: Transaction, now: Now, consumer: Consumer, group_id: bytes, hold: Hold,
    number: int, count: int, items: list[bytes], size: int, frame_bytes: int,
) -> tuple[int, int]:  # fmt: skip
    """Lease the next members of a group to *consumer* while they are plain, from *number* on.

    Args:
        size: the bytes of all records in *items*, which have *frame_bytes* in all.

    Returns:
        The number behind them, and the bytes of all *items*.
    """
    leases, lessee, holds = queue.leases, consumer.lessee, queue.groups.holds
    own, leased, out, mark = lessee.leases, holds.leased, hold.out, queue.ids.leases(count)
    deadline_ms, maybe_before = now.ms + consumer.lease_ms, queue.counters.maybe_before
    index_prefix = queue.origins.index_prefix()
    room = DELIVER_MAX_BYTES + size + DELIVERY.size * len(items) - frame_bytes
    place, unpack = keys.unpack_place, _TAKE.unpack_from
    pack_item, new, add = DELIVERY.pack, tuple.__new__, items.append
    told = 0 if hold.is_told else STATE_TAKEN_OVER
    start, stop, credit, least = 0, number + count - len(items), consumer.credit_bytes, _LEAST_BYTES
    while start != number:
        start = number
        for key, value in _beside(queue, tx, group_id, number):
            rank, arrival = place(key)
            if arrival in leases or number == stop or size >= credit or len(value) <= least:
                return number, size
            (flags, target, delivered, failed, put_us, expires_ms, due_ms, checksum, origin,
             in_group, envelope, body, found, at) = unpack(value)  # fmt: skip
            if at != number or found != group_id:
                break  # Another's; or its group stands elsewhere in its record.
            if (flags or target or expires_ms or due_ms or in_group not in _OF_A_GROUP
                    or len(value) != least + envelope + body + origin
                    or crc32(value[_SUMMED_AT:]) != checksum):  # fmt: skip
                return number, size
            record = value[_RECORD_AT:]
            length = len(record)
            if size + length > room and items:
                return number, size
            handle = checksum >> MARK_SHIFT << COUNT_BITS | mark
            priority = keys.PRIORITY_TOP - rank
            lease = (handle, lessee, deadline_ms, priority, arrival, length, key,
                     index_prefix + value[-8 - origin :], True)  # fmt: skip
            leases[arrival] = own[arrival] = new(Lease, lease)
            leased[arrival] = new(Member, (group_id, number))
            out[number] = arrival
            state, told = state_of(delivered, arrival, maybe_before) | told, 0
            head = pack_item(priority, arrival, handle, delivered, failed, state, put_us)
            add(head + record)
            size, mark, number = size + length, mark + 1, number + 1
    return number, size


def _beside(queue: "Queue", tx: Transaction, group_id: bytes, number: int) -> Rows:
    """Return key and entry of a member that can be got, and of what lies behind it.

    What was put in one go lies side by side, and needs no look into the index: where the next
    member does not, its entry is all.
    """
    get, index = tx.get, keys.group(queue.id, group_id, 0)[:-4]
    position = get(index + number.to_bytes(4, "big"))
    if position is None or position[0] != keys.LANE_GROUPED:
        return iter(())
    key = keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position
    beside = int.from_bytes(position, "big") + 1
    if get(index + (number + 1).to_bytes(4, "big")) != beside.to_bytes(len(position), "big"):
        return iter([(key, get(key) or b"")])
    return tx.scan(key, keys.after(keys.lane(queue.id, keys.LANE_GROUPED)))
