"""The contents of a snapshot's manifest, read from the data file itself."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qmgr_protocol.codec import unpack
from qmgr_protocol.record import VERSION
from qmgr_protocol.window import ids_of
from qmgrd.core.catalogue.named import KINDS
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.kv import Transaction
from qmgrd.store.image import open_image

FORMAT = 2  # the format of the manifest and of the directory
LMDB_FORMAT = 1

Ranges = dict[int, list[dict[str, int]]]
Lost = dict[int, list[list[int]]]


def describe(data: Path) -> dict[str, Any]:
    """Describes *data*: returns its queue manager, its turn, and the content of each queue.

    Raises:
        StoreUnreadable: The file is not a data file, or it is damaged.
        RowDamaged: A row that this function reads is damaged. The file may not be a store of qmgrd.
    """
    image = open_image(data)
    try:
        with image.transaction() as tx:
            return facts_in(tx)
    finally:
        image.close()


def facts_in(tx: Transaction) -> dict[str, Any]:
    """Returns the same description of an open store.

    Raises:
        RowDamaged: A row that this function reads is damaged.
    """
    store = rows.get(tx, keys.STORE)
    store_id, store_format, boot = keys.STORE_ROW.unpack_from(store)
    name = store[keys.STORE_ROW.size :].decode()
    clock_ms, wall_us, _, turn, _ = keys.CLOCK_ROW.unpack_from(rows.get(tx, keys.CLOCK))
    lost = _lost(tx)
    ranges = _ranges(tx, lost)
    defined = [(key, unpack(row)) for key, row in rows.scan(tx, keys.SPACE_QUEUE)]
    queues = [
        _queue(tx, key[keys.REST].decode(), row, ranges, lost)
        for key, row in defined
        if row["kind"] not in KINDS
    ]
    return {
        "format": FORMAT,
        "snapshot_id": f"{name}-{store_id.hex()[:8]}-{boot}-{turn}",
        "queue_manager": name,
        "store_id": store_id.hex(),
        "boot": boot,
        "turn": turn,
        "created": datetime.fromtimestamp(wall_us // 1_000_000, UTC).isoformat(),
        "clock_ms": clock_ms,
        "wall_us": wall_us,
        "store_format": store_format,
        "record_format": VERSION,
        "lmdb_format": LMDB_FORMAT,
        "messages": sum(queue["depth"] + queue["delayed"] for queue in queues),
        "bytes": sum(queue["bytes"] for queue in queues),
        "history": _history(tx),
        "queues": queues,
        "links": [
            _link(tx, key[keys.REST].decode(), unpack(row))
            for key, row in rows.scan(tx, keys.SPACE_LINK)
        ],
        "inboxes": [
            _inbox(key[keys.REST], unpack(row)) for key, row in rows.scan(tx, keys.SPACE_LINK_INBOX)
        ],
    }


def _history(tx: Transaction) -> dict[str, int]:
    """Returns the range of history rows: the number of the first row, and the end (exclusive)."""
    state = rows.find(tx, keys.HISTORY)
    first, next_, _, _ = (1, 1, 0, 0) if state is None else keys.HISTORY_ROW.unpack(state)
    return {"first": first, "next": next_}


def _link(tx: Transaction, name: str, row: dict[str, Any]) -> dict[str, Any]:
    """Returns the state of a link. Messages up to the commit id are stored at the peer and deleted
    here.
    """
    queue_id = row["queue_id"]
    window = rows.find(tx, keys.of_queue(keys.SPACE_LINK_OUTBOX, queue_id))
    return {
        "link": name,
        "commit_id": 0 if window is None else unpack(window)[0],
        "next_id": Counters.read(tx, queue_id, f"@{name}").next_arrival,
    }


def _inbox(stream_id: bytes, window: list[Any]) -> dict[str, Any]:
    """Returns the state of an incoming link.

    The row is decoded here because core/link/inbox.py imports half of the daemon. With that import,
    the process that writes a snapshot would take longer to start than to write a small snapshot.
    """
    peer, commit_id, runs, *_ = window
    highest_id = max(ids_of(runs), default=commit_id)
    return {
        "peer": peer,
        "stream": stream_id.hex(),
        "commit_id": commit_id,
        "highest_id": highest_id,
    }


def _lost(tx: Transaction) -> Lost:
    """Returns, by queue id, the arrival ranges in which a restart lost the non-persistent
    messages.
    """
    found: Lost = {}
    for _, row in rows.scan(tx, keys.SPACE_JOB):
        job = unpack(row)
        if job["kind"] == "sweep" and not job.get("ended_us"):
            found.setdefault(job["queue_id"], []).append([job["first"], job["before"]])
    return found


def _ranges(tx: Transaction, lost: Lost) -> Ranges:
    """Returns, by queue id, the number and range of messages in each lane and priority."""
    runs: dict[bytes, tuple[int, bytes]] = {}  # the number of messages, and the first key
    ends: dict[bytes, bytes] = {}
    gone = {keys.of_queue(keys.SPACE_MESSAGE, queue_id): found for queue_id, found in lost.items()}
    for key, value in tx.scan(keys.SPACE_MESSAGE, keys.after(keys.SPACE_MESSAGE)):
        if gone and key[keys.OF_QUEUE] in gone and _is_lost(key, value, gone[key[keys.OF_QUEUE]]):
            continue
        start = key[keys.OF_RANK]
        count, first = runs.get(start, (0, key))
        runs[start] = count + 1, first
        ends[start] = key
    found: Ranges = {}
    for start, (count, first) in runs.items():
        priority, first_arrival = keys.place(first)
        found.setdefault(keys.queue_id_of(start), []).append(
            {
                "lane": start[keys.ENTRY_LANE_AT],
                "priority": priority,
                "messages": count,
                "first_arrival": first_arrival,
                "last_arrival": keys.place(ends[start])[1],
            }
        )
    return found


def _is_lost(key: bytes, value: bytes, lost: list[list[int]]) -> bool:
    arrival = keys.place(key)[1]
    return entries.decode(value).volatile and any(
        first <= arrival < before for first, before in lost
    )


def _queue(
    tx: Transaction, name: str, row: dict[str, Any], ranges: Ranges, lost: Lost
) -> dict[str, Any]:
    queue_id = row["queue_id"]
    counters = Counters.read(tx, queue_id, name)
    found = ranges.get(queue_id, [])
    ready = [one for one in found if one["lane"] in (keys.LANE_READY, keys.LANE_GROUPED)]
    delayed = [one for one in found if one["lane"] == keys.LANE_DELAYED]
    return {
        "queue": name,
        "queue_id": queue_id,
        "kind": row["kind"],
        "depth": sum(one["messages"] for one in ready),
        "delayed": sum(one["messages"] for one in delayed),
        "bytes": counters.bytes,
        "first_arrival": min((one["first_arrival"] for one in ready), default=None),
        "last_arrival": max((one["last_arrival"] for one in ready), default=None),
        "ranges": found,
        "lost": lost.get(queue_id, []),
    }
