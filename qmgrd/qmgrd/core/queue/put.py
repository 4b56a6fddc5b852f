"""Puts a batch on a queue: checks, identifies and appends each record, or refuses it alone.

Most records are plain: they belong to no group, have no delay or expiry and no UID yet, and are
short, and the queue has room. They go through one tight loop, in which a busy daemon spends most of
its time. Any other record is prepared, then appended. That does the same step by step, and finds
what is wrong; a test checks that both ways store the same bytes. A unit of work holds prepared
records until its commit (units.py, held_puts.py). It prepares plain ones in the same tight loop.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import EXTRA_DELAY_MS, EXTRA_EXPIRY_MS, EXTRA_NOTE
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue import lane, notes
from qmgrd.core.queue.dedup import UidVerdict
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.run import may_begin_run, put_run
from qmgrd.core.queue.put_errors import bytes_full, duplicate, full, too_large
from qmgrd.core.queue.queue import Queue

RUN_MAX_RECORDS = 256  # given to the tight loop at once: to copy all that is left is quadratic
_HEAD = records.JOINED_HEAD
_PLAIN_MAX_BYTES = entries.INLINE_MAX_BYTES - records.UID_MAX_BYTES
_REST_CORRELATION_AT = (
    records.HEAD_BYTES - records.SUMMED_AT
)  # in the part that the checksum covers
_NEVER = bytes(8)
_NO_EXTRAS: Mapping[str, Any] = {}
_NO_EXTRAS_AT_ALL: Mapping[int, Mapping[str, Any]] = {}


class PutOutcome(NamedTuple):
    """The results of one put."""

    refused: list[tuple[int, RequestError]]  # index and reason
    stamped: list[list[int]]  # runs: index of the first, its timestamp, how many


class Prepared(NamedTuple):
    """A record that is checked and identified, with the fields of its entry."""

    record: bytes  # stamped
    trailer: bytes  # its encoded UID
    is_new: bool  # got its UID from this put
    verdict: UidVerdict
    priority: int
    put_us: int
    expires_ms: int  # store clock, 0 = never
    ready_ms: int  # store clock of the end of its delay, 0 = none
    volatile: bool
    target: bytes
    note: bytes = b""
    head: bytes = b""  # of its entry, if it is plain
    member: Member | None = None  # group and number


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
    """Appends the records of *batch*; returns why some are refused.

    Args:
        extras: by index, what a link sent along with a record.
    """
    refused: list[tuple[int, RequestError]] = []
    stamped: list[list[int]] = []
    bound_for = target.encode()
    message_max_bytes = queue.longest(message_max_bytes)
    plain_max = 0 if extras else plain_max_bytes(queue, batch, message_max_bytes)
    stamper.catch_up(now.wall_us)
    index = 0
    while index < len(batch):
        record = batch[index]
        if plain_max:
            run = batch[index : index + RUN_MAX_RECORDS]
            count = _put_run(queue, tx, now, stamper, run, plain_max, bound_for)
            if count:
                stamped.append([index, stamper.last_us - count + 1, count])
                index += count
                continue
        try:
            extra = extras.get(index, _NO_EXTRAS)
            prepared = prepare(queue, tx, now, stamper, record, message_max_bytes, bound_for, extra)
            append(queue, tx, prepared, queue.next_arrival())
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
) -> int:
    """Appends the first records of *batch* in a tight loop; returns how many, 0 if it cannot."""
    if looks_plain(queue, batch[0]):
        return _put_plain(queue, tx, now, stamper, batch, plain_max, bound_for)
    if may_begin_run(batch[0]) and not queue.is_transmission:
        return put_run(queue, tx, now, stamper, batch, plain_max)
    return 0


def _put_plain(
    queue: Queue,
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    batch: list[bytes],
    plain_max: int,
    bound_for: bytes,
) -> int:
    """Appends the first records of *batch* up to one that is not plain; returns how many."""
    rows: list[tuple[bytes, bytes]] = []
    uids: list[tuple[bytes, bytes]] = []
    counters, add_row, add_uid = queue.counters, rows.append, uids.append
    head = entries.encode_head(now.wall_us, bound_for)
    index_prefix, position_at = queue.origins.index_prefix(bound_for), keys.POSITION_AT
    arrival = counters.next_arrival
    size = 0
    for prefix, stamp, rest, trailer, correlation in _plain(queue, stamper, batch, plain_max):
        key = prefix + arrival.to_bytes(8, "big")
        arrival += 1
        add_row((key, b"".join((head, stamp, rest, trailer))))
        add_uid((index_prefix + trailer, key[position_at:]))
        if correlation:
            queue.index_correlation(
                tx, rest[_REST_CORRELATION_AT : _REST_CORRELATION_AT + correlation], key
            )
        size += len(rest)
    count = arrival - counters.next_arrival
    if count:
        tx.put_all(rows)
        tx.put_all(uids)
        tx.rows_used += lane.ROWS_OF_A_PUT * count
        stamper.last_us += count
        queue.origins.raise_to(tx, stamper.origin, stamper.last_us)
        counters.skip_arrivals(arrival)
        counters.put_batch(count, size + count * (records.SUMMED_AT + len(trailer)))
        if queue.account is not None:
            queue.account.put(
                kind_of(queue),
                rows,
                arrival - count,
                stamper.origin,
                stamper.last_us - count + 1,
                len(head),
                bound_for.decode(),
            )
    return count


def _plain(
    queue: Queue, stamper: Stamper, batch: list[bytes], plain_max: int
) -> Iterator[tuple[bytes, bytes, bytes, bytes, int]]:
    """Yields the first records of *batch* up to one that is not plain, each with the next UID.

    Yields:
        Its key up to the arrival, three pieces of the stamped record (the checksum, the part that
        the checksum covers, the UID), and the length of its correlation id.
    """
    unpack, front, prefix_of = (
        _HEAD.unpack_from,
        records.CHECK.pack,
        queue.positions.plain_prefixes.get,
    )
    origin, timestamp = stamper.origin, stamper.last_us
    origin_bytes = len(origin)
    for record in batch:
        length = len(record)
        if not records.HEAD_BYTES <= length <= plain_max:
            return
        checksum, four, expiry_ms, correlation, group, envelope, body = unpack(record)
        rest, prefix = record[records.SUMMED_AT :], prefix_of(four)
        if (
            prefix is None
            or group
            or length != records.HEAD_BYTES + correlation + envelope + body
            or correlation > records.CORRELATION_MAX_BYTES
            or expiry_ms
            or crc32(rest) != checksum
        ):
            return
        timestamp += 1
        trailer = origin + timestamp.to_bytes(8, "big")
        yield prefix, front(crc32(trailer, checksum), origin_bytes), rest, trailer, correlation


def kind_of(queue: Queue) -> int:
    """Returns the kind of event that a put on *queue* is in its history."""
    return history.PUBLISHED if queue.is_publications else history.PUT


def plain_max_bytes(queue: Queue, batch: list[bytes], message_max_bytes: int) -> int:
    """Returns the longest plain record of *batch*; 0 if none is plain, or not all of it fits."""
    if queue.bounds.expiry_max_ms or not queue.has_room(len(batch), bytes_max(batch)):
        return 0
    return min(_PLAIN_MAX_BYTES, message_max_bytes)


def looks_plain(queue: Queue, record: bytes) -> bool:
    """Returns whether *record*, which may be malformed, may begin a tight loop."""
    return (
        record[records.ORIGIN_LENGTH_TO_FLAGS] in queue.positions.plain_prefixes
        and record[records.EXPIRY] == _NEVER
        and record[records.GROUP_FLAGS] == b"\0"
    )


def bytes_max(batch: list[bytes]) -> int:
    """Returns the most bytes that *batch* may have once all of it has UIDs."""
    return sum(map(len, batch)) + records.UID_MAX_BYTES * len(batch)


def prepare_plain(
    queue: Queue, now: Now, stamper: Stamper, batch: list[bytes], plain_max: int, bound_for: bytes
) -> list[Prepared]:
    """Prepares the first records of *batch* up to one that is not plain."""
    head = entries.encode_head(now.wall_us, bound_for)
    found = [
        Prepared(
            b"".join((stamp, rest, trailer)),
            trailer,
            True,
            UidVerdict.FAST,
            keys.PRIORITY_TOP - prefix[-1],
            now.wall_us,
            0,
            0,
            False,
            bound_for,
            b"",
            head,
        )
        for prefix, stamp, rest, trailer, _ in _plain(queue, stamper, batch, plain_max)
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
    """Prepares *record*, so that it can be appended; writes nothing.

    Args:
        is_moved: it comes from another queue: its number in its group is not checked.
        is_held: its unit's commit evicts other messages for it, if the queue's policy allows that.

    Raises:
        RequestError: the record is refused.
    """
    found = records.check(record)
    size = records.own_bytes(record)
    if size > message_max_bytes:
        raise too_large(queue, size, message_max_bytes)
    trailer, verdict = _identify(queue, tx, now, stamper, record, found, bound_for)
    member = None if is_moved else member_of(queue, tx, record, found)
    makes_room = is_held and queue.bounds.overflow != "refuse"
    has_room = queue.has_room_for_held if makes_room else queue.has_room
    if not has_room(1, 0):
        raise full(queue)
    if not has_room(1, len(record)):
        raise bytes_full(queue, len(record))
    is_new = not found.origin_length
    delay_ms = _ms_of(extra, EXTRA_DELAY_MS, records.delay_of(record, found))
    if is_new:
        record = records.stamp_encoded(record, trailer)
    return Prepared(
        record,
        trailer,
        is_new,
        verdict,
        queue.priority_of(found),
        now.wall_us,
        _expires_ms(queue, now, _ms_of(extra, EXTRA_EXPIRY_MS, found.expiry_ms)),
        now.ms + min(delay_ms, records.DELAY_MAX_MS) if delay_ms else 0,
        # A restart loses the references to such a publication, and with the last the publication.
        bool(found.flags & records.FLAG_NOT_PERSISTENT) and not queue.is_publications,
        bound_for,
        notes.checked(extra.get(EXTRA_NOTE, b"")),
        member=member,
    )


def member_of(queue: Queue, tx: Transaction, record: bytes, head: records.Head) -> Member | None:
    """Returns the group and number of *record* on *queue*; None if it has no group there.

    Raises:
        RequestError: as :meth:`Groups.check`.
    """
    if not head.group_flags or queue.is_transmission:
        return None
    at = records.HEAD_BYTES + head.correlation_length
    member = Member(*records.GROUP.unpack_from(record, at))
    queue.groups.check(tx, member, is_last=bool(head.group_flags & records.LAST_IN_GROUP))
    return member


def _ms_of(extra: Mapping[str, Any], key: str, otherwise: int) -> int:
    """Returns the time under *key* that a link sent along; *otherwise* if it sent none."""
    found = extra.get(key)
    return found if type(found) is int else otherwise


def _expires_ms(queue: Queue, now: Now, expiry_ms: int) -> int:
    cap_ms = queue.bounds.expiry_max_ms
    if cap_ms:
        expiry_ms = min(expiry_ms or cap_ms, cap_ms)
    return min(now.ms + expiry_ms, records.EXPIRY_END) if expiry_ms else 0


def append(queue: Queue, tx: Transaction, prepared: Prepared, arrival: int) -> None:
    """Stores a prepared record under that *arrival*."""
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
    queue.record_arrival(kind_of(queue), prepared.priority, arrival, entry, entry.target)
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
    """Returns the encoded UID of *record*, and how it was found to be new.

    Raises:
        RequestError: DUPLICATE_MESSAGE, DUPLICATE_UNCOMMITTED, or its UID is malformed.
    """
    if not head.origin_length:
        return stamper.next(now.wall_us), UidVerdict.FAST  # It is higher than any of this origin.
    records.uid_of(record, head.origin_length)
    trailer = record[records.TIMESTAMP_AT - head.origin_length :]
    stamper.observe(trailer, now.wall_us)
    if queue.is_uncommitted(trailer, bound_for):
        raise RequestError(
            ErrorCode.DUPLICATE_UNCOMMITTED,
            f"message {records.decode_uid(trailer)} is in a unit of work on queue {queue.name} "
            "that is not over yet",
            retry_after_ms=1_000,
        )
    verdict = queue.origins.check_uid(tx, trailer, bound_for)
    if verdict is UidVerdict.DUPLICATE:
        queue.counters.count_duplicate()
        raise duplicate(queue, tx, trailer, bound_for)
    return trailer, verdict
