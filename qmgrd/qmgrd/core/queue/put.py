"""Putting a batch on a queue: each record is checked, identified and appended, or refused alone.

Most records are plain: in no group, without a time, not stamped yet, short, and there is room. They
go through one tight loop, which is what a busy daemon spends its time in. Every other one is
prepared, then appended, which does the same step by step and says what is wrong; a test holds the
two to the same bytes. Between the two steps a unit of work may hold it (units.py): then plain ones
are prepared in the same loop, and appended with the rest in another.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

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
from qmgrd.core.queue.dedup import Verdict
from qmgrd.core.queue.group.hold import Member
from qmgrd.core.queue.group.run import looks_like_a_run, put_run
from qmgrd.core.queue.put_refusal import bytes_full, duplicate, full, too_large, uid_text

if TYPE_CHECKING:
    from qmgrd.core.context.unit import Held
    from qmgrd.core.queue.queue import Queue

RUN_MAX_RECORDS = 256  # copied for the tight loop: all that is left each time would be quadratic
# The head of a record, the four bytes from origin_length to flags in one piece.
_HEAD = struct.Struct(">I4sQBBHI")
_PLAIN_MAX_BYTES = entries.INLINE_MAX_BYTES - records.UID_MAX_BYTES
_FRONT = struct.Struct(">IB")
_REST_CORRELATION_AT = records.HEAD_BYTES - records.SUMMED_AT  # in what the checksum covers
_NEVER = bytes(8)
_NO_EXTRAS: Mapping[str, Any] = {}
_NO_EXTRAS_AT_ALL: Mapping[int, Mapping[str, Any]] = {}


class Put(NamedTuple):
    """What became of the records of one put."""

    refused: list[tuple[int, RequestError]]  # index and why
    stamped: list[list[int]]  # runs: index of the first, its timestamp, how many
    rows: int


class Prepared(NamedTuple):
    """A record that can be put: checked, identified, with what becomes of it worked out."""

    record: bytes  # stamped
    trailer: bytes  # its encoded UID
    is_new: bool  # got its UID here
    verdict: Verdict
    priority: int
    put_us: int
    expires_ms: int  # store clock, 0 = never
    ready_ms: int  # store clock of when it can be got, 0 = at once
    volatile: bool
    target: bytes
    note: bytes = b""
    head: bytes = b""  # of the entry of a plain one
    member: Member | None = None  # which member of its group it is


def put(
    queue: "Queue",
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    batch: list[bytes],
    message_max_bytes: int,
    target: str = "",
    extras: Mapping[int, Mapping[str, Any]] = _NO_EXTRAS_AT_ALL,
) -> Put:
    """Append the records of *batch* that can be; tell of the others why not.

    Args:
        extras: by index, what a link says of a record beside it.
    """
    refused: list[tuple[int, RequestError]] = []
    stamped: list[list[int]] = []
    bound_for = target.encode()
    message_max_bytes = queue.longest(message_max_bytes)
    plain_max = 0 if extras else plain_max_bytes(queue, batch, message_max_bytes)
    stamper.catch_up(now.wall_us)
    index = rows = 0
    while index < len(batch):
        record = batch[index]
        if plain_max:
            run = batch[index : index + RUN_MAX_RECORDS]
            count, used = _put_run(queue, tx, now, stamper, run, plain_max, bound_for)
            if count:
                stamped.append([index, stamper.last_us - count + 1, count])
                rows += used
                index += count
                continue
        try:
            extra = extras.get(index, _NO_EXTRAS)
            prepared = prepare(queue, tx, now, stamper, record, message_max_bytes, bound_for, extra)
            rows += append(queue, tx, prepared, queue.next_arrival())
            if prepared.is_new:
                stamped.append([index, stamper.last_us, 1])
        except RequestError as error:
            queue.counters.refused += error.code != ErrorCode.DUPLICATE_MESSAGE
            refused.append((index, error))
        index += 1
    return Put(refused, stamped, rows)


def _put_run(
    queue: "Queue",
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    batch: list[bytes],
    plain_max: int,
    bound_for: bytes,
) -> tuple[int, int]:
    """Append the records that *batch* begins with in a tight loop, if they are for one."""
    if looks_plain(queue, batch[0]):
        return _put_plain(queue, tx, now, stamper, batch, plain_max, bound_for)
    if looks_like_a_run(batch[0]) and not queue.is_transmission:
        return put_run(queue, tx, now, stamper, batch, plain_max)
    return 0, 0


def _put_plain(
    queue: "Queue",
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    batch: list[bytes],
    plain_max: int,
    bound_for: bytes,
) -> tuple[int, int]:
    """Append the plain records that *batch* begins with; return their number, and their rows'."""
    rows: list[tuple[bytes, bytes]] = []
    uids: list[tuple[bytes, bytes]] = []
    counters, add_row, add_uid = queue.counters, rows.append, uids.append
    head = entries.encode_head(now.wall_us, bound_for)
    index_prefix, position_at = queue.origins.index_prefix(bound_for), keys.POSITION_AT
    arrival = counters.next_arrival
    size = indexed = 0
    for prefix, stamp, rest, trailer, correlation in _plain(queue, stamper, batch, plain_max):
        key = prefix + arrival.to_bytes(8, "big")
        arrival += 1
        add_row((key, b"".join((head, stamp, rest, trailer))))
        add_uid((index_prefix + trailer, key[position_at:]))
        if correlation:
            indexed += queue.index_correlation(
                tx, rest[_REST_CORRELATION_AT : _REST_CORRELATION_AT + correlation], key
            )
        size += len(rest)
    count = arrival - counters.next_arrival
    if count:
        tx.put_all(rows)
        tx.put_all(uids)
        stamper.last_us += count
        queue.origins.raise_to(tx, stamper.origin, stamper.last_us)
        counters.next_arrival = arrival
        counters.depth += count
        counters.bytes += size + count * (records.SUMMED_AT + len(trailer))
        counters.puts += count
        counters.fast += count
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
    return count, lane.ROWS_OF_A_PUT * count + indexed


def _plain(
    queue: "Queue", stamper: Stamper, batch: list[bytes], plain_max: int
) -> Iterator[tuple[bytes, bytes, bytes, bytes, int]]:
    """Yield the plain records that *batch* begins with, each under the next UID.

    Yields:
        Its key up to the arrival, three pieces of the stamped record (its checksum, what that
        covers, its UID), and how long its correlation id is.
    """
    unpack, front, prefix_of = _HEAD.unpack_from, _FRONT.pack, queue.plain_prefixes.get
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


def kind_of(queue: "Queue") -> int:
    """Return what a put on *queue* is in its history."""
    return history.PUBLISHED if queue.is_publications else history.PUT


def plain_max_bytes(queue: "Queue", batch: list[bytes], message_max_bytes: int) -> int:
    """Return how long a plain record of *batch* may be; 0 where none is, or not all fits."""
    if queue.bounds.expiry_max_ms or not queue.has_room(len(batch), bytes_max(batch)):
        return 0
    return min(_PLAIN_MAX_BYTES, message_max_bytes)


def looks_plain(queue: "Queue", record: bytes) -> bool:
    """Return whether it is worth to begin a tight loop with *record*, which may be anything."""
    return record[4:8] in queue.plain_prefixes and record[8:16] == _NEVER and record[17:18] == b"\0"


def bytes_max(batch: list[bytes]) -> int:
    """Return how long all of *batch* is at most, however long the UIDs that it gets."""
    return sum(map(len, batch)) + records.UID_MAX_BYTES * len(batch)


def prepare_plain(
    queue: "Queue", now: Now, stamper: Stamper, batch: list[bytes], plain_max: int, bound_for: bytes
) -> list[Prepared]:
    """Return the plain records that *batch* begins with ready to be appended, one after another."""
    head = entries.encode_head(now.wall_us, bound_for)
    found = [
        Prepared(
            b"".join((stamp, rest, trailer)),
            trailer,
            True,
            Verdict.FAST,
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
    queue: "Queue",
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
    """Return *record* ready to be appended; nothing is written.

    Args:
        is_moved: it was put elsewhere: a number that its group had here refuses it not.
        is_held: its unit's commit has others make room for it, if its queue is to have them go.

    Raises:
        RequestError: why it is refused.
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
    delay_ms = _told_ms(extra, EXTRA_DELAY_MS, records.delay_of(record, found))
    if is_new:
        record = records.stamp_encoded(record, trailer)
    return Prepared(
        record,
        trailer,
        is_new,
        verdict,
        queue.priority_of(found),
        now.wall_us,
        _expires_ms(queue, now, _told_ms(extra, EXTRA_EXPIRY_MS, found.expiry_ms)),
        now.ms + min(delay_ms, records.DELAY_MAX_MS) if delay_ms else 0,
        # A publication is there for as long as somebody has it: it is copies that are lost.
        bool(found.flags & records.FLAG_NOT_PERSISTENT) and not queue.is_publications,
        bound_for,
        notes.checked(extra.get(EXTRA_NOTE, b"")),
        member=member,
    )


def member_of(queue: "Queue", tx: Transaction, record: bytes, head: records.Head) -> Member | None:
    """Return which member of its group *record* becomes on *queue*; None where it is in none.

    Raises:
        RequestError: as :meth:`Groups.check`.
    """
    if not head.group_flags or queue.is_transmission:
        return None
    at = records.HEAD_BYTES + head.correlation_length
    member = Member(*records.GROUP.unpack_from(record, at))
    queue.groups.check(tx, member, is_last=bool(head.group_flags & records.LAST_IN_GROUP))
    return member


def _told_ms(extra: Mapping[str, Any], key: str, otherwise: int) -> int:
    """Return the time that a link tells of a record, if it is one."""
    told = extra.get(key)
    return told if type(told) is int else otherwise


def _expires_ms(queue: "Queue", now: Now, expiry_ms: int) -> int:
    cap_ms = queue.bounds.expiry_max_ms
    if cap_ms:
        expiry_ms = min(expiry_ms or cap_ms, cap_ms)
    return min(now.ms + expiry_ms, records.EXPIRY_END) if expiry_ms else 0


def append(queue: "Queue", tx: Transaction, prepared: Prepared, arrival: int) -> int:
    """Write what was prepared under that *arrival*; return how many rows that took."""
    record, trailer = prepared.record, prepared.trailer
    long = entries.rows_of(len(record))
    flags = entries.VOLATILE if prepared.volatile else entries.INLINE
    rest = record
    if long:
        flags |= entries.IN_ROWS
        rest = entries.write_rows(tx, queue.ids.next(), record, trailer)
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
    rows = lane.add(queue, tx, entry, record, trailer, prepared.priority, arrival)
    queue.came(kind_of(queue), prepared.priority, arrival, entry, entry.target)
    queue.origins.raise_to(tx, trailer[:-8], int.from_bytes(trailer[-8:], "big"))
    counters = queue.counters
    counters.puts += 1
    counters.fast += prepared.verdict is Verdict.FAST
    counters.slow += prepared.verdict is Verdict.SLOW
    return rows + long + bool(prepared.note)


def append_held(queue: "Queue", tx: Transaction, held: "Iterable[Held]") -> int:
    """Write what a unit of work *held* of *queue*; return how many rows that took."""
    counters, write, prefixes = queue.counters, tx.put, queue.prefixes
    count = size = rows = 0
    trailer = b""
    for _, prepared, place, index_key in held:
        arrival = place or queue.next_arrival()
        head, record = prepared.head, prepared.record
        if not head:
            rows += append(queue, tx, prepared, arrival)
            continue
        key = prefixes[prepared.priority] + arrival.to_bytes(8, "big")
        write(key, head + record)
        write(index_key, key[keys.POSITION_AT :])
        if correlation := record[records.CORRELATION_LENGTH_AT]:
            correlation_id = record[records.HEAD_BYTES : records.HEAD_BYTES + correlation]
            rows += queue.index_correlation(tx, correlation_id, key)
        trailer = prepared.trailer
        if queue.account is not None:
            _note_held(queue, key, head + record)
        queue.lower(prepared.priority, arrival)
        queue.tell_uid(trailer)
        count += 1
        size += len(record)
    if count:
        queue.origins.raise_to(tx, trailer[:-8], int.from_bytes(trailer[-8:], "big"))
        counters.depth += count
        counters.bytes += size
        counters.puts += count
        counters.fast += count
    return rows + lane.ROWS_OF_A_PUT * count


def _note_held(queue: "Queue", key: bytes, value: bytes) -> None:
    entry = entries.decode(value)
    queue.happened(kind_of(queue), key, entry, target=entry.target)


def _identify(
    queue: "Queue",
    tx: Transaction,
    now: Now,
    stamper: Stamper,
    record: bytes,
    head: records.Head,
    bound_for: bytes,
) -> tuple[bytes, Verdict]:
    """Return the encoded UID under which *record* may be put, and how that was found out.

    Raises:
        RequestError: DUPLICATE_MESSAGE, or what is wrong with the UID that it brings.
    """
    if not head.origin_length:
        return stamper.next(now.wall_us), Verdict.FAST  # Above all of this origin, wherever it is.
    records.uid_of(record, head.origin_length)
    trailer = record[-8 - head.origin_length :]
    stamper.observe(trailer, now.wall_us)
    if queue.held and queue.origins.index_key(trailer, bound_for) in queue.held:
        raise RequestError(
            ErrorCode.DUPLICATE_UNCOMMITTED,
            f"message {uid_text(trailer)} is in a unit of work on queue {queue.name} that is not "
            "over yet",
            retry_after_ms=1_000,
        )
    verdict = queue.origins.judge(tx, trailer, bound_for)
    if verdict is Verdict.DUPLICATE:
        queue.counters.duplicates += 1
        raise duplicate(queue, tx, trailer, bound_for)
    return trailer, verdict
