"""The facts about the process that a status reply shows."""

import os
from typing import Any

from qmgrd.process.turn_times import TurnTimes
from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import LmdbStore


def process_facts(store: LmdbStore, turn_times: TurnTimes, uptime_ms: int) -> dict[str, Any]:
    """Returns the fields about the process, its store and its turns.

    The longest turn is the longest one since the last call.

    Raises:
        StoreFailed: The disk does not report its free space.
    """
    times = os.times()
    space = store.space()
    return {
        "pid": os.getpid(),
        "uptime_ms": uptime_ms,
        "cpu_ms": round((times.user + times.system) * 1000),
        "store_used_bytes": space.used_bytes,
        "store_map_bytes": space.map_bytes,
        "disk_free_bytes": space.disk_free_bytes,
        "turn_longest_us": turn_times.take_longest_us(),
        "turn_times_us": turn_times.histogram(),
        "journal": {"place": "file" if isinstance(store, JournalStore) else "none"},
    }
