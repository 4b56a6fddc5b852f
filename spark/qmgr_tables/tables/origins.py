"""The table of origins: the highest timestamp of each origin on each queue."""

from collections.abc import Iterator

from qmgr_tables.options import Options
from qmgr_tables.table import DAMAGE, OF_QUEUE, QUEUES, SNAPSHOT, longs, texts, times
from qmgr_tables.tables.small_table import Row, table, time_us, unsealed
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction

LONG_MAX = 2**63 - 1

COLUMNS = (
    *texts(
        ("queue", "the queue that received messages of the origin"),
        ("origin", "the creator of the messages"),
    ),
    *longs(
        (
            "highest",
            "the highest timestamp of the origin on this queue; a message above it is new without "
            "a lookup; null from 2^63 on",
        )
    ),
    *times(("highest_at", "the column highest as a time; null from the year 10000 on")),
    *DAMAGE,
    *SNAPSHOT,
)


def rows_of(tx: LmdbTransaction, snapshot: StoredSnapshot, options: Options) -> Iterator[Row]:
    """Yields a row for each origin of each queue."""
    for queue in snapshot.queues:
        prefix = keys.of_queue(keys.SPACE_ORIGIN, queue.id)
        for key, value in tx.scan(prefix, keys.after(prefix)):
            row, damage = unsealed(key, value)
            highest = None if damage else int.from_bytes(row, "big")
            yield {
                "queue": queue.name,
                "origin": key[len(prefix) :].decode("utf-8", "backslashreplace"),
                "highest": highest if highest is None or highest <= LONG_MAX else None,
                "highest_at": time_us(highest),
                "damage": damage or None,
            }


ORIGINS = table(
    "origins",
    "one row per origin in a queue's table of origins",
    COLUMNS,
    rows_of,
    takes=QUEUES,
    pushed=OF_QUEUE,
)
