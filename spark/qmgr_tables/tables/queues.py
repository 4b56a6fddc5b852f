"""The table of queues: one row per queue or subscription, with all its counters."""

import json
from collections.abc import Iterator
from typing import Any

from qmgr_tables.options import Options
from qmgr_tables.table import DAMAGE, OF_QUEUE, QUEUES, SNAPSHOT, longs, texts, times
from qmgr_tables.tables.small_table import Row, table, time_us, unpacked, unsealed
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.counters import Counters
from qmgrd.snapshot.finder import LaneRange, QueueInfo, StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction

_READY = (keys.LANE_READY, keys.LANE_GROUPED)
_WAITING = (*_READY, keys.LANE_DELAYED, keys.LANE_PARKED)
# fields of a row that are not attributes
_OWN = ("kind", "queue_id", "first", "suspended", "used_ms")

COLUMNS = (
    *texts(
        ("queue", "the name of the queue; @NYC is the transmission queue of the link to NYC"),
        ("kind", "local, transmission, subscription or publications"),
    ),
    *longs(
        ("depth", "available and leased messages"),
        ("delayed", "messages that are not yet available"),
        ("parked", "for a subscription: publications that the subscriber returned too often"),
        ("set_aside", "damaged messages that are kept for analysis"),
        ("bytes", "the size of the records of available, leased and delayed messages"),
        (
            "first_arrival",
            "the lowest position of all pending messages, regardless of their priority",
        ),
        ("last_arrival", "the highest position of all pending messages"),
    ),
    *times(
        (
            "oldest_put_at",
            "the put time of the oldest pending message, among the first of each priority",
        )
    ),
    *texts(
        ("config", "the options of the queue, as JSON; missing options have their default values")
    ),
    *longs(
        ("next_arrival", "the position of the next message"),
        ("puts", "messages put; the columns puts to missed count since the queue was created"),
        ("fast", "puts recognized as new without a lookup of a message"),
        ("slow", "puts that needed a lookup of the UID"),
        ("duplicates", "puts that were refused because a message with the same UID existed"),
        ("acked", "messages consumed; for a transmission queue, messages that the peer committed"),
        ("purged", "messages removed by an operator or because the queue overflowed"),
        ("damaged", "messages set aside because their checksum did not match"),
        ("delivered", "deliveries"),
        ("returned", "messages returned after a delivery"),
        ("refused", "puts refused for other reasons: no space, inhibited, malformed"),
        ("expired", "messages that expired"),
        ("dead", "messages moved to a backout queue or to the dead letters"),
        ("moved", "messages moved to another queue"),
        ("lost", "messages lost in a restart because they were not persistent"),
        ("missed", "for a subscription: publications missed because it was full or suspended"),
        ("grouped", "messages of the depth that belong to message groups"),
        ("volatile", "messages of the depth that are not persistent"),
        ("volatile_delayed", "delayed messages that are not persistent"),
        ("volatile_bytes", "bytes of messages that are not persistent"),
        ("volatile_from", "the position below which all messages are persistent"),
        (
            "maybe_before",
            "the position below which messages may have been delivered before the last crash",
        ),
    ),
    *DAMAGE,
    *SNAPSHOT,
    *longs(
        ("unindexed", "messages that need no row in the UID index"),
        ("unindexed_from", "the position from which messages need no row in the UID index"),
        (
            "unindexed_until",
            "the position from which messages need a row again; 2^63 - 1: new messages need none",
        ),
    ),
)
# The counters may still include messages that a restart lost. The ranges of the snapshot exclude
# these messages.
_OF_RANGES = {
    "depth": _READY,
    "delayed": (keys.LANE_DELAYED,),
    "parked": (keys.LANE_PARKED,),
    "set_aside": (keys.LANE_DAMAGED,),
}


def rows_of(tx: LmdbTransaction, snapshot: StoredSnapshot, options: Options) -> Iterator[Row]:
    """Yields a row for each queue."""
    for queue in snapshot.queues:
        yield _row(tx, queue)


def _row(tx: LmdbTransaction, queue: QueueInfo) -> Row:
    definition, damage = definition_of(tx, queue.name)
    counted, counters_damage = counters_of(tx, queue.id)
    waiting = [found for found in queue.ranges if found.lane in _WAITING]
    return counted | {
        "queue": queue.name,
        "kind": queue.kind,
        **in_lanes(queue),
        "first_arrival": min((found.first_arrival for found in waiting), default=None),
        "last_arrival": max((found.last_arrival for found in waiting), default=None),
        "oldest_put_at": _oldest(tx, queue.id, waiting),
        "config": as_json(definition, _OWN),
        "damage": "; ".join(filter(None, (damage, counters_damage))) or None,
    }


def in_lanes(queue: QueueInfo) -> dict[str, int]:
    """Returns the number of messages on *queue* by state."""
    return {
        name: sum(found.messages for found in queue.ranges if found.lane in lanes)
        for name, lanes in _OF_RANGES.items()
    }


def _oldest(tx: LmdbTransaction, queue_id: int, waiting: list[LaneRange]) -> int | None:
    """Returns the oldest put time among the first messages of all lanes and priorities."""
    found = []
    for first in waiting:
        value = tx.get(keys.message(queue_id, first.lane, first.priority, first.first_arrival))
        entry = None if value is None else entries.decode(value)
        if entry is not None and entry.flags != entries.UNREADABLE:
            found.append(entry.put_us)
    return time_us(min(found, default=None))


def definition_of(tx: LmdbTransaction, queue: str) -> tuple[dict[str, Any] | None, str]:
    """Returns the row that defines *queue*, and its damage."""
    key = keys.SPACE_QUEUE + queue.encode()
    return unpacked(key, tx.get(key))


def counters_of(tx: LmdbTransaction, queue_id: int) -> tuple[dict[str, int], str]:
    """Returns the counters of a queue by name, and their damage."""
    key = keys.of_queue(keys.SPACE_COUNTERS, queue_id)
    row, damage = unsealed(key, tx.get(key))
    return ({}, damage) if damage else (Counters.decode(row).as_dict(), "")


def as_json(definition: dict[str, Any] | None, own: tuple[str, ...]) -> str | None:
    """Returns the attributes of *definition* as JSON, without the fields in *own*."""
    if definition is None:
        return None
    given = {name: value for name, value in definition.items() if name not in own}
    return json.dumps(given, sort_keys=True, ensure_ascii=False, default=_hex)


def _hex(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


QUEUES_TABLE = table(
    "queues", "one row per queue or subscription", COLUMNS, rows_of, takes=QUEUES, pushed=OF_QUEUE
)
