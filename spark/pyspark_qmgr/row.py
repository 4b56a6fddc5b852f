"""A message as a row: what the store holds under one key, in the columns of schema.py."""

import json
from typing import Any, NamedTuple

from pyspark_qmgr.manifest import Snapshot
from pyspark_qmgr.options import Options
from pyspark_qmgr.partition import Run
from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import CONTENT_TYPE, HEADERS, REPLY_TO
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.store.lmdb_store import LmdbTransaction

TIME_END_US = 253_402_300_800_000_000  # the year 10000
READY, TRANSMISSION, DAMAGED = "ready", "transmission", "damaged"


class Row(NamedTuple):
    """A message. The names are those of the columns, in the same order."""

    queue: str
    priority: int
    arrival: int
    message_id: str | None
    origin: str | None
    created_at: int | None  # microseconds
    put_at: int | None  # microseconds
    correlation_id: str | None
    headers: list[tuple[str, str | None]] | None
    reply_to: str | None
    content_type: str | None
    group_id: str | None
    group_number: int | None
    delivered: int | None
    failed: int | None
    state: str
    target: str | None
    body: bytes | None
    body_bytes: int | None
    queue_manager: str
    snapshot_id: str
    turn: int


def read(
    tx: LmdbTransaction, key: bytes, value: bytes, run: Run, snapshot: Snapshot, options: Options
) -> Row:
    """Return the message under *key*. One that is damaged has null wherever nothing is known."""
    priority, arrival = keys.place(key)
    entry = entries.decode(value)
    try:
        fields = records.decode(entries.record(tx, entry))
    except RequestError:
        return _damaged(priority, arrival, entry, run, snapshot)
    uid, group, envelope, body = fields.uid, fields.group, fields.envelope, fields.body
    is_transmission = run.kind == TRANSMISSION
    state = TRANSMISSION if is_transmission else READY
    wanted = options.include_body and len(body) <= options.max_body_bytes
    return Row(
        run.queue, fields.priority, arrival,
        None if uid is None else f"{uid.origin}.{uid.timestamp}",
        None if uid is None else uid.origin,
        None if uid is None else _time(uid.timestamp),
        _time(entry.put_us),
        text(fields.correlation_id) if fields.correlation_id else None,
        headers(envelope), _text(envelope, REPLY_TO), _text(envelope, CONTENT_TYPE),
        None if group is None else group[0].hex(),
        None if group is None else group[1],
        entry.delivered, entry.failed,
        DAMAGED if run.lane == keys.LANE_DAMAGED else state,
        entry.target or None, body if wanted else None, len(body),
        snapshot.queue_manager, snapshot.id, snapshot.turn,
    )  # fmt: skip


def _damaged(
    priority: int, arrival: int, entry: entries.Entry, run: Run, snapshot: Snapshot
) -> Row:
    known = entry.flags != entries.UNREADABLE
    return Row(
        run.queue, priority, arrival, None, None, None,
        _time(entry.put_us) if known else None,
        None, None, None, None, None, None,
        entry.delivered if known else None,
        entry.failed if known else None,
        DAMAGED, entry.target or None, None, None,
        snapshot.queue_manager, snapshot.id, snapshot.turn,
    )  # fmt: skip


def text(data: bytes) -> str:
    """Return *data* as text; bytes that are not UTF-8 stand as backslash, x and two digits."""
    return data.decode("utf-8", "backslashreplace")


def headers(envelope: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return the producer's headers as pairs of text."""
    found = envelope.get(HEADERS)
    if type(found) is not dict:
        return []
    return [(_key(key), _value(value)) for key, value in found.items()]


def _time(time_us: int) -> int | None:
    """Return *time_us* unless no datetime holds it: an origin may count as it likes."""
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


def _text(envelope: dict[str, Any], key: str) -> str | None:
    found = envelope.get(key)
    return found if type(found) is str else None
