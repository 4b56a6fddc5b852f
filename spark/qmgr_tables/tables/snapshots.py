"""The table of snapshots: one row for each, including damaged snapshots that were skipped."""

from collections.abc import Iterator

import pyarrow as pa

from qmgr_tables.options import Options
from qmgr_tables.planning import Skipped
from qmgr_tables.table import DAMAGE, SNAPSHOT, Table, longs, texts, times
from qmgr_tables.tables.small_table import Row, batches, time_us
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import StoredSnapshot

_WAITING = (keys.LANE_READY, keys.LANE_GROUPED, keys.LANE_DELAYED, keys.LANE_PARKED)

COLUMNS = (
    *texts(("path", "the path or the URL of the snapshot")),
    *times(("at", "the time of the turn that the snapshot shows")),
    *longs(
        ("queues", "the number of queues, including subscriptions and transmission queues"),
        (
            "messages",
            "the number of messages on these queues; a publication counts once for itself and "
            "once for each of its subscriptions",
        ),
        ("data_bytes", "the size of the data file"),
    ),
    *DAMAGE,
    *SNAPSHOT,
)


def plan(snapshots: list[StoredSnapshot], options: Options) -> list[Row]:
    """Returns the rows themselves, because the manifests have all values."""
    del options
    return [_row(snapshot) for snapshot in snapshots]


def read(share: Row | Skipped, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the row of one snapshot, which may have been skipped."""
    del options
    row = {"path": share.directory, "damage": share.why} if isinstance(share, Skipped) else share
    return batches(iter([row]), schema)


def _row(snapshot: StoredSnapshot) -> Row:
    return {
        "path": snapshot.directory,
        "at": time_us(snapshot.wall_us),
        "queues": len(snapshot.queues),
        "messages": sum(
            found.messages
            for queue in snapshot.queues
            for found in queue.ranges
            if found.lane in _WAITING
        ),
        "data_bytes": snapshot.data_bytes,
        "queue_manager": snapshot.queue_manager,
        "snapshot_id": snapshot.id,
        "turn": snapshot.turn,
    }


SNAPSHOTS = Table("snapshots", 1, "one row per snapshot", COLUMNS, plan, read, pushed={})
