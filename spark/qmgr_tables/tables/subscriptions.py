"""The table of subscriptions: their topics and their pending publications."""

from collections.abc import Iterator
from typing import Any

from qmgr_tables.options import Options
from qmgr_tables.table import DAMAGE, OF_SNAPSHOT, QUEUES, SNAPSHOT, flags, longs, texts, times
from qmgr_tables.tables.queues import as_json, counters_of, in_lanes
from qmgr_tables.tables.small_table import Row, queues_by_id, table, unpacked, wall_us
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction

# the fields of a subscription's row that are not attributes
_OWN = ("kind", "queue_id", "topic", "where", "first", "suspended", "used_ms")
_DYNAMIC = "~"  # first character of the name of a subscription that ends with its connection

COLUMNS = (
    *texts(
        (
            "subscription",
            "the name: CLIENT:NAME, :NAME for an administrator, ~LIFE.NUMBER for a "
            "connection, :NAME@MANAGER for another queue manager",
        ),
        ("client", "the client that created it; empty for an administrator, null for a connection"),
        ("topic", "the topic filter, with + and #"),
        ("selector", "the selector for the publications; null if all are received"),
        ("manager", "the queue manager to which publications are forwarded over a link"),
    ),
    *flags(
        ("durable", "whether the subscription outlives its connection"),
        (
            "suspended",
            "whether the subscription receives nothing until it is declared healthy again",
        ),
    ),
    *longs(
        ("backlog", "available and leased publications; null if they are forwarded"),
        ("delayed", "publications that are not yet available"),
        ("parked", "publications on which the subscriber failed, kept for republishing"),
        ("bytes", "the size of the records of available, leased and delayed publications"),
        ("missed", "publications missed because the subscription was full or suspended"),
        ("acked", "publications consumed since the subscription was created"),
        ("first", "the first publication after the subscription was created"),
    ),
    *times(("used_at", "the time of the last use, by the queue manager's own clock")),
    *texts(("attributes", "the options, as JSON; missing options have their default values")),
    *DAMAGE,
    *SNAPSHOT,
)


def rows_of(tx: LmdbTransaction, snapshot: StoredSnapshot, options: Options) -> Iterator[Row]:
    """Yields a row for each subscription, including subscriptions without a queue here."""
    kinds = {queue.name: queue.kind for queue in snapshot.queues}
    space = keys.SPACE_QUEUE
    for key, value in tx.scan(space, keys.after(space)):
        name = key[len(space) :].decode("utf-8", "backslashreplace")
        if not options.wants(name):
            continue
        definition, damage = unpacked(key, value)
        kind = kinds.get(name) if definition is None else definition["kind"]
        if kind in ("subscription", "proxy"):
            yield _row(tx, snapshot, name, definition or {}) | {"damage": damage or None}


def _row(
    tx: LmdbTransaction, snapshot: StoredSnapshot, name: str, definition: dict[str, Any]
) -> Row:
    queue = queues_by_id(snapshot).get(definition.get("queue_id", 0))
    counted, _ = counters_of(tx, queue.id) if queue else ({}, "")
    lanes = in_lanes(queue) if queue else {}
    used_ms = definition.get("used_ms")
    is_dynamic = name.startswith(_DYNAMIC)
    return {
        "subscription": name,
        "client": None if is_dynamic else name.partition(":")[0],
        "topic": definition.get("topic"),
        "selector": definition.get("where") or None,
        "manager": name.partition("@")[2] or None,
        "durable": not is_dynamic,
        "suspended": bool(definition.get("suspended")),
        "backlog": lanes.get("depth"),
        "delayed": lanes.get("delayed"),
        "parked": lanes.get("parked"),
        **{column: counted.get(column) for column in ("bytes", "missed", "acked")},
        "first": definition.get("first"),
        "used_at": wall_us(used_ms, snapshot) if type(used_ms) is int else None,
        "attributes": as_json(definition, _OWN),
    }


SUBSCRIPTIONS = table(
    "subscriptions",
    "one row per subscription",
    COLUMNS,
    rows_of,
    takes=QUEUES,
    pushed={**OF_SNAPSHOT, "subscription": "queues"},
)
