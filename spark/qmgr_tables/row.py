"""A message as a row: the content of one key of the store in the columns of the schema."""

import json
from typing import Any, NamedTuple

from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError, name_of
from qmgr_protocol.record import CONTENT_TYPE, HEADERS, REPLY_TO
from qmgr_tables.options import DAMAGED, UNRANKED, Options
from qmgr_tables.partition import Run
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue import notes
from qmgrd.snapshot.finder import StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction

TIME_END_US = 253_402_300_800_000_000  # start of the year 10000


class Row(NamedTuple):
    """A message. The fields have the names and the order of the columns."""

    queue: str
    priority: int | None
    arrival: int
    message_id: str | None
    origin: str | None
    created_at: int | None  # time of creation, in microseconds since 1970
    put_at: int | None  # time of the put, in microseconds since 1970
    expires_at: int | None  # time of the expiry, in microseconds since 1970
    deliver_at: int | None  # time of the availability, in microseconds since 1970
    persistent: bool | None
    correlation_id: str | None
    headers: list[tuple[str, str | None]] | None
    reply_to: str | None
    content_type: str | None
    group_id: str | None
    group_number: int | None
    delivered: int | None
    failed: int | None
    state: str
    dead_code: str | None
    dead_reason: str | None
    dead_text: str | None
    dead_queue: str | None
    dead_manager: str | None
    dead_at: int | None  # time of the failure, in microseconds since 1970
    dead_delivered: int | None
    dead_failed: int | None
    dead_retries: int | None
    target: str | None
    body: bytes | None
    body_bytes: int | None
    queue_manager: str
    snapshot_id: str | None
    turn: int | None


# times of the put, the expiry and the availability; whether the message is persistent
Times = tuple[int | None, int | None, int | None, bool | None]
RowSource = tuple[str, str | None, int | None]  # queue manager, snapshot id, turn
NO_TIMES: Times = (None, None, None, None)
_DEAD_TEXTS = ("reason", "text", "queue", "manager")  # keys of the strings in a note
_NO_DEAD_LETTER = (None,) * sum(name.startswith("dead_") for name in Row._fields)


def read(
    tx: LmdbTransaction,
    key: bytes,
    value: bytes,
    run: Run,
    snapshot: StoredSnapshot,
    options: Options,
) -> Row | None:
    """Returns the message under *key*, or None if a restart lost the message.

    The unknown fields of a damaged message are null.
    """
    priority, arrival = keys.place(key)
    entry = entries.decode(value)
    if entry.volatile and any(first <= arrival < before for first, before in run.lost):
        return None
    source = snapshot.queue_manager, snapshot.id, snapshot.turn
    try:
        fields = records.decode(entries.record(tx, entry))
    except RequestError:
        known = entry.flags != entries.UNREADABLE
        return damaged(
            (run.queue, priority, arrival),
            _times(entry, run, snapshot) if known else NO_TIMES,
            (entry.delivered, entry.failed) if known else (None, None),
            entry.target,
            source,
        )
    note = notes.read(tx, run.queue_id, arrival) if entry.noted else {}
    return of_record(
        fields,
        (run.queue, _priority(run, priority, fields), arrival),
        _times(entry, run, snapshot),
        (entry.delivered, entry.failed, run.state),
        note,
        _target(tx, entry),
        source,
        options,
    )


def of_record(
    fields: records.Fields,
    place: tuple[str, int | None, int],
    times: Times,
    counts: tuple[int, int, str],
    note: notes.Note,
    target: str,
    source: RowSource,
    options: Options,
) -> Row:
    """Returns the row of the record with *fields*.

    Args:
        place: The queue, the priority and the arrival.
        counts: The number of deliveries, the number of failures, and the state.
    """
    uid, group, envelope, body = fields.uid, fields.group, fields.envelope, fields.body
    wanted = options.include_body and len(body) <= options.max_body_bytes
    return Row._make(
        (
            *place,
            None if uid is None else f"{uid.origin}.{uid.timestamp}",
            None if uid is None else uid.origin,
            None if uid is None else time_of(uid.timestamp),
            *times,
            text(fields.correlation_id) if fields.correlation_id else None,
            headers(envelope),
            text_under(envelope, REPLY_TO),
            text_under(envelope, CONTENT_TYPE),
            None if group is None else group[0].hex(),
            None if group is None else group[1],
            *counts,
            *_dead(note),
            target or None,
            body if wanted else None,
            len(body),
            *source,
        )
    )


def damaged(
    place: tuple[str, int, int],
    times: Times,
    counts: tuple[int | None, int | None],
    target: str,
    source: RowSource,
) -> Row:
    """Returns the row of a message whose record cannot be read."""
    return Row._make(
        (
            *place,
            None,
            None,
            None,
            *times,
            None,
            None,
            None,
            None,
            None,
            None,
            *counts,
            DAMAGED,
            *_NO_DEAD_LETTER,
            target or None,
            None,
            None,
            *source,
        )
    )


def _target(tx: LmdbTransaction, entry: entries.Entry) -> str:
    """Returns the destination of a message, or the topic of a publication."""
    held = entries.publication(tx, entry) if entry.shared else entry
    return held.target


def _priority(run: Run, priority: int, fields: records.Fields) -> int | None:
    """Returns the effective priority of a message, or None if a remote queue determines it."""
    return own_priority(fields) if run.kind in UNRANKED else priority


def own_priority(fields: records.Fields) -> int | None:
    """Returns the priority that the producer set, or None if the queue determines it."""
    return None if fields.flags & records.FLAG_PRIORITY_OF_QUEUE else fields.priority


def _times(entry: entries.Entry, run: Run, snapshot: StoredSnapshot) -> Times:
    """Returns the times of the put, expiry and availability, and whether it is persistent."""
    expires_ms, due_ms = entry.expires_ms, entry.due_ms
    is_awaited = run.lane == keys.LANE_DELAYED and (not expires_ms or due_ms < expires_ms)
    return (
        time_of(entry.put_us),
        _wall(expires_ms, snapshot) if expires_ms else None,
        _wall(due_ms, snapshot) if due_ms and is_awaited else None,
        not entry.volatile,
    )


def _wall(clock_ms: int, snapshot: StoredSnapshot) -> int | None:
    """Returns the wall-clock time at *clock_ms* of the store's clock."""
    return time_of(max(snapshot.wall_us + (clock_ms - snapshot.clock_ms) * 1_000, 0))


def _dead(note: notes.Note) -> tuple[Any, ...]:
    """Returns the values of a dead letter's columns.

    Another queue manager may have sent these values, so they are checked.
    """
    code = note.get("code")
    if type(code) is not int:
        return _NO_DEAD_LETTER
    retries = _count(note, "retries")
    us = note.get("us")
    return (
        name_of(code),
        *(text_under(note, name) or None for name in _DEAD_TEXTS),
        time_of(us) if type(us) is int and us >= 0 else None,
        _count(note, "delivered"),
        _count(note, "failed"),
        0 if retries is None else retries,
    )


def _count(note: notes.Note, name: str) -> int | None:
    found = note.get(name)
    return found if type(found) is int and 0 <= found < 1 << 31 else None


def text(data: bytes) -> str:
    """Returns *data* as text. Bytes that are not UTF-8 become \\x and two digits."""
    return data.decode("utf-8", "backslashreplace")


def headers(envelope: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Returns the producer's headers as pairs of text."""
    found = envelope.get(HEADERS)
    if type(found) is not dict:
        return []
    return [(_key(key), _value(value)) for key, value in found.items()]


def time_of(time_us: int) -> int | None:
    """Returns *time_us*, or None if it is too late for a datetime.

    An origin may use any number as a timestamp.
    """
    return time_us if time_us < TIME_END_US else None


def _key(key: str | bytes) -> str:
    return text(key) if isinstance(key, bytes) else key


def _value(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    if type(value) is bytes:
        return text(value)
    return json.dumps(value, default=text, ensure_ascii=False)


def text_under(fields: dict[str, Any], key: str) -> str | None:
    """Returns the text under *key* in *fields* (an envelope or a note), or None."""
    found = fields.get(key)
    return found if type(found) is str else None
