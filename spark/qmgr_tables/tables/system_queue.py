"""The common part of the tables of system queues: a row is made from each message."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from qmgr_tables.options import Options
from qmgr_tables.partition import Share, plan
from qmgr_tables.tables import messages
from qmgrd.snapshot.finder import StoredSnapshot

# A function that returns the columns of a row from the body of a message, or from None if it is
# damaged.
Columns: TypeAlias = Callable[[bytes | None], dict[str, Any]]

_READ = ("queue", "arrival", "message_id", "put_at", "body", "queue_manager", "snapshot_id", "turn")
_MESSAGES = {column.name: column.type for column in messages.COLUMNS}


def shares(queue: str, snapshots: list[StoredSnapshot], options: Options) -> list[Share]:
    """Returns the shares of the system queue *queue*, or of the selected queues."""
    if not (options.queues or options.queues_pattern):
        snapshots = [one for one in snapshots if any(q.name == queue for q in one.queues)]
        if not snapshots:
            return []  # No snapshot has the queue.
        options = options._replace(queues=frozenset([queue]))
    return plan(snapshots, options)


def batches(
    share: Share, options: Options, schema: pa.Schema, columns: Columns
) -> Iterator[pa.RecordBatch]:
    """Yields a row for each message of *share*, with its *columns* and the time of its put."""
    wanted = pa.schema([(name, _MESSAGES[name]) for name in _READ])
    for found in messages.read(share, options._replace(include_body=True), wanted):
        us = found.column("put_at").cast(pa.int64()).to_pylist()
        rows = found.drop_columns(["put_at"]).to_pylist()
        parsed = [
            {**columns(row.pop("body")), **row, "at": at} for row, at in zip(rows, us, strict=True)
        ]
        yield pa.RecordBatch.from_pylist(parsed, schema=schema)
