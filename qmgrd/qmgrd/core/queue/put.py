"""Puts a batch on a queue: checks, identifies and appends each record, or refuses the record.

Most records are plain: they are short, have no group, delay or expiry, and fit in the queue. Tight
loops append plain records (plain.py).

Any other record is first prepared and then appended, step by step. This path also finds the reason
for refusing a record. A test checks that both paths store the same bytes.

A unit of work holds prepared records until its commit (units.py, held_puts.py). It prepares plain
records in the same tight loop.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import EXTRA_DELAY_MS, EXTRA_EXPIRY_MS, EXTRA_NOTE
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys, long_record
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue import lane, notes, plain
from qmgrd.core.queue.dedup import UidVerdict
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.run import may_begin_run, put_run
from qmgrd.core.queue.put_errors import (
    duplicate_error,
    message_too_large_error,
    queue_bytes_full_error,
    queue_full_error,
)
from qmgrd.core.queue.queue import Queue

# Maximum number of records per call of the tight loop. Copying all remaining records would be
# quadratic.
RUN_MAX_RECORDS = 256
_NO_EXTRAS: Mapping[str, Any] = {}
_NO_EXTRAS_AT_ALL: Mapping[int, Mapping[str, Any]] = {}


class PutOutcome(NamedTuple):
    """The results of one put."""

    refused: list[tuple[int, RequestError]]  # the index and error of each refused record
    # Runs of stored records: first index, first timestamp, number of records.
    stamped: list[list[int]]


class Prepared(NamedTuple):
    """A record that was checked and has a UID, and the fields of its entry."""

    record: bytes  # the record with its UID
    trailer: bytes  # the encoded UID
    is_new: bool  # whether this put assigned the UID
    verdict: UidVerdict
    priority: int
    put_us: int
    expires_ms: int  # the store clock time of the expiry; 0 means never
    ready_ms: int  # the store clock time at which the delay ends; 0 means no delay
    volatile: bool
    target: bytes
    note: bytes = b""
    head: bytes = b""  # the head of the entry of a plain record
    member: Member | None = None  # the group and the number in it


def put(
    queue: Queue,
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    batch: list[bytes],
    message_max_bytes: int,
    target: str = "",
    extras: Mapping[int, Mapping[str, Any]] = _NO_EXTRAS_AT_ALL,
) -> PutOutcome:
    """Appends the records of *batch*, or refuses them one by one.

    Args:
        queue: The queue that receives the records.
        tx: The transaction of the turn.
        now: The time of the turn.
        stamper: The source of new UIDs.
        batch: The records, with or without UIDs.
        message_max_bytes: The size limit of a message.
        target: The destination queue of the records on a transmission queue.
        extras: The additional fields that a link sent with a record, by index of the record.
    """
    refused: list[tuple[int, RequestError]] = []
    stamped: list[list[int]] = []
    bound_for = target.encode()
    message_max_bytes = queue.longest(message_max_bytes)
    plain_max = 0 if extras else plain.plain_max_bytes(queue, batch, message_max_bytes)
    stamper.catch_up(now.wall_us)
    index = 0
    while index < len(batch):
        record = batch[index]
        if plain_max:
            run, before_us = batch[index : index + RUN_MAX_RECORDS], stamper.last_us
            count = _put_run(queue, tx, now, stamper, run, plain_max, bound_for, refused, index)
            if count:
                if stamper.last_us > before_us:  # The records had no UIDs.
                    stamped.append([index, before_us + 1, count])
                index += count
                continue
        try:
            extra = extras.get(index, _NO_EXTRAS)
            prepared = prepare(queue, tx, now, stamper, record, message_max_bytes, bound_for, extra)
            append(queue, tx, prepared, queue.next_arrival(is_new=prepared.is_new))
            if prepared.is_new:
                stamped.append([index, stamper.last_us, 1])
        except RequestError as error:
            if error.code != ErrorCode.DUPLICATE_MESSAGE:
                queue.counters.count_refused()
            refused.append((index, error))
        index += 1
    return PutOutcome(refused, stamped)


def _put_run(
    queue: Queue,
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    batch: list[bytes],
    plain_max: int,
    bound_for: bytes,
    refused: list[tuple[int, RequestError]],
    index: int,
) -> int:
    """Appends the first records of *batch*, whose first *index* is given, in a tight loop.

    Returns their number, which may be 0, including duplicates, which are added to *refused*.
    """
    if plain.looks_plain(queue, batch[0]):
        return plain.put_plain(queue, tx, now, stamper, batch, plain_max, bound_for)
    if plain.looks_plain_with_uid(queue, stamper, batch[0]):
        return plain.put_plain_with_uids(
            queue, tx, now, batch, plain_max, bound_for, refused, index
        )
    if may_begin_run(batch[0]) and not queue.is_transmission:
        return put_run(queue, tx, now, stamper, batch, plain_max)
    return 0


def prepare_plain(
    queue: Queue, now: Now, stamper: Stamper, batch: list[bytes], plain_max: int, bound_for: bytes
) -> list[Prepared]:
    """Prepares the first plain records of *batch*."""
    head = entries.encode_head(now.wall_us, bound_for)
    found = [
        Prepared(
            b"".join((stamp, rest, trailer)),
            trailer,
            True,
            UidVerdict.FAST,
            keys.PRIORITY_TOP - prefix[keys.RANK_AT],
            now.wall_us,
            0,
            0,
            False,
            bound_for,
            b"",
            head,
        )
        for prefix, stamp, rest, trailer, _ in plain.plain_records(queue, stamper, batch, plain_max)
    ]
    stamper.last_us += len(found)
    return found


def prepare(
    queue: Queue,
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    record: bytes,
    message_max_bytes: int,
    bound_for: bytes,
    extra: Mapping[str, Any] = _NO_EXTRAS,
    *,
    is_held: bool = False,
    is_moved: bool = False,
) -> Prepared:
    """Prepares *record* for an append without writing to the store.

    Args:
        queue: The queue that will receive the record.
        tx: The transaction of the turn.
        now: The time of the turn.
        stamper: The source of new UIDs.
        record: The record, with or without a UID.
        message_max_bytes: The size limit of a message.
        bound_for: The destination queue of the record on a transmission queue.
        extra: The additional fields that a link sent with the record, of the right types.
        is_held: Whether a unit of work holds the record. Its commit then evicts other messages, if
            the overflow policy of the queue allows eviction.
        is_moved: Whether the record comes from another queue. Its group number is then not checked.

    Raises:
        RequestError: The record is refused.
    """
    found = long_record.check(record)
    size = records.own_bytes(record)
    if size > message_max_bytes:
        raise message_too_large_error(queue, size, message_max_bytes)
    trailer, verdict = _identify(queue, tx, now, stamper, record, found, bound_for)
    member = None if is_moved else member_of(queue, tx, record, found)
    makes_room = is_held and queue.bounds.overflow != "refuse"
    has_room = queue.has_room_for_held if makes_room else queue.has_room
    if not has_room(1, 0):
        raise queue_full_error(queue)
    if not has_room(1, len(record)):
        raise queue_bytes_full_error(queue, len(record))
    is_new = not found.origin_length
    delay_ms = _ms_of(extra, EXTRA_DELAY_MS, records.delay_of(record, found))
    if is_new:
        record = long_record.stamped(record, trailer)
    return Prepared(
        record,
        trailer,
        is_new,
        verdict,
        queue.priority_of(found),
        now.wall_us,
        _expires_ms(queue, now, _ms_of(extra, EXTRA_EXPIRY_MS, found.expiry_ms)),
        now.ms + min(delay_ms, records.DELAY_MAX_MS) if delay_ms else 0,
        # A restart loses the references to such a publication. The publication is deleted with its
        # last reference.
        bool(found.flags & records.FLAG_NOT_PERSISTENT) and not queue.is_publications,
        bound_for,
        extra.get(EXTRA_NOTE, b""),
        member=member,
    )


def member_of(queue: Queue, tx: Transaction, record: bytes, head: records.Head) -> Member | None:
    """Returns *record* as a member of its group on *queue*, or None if it has no group there.

    Raises:
        RequestError: The group refuses the member. See :meth:`Groups.check`.
    """
    if not head.group_flags or queue.is_transmission:
        return None
    at = records.HEAD_BYTES + head.correlation_length
    member = Member(*records.GROUP.unpack_from(record, at))
    queue.groups.check(tx, member, is_last=bool(head.group_flags & records.LAST_IN_GROUP))
    return member


def _ms_of(extra: Mapping[str, Any], key: str, otherwise: int) -> int:
    """Returns the time under *key* that a link sent, or *otherwise* if the link sent none."""
    found = extra.get(key)
    return found if type(found) is int else otherwise


def _expires_ms(queue: Queue, now: Now, expiry_ms: int) -> int:
    cap_ms = queue.bounds.expiry_max_ms
    if cap_ms:
        expiry_ms = min(expiry_ms or cap_ms, cap_ms)
    return min(now.ms + expiry_ms, records.EXPIRY_END) if expiry_ms else 0


def append(queue: Queue, tx: Transaction, prepared: Prepared, arrival: int) -> None:
    """Stores a prepared record under the arrival number *arrival*."""
    record, trailer = prepared.record, prepared.trailer
    flags = entries.VOLATILE if prepared.volatile else entries.INLINE
    rest = record
    if entries.rows_of(len(record)):
        flags |= entries.IN_ROWS
        rest = entries.write_rows(tx, queue.shared.ids.next(), record, trailer)
    if prepared.note:
        flags |= entries.NOTED
        notes.write(tx, queue.id, arrival, prepared.note)
    entry = entries.Entry(
        flags,
        0,
        0,
        0,
        prepared.put_us,
        prepared.expires_ms,
        prepared.ready_ms,
        prepared.target.decode(),
        rest,
    )
    lane.add(queue, tx, entry, record, trailer, prepared.priority, arrival)
    queue.record_arrival(plain.kind_of(queue), prepared.priority, arrival, entry, entry.target)
    queue.origins.raise_to(
        tx, trailer[records.UID_ORIGIN], int.from_bytes(trailer[records.UID_TIMESTAMP], "big")
    )
    queue.counters.count_put(is_fast=prepared.verdict is UidVerdict.FAST)
    tx.rows_used += bool(prepared.note)


def _identify(
    queue: Queue,
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    record: bytes,
    head: records.Head,
    bound_for: bytes,
) -> tuple[bytes, UidVerdict]:
    """Returns the encoded UID of *record*, and the verdict by which it is new.

    Raises:
        RequestError: DUPLICATE_MESSAGE if the UID exists or is remembered. DUPLICATE_UNCOMMITTED if
            an open unit of work holds the UID. RECORD_MALFORMED if the UID is malformed.
    """
    if not head.origin_length:
        # A new UID is higher than all others of its origin.
        return stamper.next(now.wall_us), UidVerdict.FAST
    records.uid_of(record, head.origin_length)
    trailer = record[records.TIMESTAMP_AT - head.origin_length :]
    stamper.observe(trailer, now.wall_us)
    if queue.is_uncommitted(trailer, bound_for):
        raise RequestError(
            ErrorCode.DUPLICATE_UNCOMMITTED,
            f"message {records.decode_uid(trailer)} is in an open unit of work on queue "
            f"{queue.name}",
            retry_after_ms=1_000,
        )
    verdict = queue.origins.check_uid(tx, trailer, bound_for)
    if verdict is UidVerdict.DUPLICATE:
        queue.counters.count_duplicate()
        raise duplicate_error(queue, tx, trailer, bound_for)
    return trailer, verdict
