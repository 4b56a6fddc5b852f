"""The table of parked publications, on which a subscriber failed."""

from collections.abc import Iterator
from typing import Any

from qmgr_protocol.errors import name_of
from qmgr_tables.options import Options
from qmgr_tables.table import (
    DAMAGE,
    OF_SNAPSHOT,
    QUEUES,
    SNAPSHOT,
    TIMES,
    flags,
    longs,
    texts,
    times,
)
from qmgr_tables.tables.links import message_id
from qmgr_tables.tables.small_table import Row, queues_by_id, table, time_us
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue import notes
from qmgrd.snapshot.finder import QueueInfo, StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction

COLUMNS = (
    *texts(
        ("message_id", "the message id: ORIGIN.TIMESTAMP"),
        ("topic", "the topic of the publication"),
        ("subscription", "the subscription whose subscriber failed"),
    ),
    *longs(
        ("arrival", "the number of the publication among all publications"),
        ("priority", "0 to 9; 9 is delivered first"),
        ("failed", "the number of failures of the subscriber since the publication was last sent"),
        ("delivered", "the number of returns since the publication was last sent"),
        ("republished", "the number of times that it was already republished"),
    ),
    *texts(
        ("code", "the reason for parking, such as REDELIVERY_LIMIT_EXCEEDED"),
        ("reason", "the reason that the subscriber gave for the rejection, in one word"),
        ("text", "the text of the subscriber that rejected the publication"),
        ("client", "the client that last failed on the publication"),
    ),
    *times(
        ("since", "the time at which the publication was parked"),
        ("put_at", "the time of the publication"),
    ),
    *flags(("awaited", "whether the publication is sent as soon as its subscriber returns")),
    *longs(("record_bytes", "the size of the publication's record, which is stored once")),
    *DAMAGE,
    *SNAPSHOT,
)


def rows_of(tx: LmdbTransaction, snapshot: StoredSnapshot, options: Options) -> Iterator[Row]:
    """Yields a row for each parked publication and each subscription for which it is parked."""
    wanted = queues_by_id(snapshot)
    for key, rank in tx.scan(keys.SPACE_PARKED, keys.after(keys.SPACE_PARKED)):
        if len(key) != keys.PARKED.size:
            continue
        _, arrival, queue_id = keys.PARKED.unpack(key)
        queue = wanted.get(queue_id)
        if queue is not None:
            yield _row(tx, queue, arrival, rank)


def _row(tx: LmdbTransaction, queue: QueueInfo, arrival: int, rank: bytes) -> Row:
    of: Row = {"subscription": queue.name, "arrival": arrival}
    priority = keys.PRIORITY_TOP - rank[0] if rank and rank[0] <= keys.PRIORITY_TOP else None
    if priority is None:
        return of | {"damage": "the index row has no valid priority"}
    value = tx.get(keys.message(queue.id, keys.LANE_PARKED, priority, arrival))
    if value is None:
        return of | {"damage": "the index row refers to a message that does not exist"}
    entry = entries.decode(value)
    if entry.flags == entries.UNREADABLE:
        return of | {"priority": priority, "damage": "the entry of the message cannot be read"}
    held = entries.publication(tx, entry)
    return of | {
        "message_id": message_id(entries.uid_trailer(entry)),
        "topic": held.target or None,
        "priority": priority,
        "failed": entry.failed,
        "delivered": entry.delivered,
        "put_at": time_us(entry.put_us),
        "awaited": bool(entry.flags & entries.AWAITED),
        "record_bytes": entries.record_bytes(entry),
        "damage": None if held.target else "the publication is missing or damaged",
        **_note_columns(notes.read(tx, queue.id, arrival)),
    }


def _note_columns(note: notes.Note) -> dict[str, Any]:
    """Returns the columns from the note of a parked message. Invalid fields are null."""
    code, retries = note.get("code"), note.get("retries", 0)
    attempts = note.get("attempts")
    last: Any = attempts[-1] if type(attempts) is list and attempts else None
    is_whole = type(last) is list and len(last) == 5
    return {
        "code": name_of(code) if type(code) is int else None,
        "reason": _text(note.get("reason")),
        "text": _text(note.get("text")),
        "client": _text(last[4]) if is_whole else None,
        "since": time_us(note.get("us")),
        "republished": retries if type(retries) is int else None,
    }


def _text(value: object) -> str | None:
    return value if type(value) is str and value else None


REPUBLISH = table(
    "republish",
    "one row per parked publication and subscription for which it is parked",
    COLUMNS,
    rows_of,
    time="since",
    takes=(*QUEUES, *TIMES),
    pushed={**OF_SNAPSHOT, "subscription": "queues"},
)
