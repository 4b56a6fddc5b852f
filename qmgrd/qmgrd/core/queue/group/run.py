"""Puts and leases runs of plain members, which have consecutive numbers in one group.

Most members are plain: they are short, follow the previous member, and have no delay, expiry,
correlation id, target or, before the put, UID. The tight loops of this module process plain
members, like the loops of put.py and take.py for ungrouped messages. Other members are processed
step by step, with the same result. Each of these members is a run of length one in the index
(queue/group/index.py).
"""

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.messages import DELIVERY, STATE_TAKEN_OVER
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.admission import NO_GROUP
from qmgrd.core.queue.group.held_groups import HeldGroup
from qmgrd.core.queue.lease import Consumer, Lease
from qmgrd.core.queue.lease_number import COUNT_BITS, IN_BLOCK, NO_TAGS
from qmgrd.core.queue.order import Rows
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.take import state_of

_PUT = records.GROUPED_HEAD
_PUT_BYTES = _PUT.size
# The bytes of the correlation id length and group flags in a member without a correlation id.
_OF_A_GROUP = (records.IN_GROUP, records.IN_GROUP | records.LAST_IN_GROUP)
_TAKE = entries.GROUPED_HEADS
_RECORD_AT = entries.HEAD_BYTES
_PLAIN = entries.PLAIN
_SUMMED_AT = _RECORD_AT + records.SUMMED_AT
_LEAST_BYTES = _TAKE.size + records.TIMESTAMP.size


def may_begin_run(record: bytes) -> bool:
    """Returns whether *record*, which may be malformed, may begin a run."""
    return (
        record[records.GROUP_FLAGS] in b"\1\3"
        and record[records.CORRELATION_LENGTH] == b"\0"
        and len(record) >= _PUT_BYTES
    )


def put_run(
    queue: Queue, tx: Transaction, now: Now, stamper: Stamper, batch: list[bytes], plain_max: int
) -> int:
    """Appends the run of members at the start of *batch*. Returns the number of members.

    All members of a run have the same group and priority. Their numbers are above all earlier
    numbers of the group, so no member can be a duplicate.
    """
    groups, unpack = queue.groups, _PUT.unpack_from
    # The kind is the bytes of the record up to the flags.
    _, kind, _, _, _, _, group_id, _ = unpack(batch[0])
    number = groups.next_to_put(tx, group_id)
    is_near_end = number + len(batch) > records.GROUP_NUMBER_MAX
    head = entries.encode_head(now.wall_us)
    prefix = queue.positions.plain_grouped.get(kind)
    if not number or is_near_end or queue.waiting.seeking or group_id == NO_GROUP or prefix is None:
        return 0
    counters, first = queue.counters, number
    rows: list[tuple[bytes, bytes]] = []
    uids: list[tuple[bytes, bytes]] = []
    add_row, add_uid = rows.append, uids.append
    index_prefix, origin = queue.origins.index_prefix(), stamper.origin
    timestamp, arrival, size = stamper.last_us, counters.next_arrival, 0
    front, is_last, is_indexed = records.CHECK.pack, False, not queue.needs_no_rows
    for record in batch:
        if is_last or not _PUT_BYTES <= len(record) <= plain_max:
            break
        checksum, four, expiry_ms, flags, envelope, body, found, at = unpack(record)
        rest = record[records.SUMMED_AT :]
        if (
            found != group_id
            or at != number
            or flags not in _OF_A_GROUP
            or four != kind
            or expiry_ms
            or len(record) != _PUT_BYTES + envelope + body
            or crc32(rest) != checksum
        ):
            break
        timestamp += 1
        trailer = origin + timestamp.to_bytes(8, "big")
        key = prefix + arrival.to_bytes(8, "big")
        stamp = front(crc32(trailer, checksum), len(origin))
        add_row((key, b"".join((head, stamp, rest, trailer))))
        if is_indexed:
            add_uid((index_prefix + trailer, key[keys.POSITION_AT :]))
        is_last = flags == _OF_A_GROUP[1]
        number, arrival, size = number + 1, arrival + 1, size + len(record)
    count = number - first
    if count:
        tx.put_all(rows)
        tx.put_all(uids)
        tx.rows_used += count + len(uids) + 1
        run = group_index.MemberRun(first, number - 1, rows[0][0][keys.POSITION_AT :])
        tx.put(*group_index.row(group_index.prefix_of(queue.id, group_id), run))
        groups.enter_run(tx, group_id, counters.next_arrival, count, now.wall_us, is_last=is_last)
        _count(queue, tx, stamper, count, size, unindexed=count - len(uids))
        if queue.account is not None:
            us = range(timestamp - count + 1, timestamp + 1)
            queue.account.put(history.PUT, rows, arrival - count, origin, us, len(head))
    return count


def _count(
    queue: Queue, tx: Transaction, stamper: Stamper, count: int, size: int, *, unindexed: int
) -> None:
    counters = queue.counters
    if unindexed:
        counters.include_next()
    stamper.last_us += count
    queue.origins.raise_to(tx, stamper.origin, stamper.last_us)
    counters.skip_arrivals(counters.next_arrival + count)
    size += count * (len(stamper.origin) + records.TIMESTAMP.size)
    counters.put_batch(count, size, grouped=count, unindexed=unindexed)


def take_run(
    queue: Queue,
    tx: Transaction,
    now: Now,
    consumer: Consumer,
    group_id: bytes,
    held_group: HeldGroup,
    number: int,
    count: int,
    items: list[bytes],
    size: int,
    frame_bytes: int,
) -> tuple[int, int]:
    """Leases members of a group, starting at *number*, while they are consecutive and plain.

    Args:
        queue: The queue of the group.
        tx: The transaction of the turn.
        now: The time of the turn.
        consumer: The consumer that receives the members.
        group_id: The id of the group.
        held_group: The group as the reader holds it.
        number: The number of the first member.
        count: The maximum length of *items*.
        items: The delivery items, to which the members are added.
        size: The bytes of all records in *items*.
        frame_bytes: The bytes of all *items*.

    Returns:
        The number after the leased members, and the bytes of all records in *items*.
    """
    leases, lessee, held_groups = queue.leases, consumer.lessee, queue.groups.held_groups
    own, leased, out, numbers = lessee.leases, held_groups.leased, held_group.out, lessee.numbers
    lease_count, tags, tags_last = numbers.next_count(), NO_TAGS, -1
    deadline_ms, maybe_before = now.ms + consumer.lease_ms, queue.counters.maybe_before
    index_prefix = queue.origins.index_prefix()
    room = consumer.frame_bytes + size + DELIVERY.size * len(items) - frame_bytes
    place, unpack = keys.unpack_place, _TAKE.unpack_from
    pack_item, new, add = DELIVERY.pack, tuple.__new__, items.append
    taken_over = 0 if held_group.is_delivered else STATE_TAKEN_OVER
    stop, credit, least = number + count - len(items), consumer.credit_bytes, _LEAST_BYTES
    there = -1
    for key, value in _beside(queue, tx, group_id, number):
        rank, arrival = place(key)
        if arrival in leases or number >= stop or size >= credit or len(value) <= least:
            break
        (
            version_and_flags,
            target,
            delivered,
            failed,
            put_us,
            expires_ms,
            due_ms,
            checksum,
            origin,
            in_group,
            envelope,
            body,
            found,
            at,
        ) = unpack(value)
        if at != number or found != group_id or arrival != there >= 0:
            # The row has another group, a gap in the arrival numbers, or a record with another
            # layout.
            break
        if (
            version_and_flags != _PLAIN
            or target
            or expires_ms
            or due_ms
            or in_group not in _OF_A_GROUP
            or len(value) != least + envelope + body + origin
            or crc32(value[_SUMMED_AT:]) != checksum
        ):
            break
        record = value[_RECORD_AT:]
        length = len(record)
        if size + length > room and items:
            break
        if arrival > tags_last:
            tags, tags_last = numbers.tags(queue.id, arrival), arrival | IN_BLOCK
        handle = tags[arrival & IN_BLOCK] ^ (checksum << COUNT_BITS | lease_count)
        priority = keys.PRIORITY_TOP - rank
        lease = (
            handle,
            lessee,
            deadline_ms,
            priority,
            arrival,
            length,
            key,
            index_prefix + value[records.TIMESTAMP_AT - origin :],
            True,
        )
        leases[arrival] = own[arrival] = new(Lease, lease)
        leased[arrival] = group_id, number
        out[number] = arrival
        state, taken_over = state_of(delivered, arrival, maybe_before) | taken_over, 0
        head = pack_item(priority, arrival, handle, delivered, failed, state, put_us)
        add(head + record)
        size, number, there = size + length, number + 1, arrival + 1
    return number, size


def _beside(queue: Queue, tx: Transaction, group_id: bytes, number: int) -> Rows:
    """Yields the key and entry of an available member, and the following rows if it is in a run."""
    run = group_index.run_at(tx, group_index.prefix_of(queue.id, group_id), number)
    if run is None or run.position[keys.LANE_AT] != keys.LANE_GROUPED:
        return iter(())
    key = keys.of_queue(keys.SPACE_MESSAGE, queue.id) + run.at(number)
    if run.last == number:
        return iter([(key, tx.get(key) or b"")])
    return tx.scan(key, keys.after(keys.lane(queue.id, keys.LANE_GROUPED)))
