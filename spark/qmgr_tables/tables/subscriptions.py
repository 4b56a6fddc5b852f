"""The table of subscriptions: who gets what is published to which topics, and how much waits."""

from collections.abc import Iterator
from typing import Any

from qmgr_tables.options import Options
from qmgr_tables.table import DAMAGE, OF_SNAPSHOT, QUEUES, SNAPSHOT, flags, longs, texts, times
from qmgr_tables.tables.queues import as_json, counters_of, in_lanes
from qmgr_tables.tables.whole import Row, queues_by_id, table, unpacked, wall_us
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import Snapshot
from qmgrd.store.lmdb_store import LmdbTransaction

# What its row has beside its attributes.
_OWN = ("kind", "queue_id", "topic", "where", "first", "suspended", "used_ms")
_DYNAMIC = "~"  # the name of one that lives as long as its connection starts so

COLUMNS = (
    *texts(
        (
            "subscription",
            "its name: CLIENT:NAME, :NAME of an administrator, ~LIFE.NUMBER of a "
            "connection, :NAME@MANAGER of another queue manager",
        ),
        ("client", "who made it; empty of an administrator's, null of a connection's own"),
        ("topic", "the topics that it is about: a filter with + and #"),
        ("selector", "what of these it wants; null if all"),
        ("manager", "of one whose publications go on over a link: to which queue manager"),
    ),
    *flags(
        ("durable", "whether it outlives its connection"),
        ("suspended", "whether it gets nothing until it is said to be healthy again"),
    ),
    *longs(
        ("backlog", "publications that can be got or are leased; null where they go on"),
        ("delayed", "publications that wait for their time"),
        ("parked", "publications that it failed on, to be sent once more"),
        ("bytes", "of the records of what can be got, is leased or delayed"),
        ("missed", "publications that it did not get, being full or suspended"),
        ("acked", "publications consumed, ever"),
        ("first", "the first publication that came after it"),
    ),
    *times(("used_at", "when somebody used it last, by the queue manager's own clock")),
    *texts(("attributes", "what it was given, as JSON; what is not there has its default")),
    *DAMAGE,
    *SNAPSHOT,
)


def rows_of(tx: LmdbTransaction, snapshot: Snapshot, options: Options) -> Iterator[Row]:
    """Yield a row for each subscription; also of those that have no queue here."""
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


def _row(tx: LmdbTransaction, snapshot: Snapshot, name: str, definition: dict[str, Any]) -> Row:
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
    "one row a subscription",
    COLUMNS,
    rows_of,
    takes=QUEUES,
    pushed={**OF_SNAPSHOT, "subscription": "queues"},
)
