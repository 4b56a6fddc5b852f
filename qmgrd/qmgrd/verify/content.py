"""The content of a store at rest: pages, rows by kind, messages by queue and priority.

Messages that a restart lost are counted until they are removed.
"""

from pathlib import Path
from typing import Any

from qmgr_protocol.codec import unpack
from qmgrd.core.catalogue.named import KINDS
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.kv import Transaction
from qmgrd.store.image import faults_of_pages, open_image
from qmgrd.store.inspect import (
    StoreUnreadable,
    Unsound,
    check_data_file,
    freed_since,
    map_bytes,
    readers,
)
from qmgrd.store.journal import FILE, JournalUnreadable
from qmgrd.store.lmdb_store import ReadFailed
from qmgrd.store.offline import offline_store
from qmgrd.verify.definitions import NONSENSE, SPACES
from qmgrd.verify.verify import LEAK, name_in


def store_content(directory: Path) -> dict[str, Any]:
    """Returns the content of the store in *directory*, which no daemon uses.

    Raises:
        StoreInUse: A daemon uses the store.
        StoreUnreadable: The store is missing, of another format, or has damaged pages.
    """
    with offline_store(directory) as store:
        data = store.data
        check_data_file(data)
        _check_pages(data)
        try:
            store.finish_journal()
        except (JournalUnreadable, rows.RowDamaged) as error:
            raise StoreUnreadable(data, str(error)) from error
        image = open_image(data)
        try:
            found = _pages(data, image.stat())
            with image.transaction() as tx:
                found |= _identity(tx, data)
                found["kinds"] = _kinds(tx)
                found["queues"] = _queues(tx)
        except (ReadFailed, Unsound) as error:
            why = f"damaged: {error}; see: qmctl store verify"
            raise StoreUnreadable(data, why) from error
        finally:
            image.close()
    found["messages"] = sum(queue["depth"] + queue["delayed"] for queue in found["queues"])
    found["unindexed"] = sum(queue["unindexed"] for queue in found["queues"])
    return found


def _check_pages(data: Path) -> None:
    """Raises StoreUnreadable if the pages might crash LMDB."""
    faults = [fault for fault in faults_of_pages(data) if LEAK not in fault]
    if faults:
        raise StoreUnreadable(data, f"damaged: {faults[0]}; see: qmctl store verify")


def _pages(data: Path, stat: dict[str, int]) -> dict[str, Any]:
    page_bytes, pages = stat["psize"], stat["last_pgno"] + 1
    used = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
    with data.open("rb", buffering=0) as file:
        free, _ = freed_since(file, 0)
    reading = readers(data.with_name("lock.mdb"))
    return {
        "data": str(data),
        "file_bytes": data.stat().st_size,
        "map_bytes": map_bytes(data),
        "page_bytes": page_bytes,
        "used_bytes": used * page_bytes,
        "free_bytes": free * page_bytes,
        "overhead_bytes": (pages - used - free) * page_bytes,  # meta pages and the free list
        "journal_bytes": _size(data.with_name(FILE)),
        "tree_depth": stat["depth"],
        "leaf_pages": stat["leaf_pages"],
        "branch_pages": stat["branch_pages"],
        "overflow_pages": stat["overflow_pages"],
        "transaction": stat["last_txnid"],
        "readers": len(reading),  # killed processes that left an entry
        "oldest_reader": min((number for _, number in reading), default=None),
        "rows": stat["entries"],
    }


def _size(path: Path) -> int:
    """Returns the size of a file, or 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0


def _identity(tx: Transaction, data: Path) -> dict[str, Any]:
    name = name_in(tx, data)
    store_id, _, boot = keys.STORE_ROW.unpack_from(tx.get(keys.STORE) or b"")
    clock = tx.get(keys.CLOCK) or bytes(keys.CLOCK_ROW.size)
    _, wall_us, _, turn, producers = keys.CLOCK_ROW.unpack_from(clock)
    identity = {"queue_manager": name, "store_id": store_id.hex(), "boot": boot, "turn": turn}
    return identity | {"last_turn_us": wall_us, "producers": producers}


def _kinds(tx: Transaction) -> list[dict[str, Any]]:
    """Returns the number of rows and bytes of each kind."""
    found = []
    for space, kind in SPACES.items():
        count = key_bytes = value_bytes = 0
        for key, value in tx.scan(space, keys.after(space)):
            count += 1
            key_bytes += len(key)
            value_bytes += len(value)
        if count:
            found.append({"kind": kind, "rows": count, "bytes": key_bytes + value_bytes})
    return found


def _queues(tx: Transaction) -> list[dict[str, Any]]:
    """Returns the content of each queue whose definition can be read, the largest first."""
    found = []
    for key, value in tx.scan(keys.SPACE_QUEUE, keys.after(keys.SPACE_QUEUE)):
        try:
            row = unpack(rows.unseal(key, value))
            if row["kind"] not in KINDS:
                found.append(_queue(tx, key[keys.REST].decode(errors="replace"), row))
        except NONSENSE:
            continue
    return sorted(found, key=lambda queue: (-queue["bytes"], queue["queue"]))


def _queue(tx: Transaction, name: str, row: dict[str, Any]) -> dict[str, Any]:
    queue_id: int = row["queue_id"]
    counts = dict.fromkeys(
        (keys.LANE_READY, keys.LANE_GROUPED, keys.LANE_DELAYED, keys.LANE_PARKED), 0
    )
    size = 0
    oldest_us: int | None = None
    priorities: dict[int, int] = {}
    for lane in counts:
        prefix = keys.lane(queue_id, lane)
        for key, value in tx.scan(prefix, keys.after(prefix)):
            entry = entries.decode(value)
            priority, _ = keys.place(key)
            counts[lane] += 1
            size += entries.record_bytes(entry)
            if entry.flags != entries.UNREADABLE:
                oldest_us = entry.put_us if oldest_us is None else min(entry.put_us, oldest_us)
            priorities[priority] = priorities.get(priority, 0) + 1
    aside = keys.lane(queue_id, keys.LANE_DAMAGED)
    return {
        "queue": name,
        "queue_id": queue_id,
        "kind": row["kind"],
        "depth": counts[keys.LANE_READY] + counts[keys.LANE_GROUPED],
        "grouped": counts[keys.LANE_GROUPED],
        "delayed": counts[keys.LANE_DELAYED],
        "parked": counts[keys.LANE_PARKED],
        "bytes": size,
        "priorities": priorities,
        "unindexed": _unindexed(tx, queue_id, name),
        "oldest_us": oldest_us,
        "set_aside": sum(1 for _ in tx.scan(aside, keys.after(aside))),
    }


def _unindexed(tx: Transaction, queue_id: int, name: str) -> int:
    """Returns the number of messages without a row in the UID index, or 0 if it is unknown."""
    try:
        return Counters.read(tx, queue_id, name).unindexed
    except rows.RowDamaged:
        return 0
