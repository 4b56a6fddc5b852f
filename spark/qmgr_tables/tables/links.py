"""The table of links: the sending and the receiving ends."""

from collections.abc import Iterator
from typing import Any

from qmgr_protocol.record import UID_ORIGIN, UID_TIMESTAMP
from qmgr_protocol.window import ids_of
from qmgr_tables.options import Options
from qmgr_tables.table import DAMAGE, SNAPSHOT, flags, longs, texts, times
from qmgr_tables.tables.groups import shown
from qmgr_tables.tables.queues import as_json, counters_of
from qmgr_tables.tables.small_table import Row, table, time_us, unpacked, unsealed
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction

STORE_ID_BYTES = 16
_OWN = ("queue_id", "stopped", "stream", "base_id", "lost", "lost_us")

COLUMNS = (
    *texts(
        ("peer", "the queue manager at the other end"),
        (
            "direction",
            "out (messages sent from here over the link of that name) or in (messages "
            "received from there)",
        ),
        ("state", "out: stopped or started; whether the link is connected is not stored"),
    ),
    *longs(
        ("commit_id", "the id up to which all messages are stored by the peer (out) or here (in)"),
        ("next_id", "out: the id of the next message"),
        ("highest_id", "in: the highest id that is or was held"),
        (
            "backlog",
            "out: messages that the peer has not committed; in: messages held beyond a gap",
        ),
        ("backlog_bytes", "out: the size of the records in the backlog"),
        ("transferred", "out: messages that the peer has committed since the link was created"),
        (
            "lost",
            "messages that were committed by the peer (out) or here (in), but lost when a store "
            "was restored to an older state",
        ),
    ),
    *times(("lost_at", "the time at which a loss was last detected")),
    *texts(
        ("held_numbers", "in: the ids held beyond a gap, such as 4-9, 12; up to 100 ranges"),
        (
            "last_message_id",
            "the message id at the commit id (out) or at the highest id (in); null if unknown",
        ),
        ("queue", "out: the transmission queue"),
        ("stream_id", "in: the id of the stream, in hexadecimal"),
        ("peer_store_id", "the id of the store to which the peer's name is bound, in hexadecimal"),
    ),
    *flags(("ordered", "out: whether messages are kept in order")),
    *texts(("attributes", "out: the options of the link, as JSON")),
    *DAMAGE,
    *SNAPSHOT,
)


def rows_of(tx: LmdbTransaction, snapshot: StoredSnapshot, options: Options) -> Iterator[Row]:
    """Yields a row for each outgoing link, then a row for each incoming stream."""
    for key, value in tx.scan(keys.SPACE_LINK, keys.after(keys.SPACE_LINK)):
        yield _out(tx, key, value)
    for key, value in tx.scan(keys.SPACE_LINK_INBOX, keys.after(keys.SPACE_LINK_INBOX)):
        yield _in(tx, key, value)


def _out(tx: LmdbTransaction, key: bytes, value: bytes) -> Row:
    peer = key[len(keys.SPACE_LINK) :].decode("utf-8", "backslashreplace")
    of: Row = {"peer": peer, "direction": "out", "queue": f"@{peer}", **_store_of(tx, peer)}
    row, damage = unpacked(key, value)
    if row is None:
        return of | {"damage": damage}
    window_key = keys.of_queue(keys.SPACE_LINK_OUTBOX, row["queue_id"])
    window, window_damage = _window(tx, window_key)
    commit_id, uid = (None, None) if window is None else window[:2]
    counted, counters_damage = counters_of(tx, row["queue_id"])
    return of | {
        "state": "stopped" if row.get("stopped") else "started",
        "commit_id": commit_id,
        "next_id": counted.get("next_arrival"),
        "backlog": counted.get("depth"),
        "backlog_bytes": counted.get("bytes"),
        "transferred": counted.get("acked"),
        "lost": row.get("lost", 0),
        "lost_at": time_us(row.get("lost_us")),
        "last_message_id": message_id(uid),
        "ordered": row.get("ordered", False),
        "attributes": as_json(row, _OWN),
        "damage": "; ".join(filter(None, (window_damage, counters_damage))) or None,
    }


def _window(tx: LmdbTransaction, key: bytes) -> tuple[list[Any] | None, str]:
    """Returns the commit id, the encoded UID of its message, and more fields, and the damage.

    Before the first commit, the commit id is 0 and the UID is None.
    """
    value = tx.get(key)
    return ([0, None], "") if value is None else unpacked(key, value)


def _in(tx: LmdbTransaction, key: bytes, value: bytes) -> Row:
    of: Row = {"direction": "in", "stream_id": key[len(keys.SPACE_LINK_INBOX) :].hex()}
    row, damage = unpacked(key, value)
    if row is None:
        return of | {"damage": damage}
    peer, commit_id, runs, uid, *more = row
    _, lost, lost_us = [*more, *(b"", 0, None)[len(more) :]][:3]
    ahead = ids_of(runs)
    return of | {
        "peer": peer,
        "commit_id": commit_id,
        "highest_id": max(ahead, default=commit_id),
        "backlog": len(ahead),
        "lost": lost,
        "lost_at": time_us(lost_us),
        "held_numbers": shown((first, first + count - 1) for first, count in runs),
        "last_message_id": message_id(uid),
        **_store_of(tx, peer),
    }


def _store_of(tx: LmdbTransaction, peer: str) -> dict[str, Any]:
    key = keys.SPACE_PEER + peer.encode()
    value = tx.get(key)
    if value is None:
        return {}
    store_id, damage = unsealed(key, value)
    if not damage and len(store_id) != STORE_ID_BYTES:  # An older version stored only the store id.
        facts, damage = unpacked(key, value)
        store_id = b"" if damage else facts["store_id"]
    return {} if damage or not store_id else {"peer_store_id": store_id.hex()}


def message_id(uid: bytes | None) -> str | None:
    """Returns the message id for an encoded UID: ORIGIN.TIMESTAMP."""
    if not uid or len(uid) <= 8:
        return None
    origin = uid[UID_ORIGIN].decode("utf-8", "backslashreplace")
    return f"{origin}.{int.from_bytes(uid[UID_TIMESTAMP], 'big')}"


LINKS = table("links", "at most two rows per link: out and in", COLUMNS, rows_of)
