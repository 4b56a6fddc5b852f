"""Exports history from a running queue manager, whose export cursor keeps unexported rows.

    read the cursor ─▶ read rows after it ─▶ write file and manifest ─▶ move the cursor

The cursor is never ahead of the files. After an interruption, the next run starts after the rows in
the files.
"""

import time
from collections.abc import Iterator

import pyarrow as pa

from qmgr_protocol.errors import RequestError
from qmgr_protocol.history import HistoryMalformed
from qmgr_tables.export.export import Bar, Exported, no_bar, write
from qmgr_tables.export.failure import ExportFailed, ExportRefused, ExportUnavailable
from qmgr_tables.export.feed import Feed
from qmgr_tables.export.order import whole_positions
from qmgr_tables.export.sink import Sink, Sizes
from qmgr_tables.options import Options
from qmgr_tables.stream.access import BY_ENVIRONMENT, Access
from qmgr_tables.stream.connection import DataLost, ManagerAway
from qmgr_tables.stream.history_feed import HistoryFeed
from qmgr_tables.stream.url import RowRange
from qmgr_tables.tables.history import HISTORY
from qmgrd.snapshot.finder import StoredSnapshot

WAIT_MS = 5_000


def export_live(
    options: Options,
    address: str,
    cursor: str,
    to: str,
    *,
    format: str = "parquet",
    sizes: Sizes | None = None,
    bar: Bar = no_bar,
    wait_ms: int = WAIT_MS,
    access: Access = BY_ENVIRONMENT,
) -> Exported:
    """Exports the history of the queue manager at *address* that *to* does not contain yet.

    Args:
        options: The options of table history. Paths are ignored.
        cursor: The cursor that keeps further rows until they are exported. The function creates a
            missing cursor.
        wait_ms: The time to wait for an unavailable queue manager.
        access: How to log in, and how to check the certificate.

    Raises:
        ExportRefused: As in export(), or if the store was restored from a backup.
        ExportUnavailable: The queue manager does not answer.
        ExportFailed: The export was interrupted.
    """
    with HistoryFeed(address, wait_ms, access=access) as history:
        try:

            def begin(sink: Sink) -> list[Feed]:
                # The state is read under the lock, because another export may have changed it
                # before.
                return [_feed(history, cursor, options, wait_ms, sink, access)]

            plain = options._replace(verify=False, table=HISTORY.name)
            return write(HISTORY, begin, plain, to, format, sizes=sizes, bar=bar)
        except ManagerAway as error:
            raise ExportUnavailable(
                f"{error}; run the export again: it continues after the complete files"
            ) from error
        except (DataLost, HistoryMalformed, RequestError) as error:
            raise ExportFailed(
                f"{error}; run the export again: it continues after the complete files"
            ) from error


def _feed(
    history: HistoryFeed, cursor: str, options: Options, wait_ms: int, sink: Sink, access: Access
) -> Feed:
    """Makes the cursor keep the existing rows.

    Returns the feed of these rows.
    """
    state = history.state()
    after = sink.progress(state.store_id).last
    if after > state.last:
        raise ExportRefused(
            f"{history.address}: the history ends with row {state.last}, but row {after} was "
            "exported: the store was restored from a backup; export to a new directory"
        )
    history.commit(cursor, max(after, state.first - 1))

    def rows(after: int) -> Iterator[pa.Table]:
        found = RowRange(
            history.address,
            state.queue_manager,
            state.store_id,
            max(after, state.first - 1),
            state.last,
            wait_ms,
            skip_lost=False,
            access=access,
        ).read(options, HISTORY.schema)
        return whole_positions((pa.Table.from_batches([batch]) for batch in found), "seq")

    def taken(position: int) -> None:
        history.commit(cursor, position)

    now_us = time.time_ns() // 1_000
    there = StoredSnapshot(
        history.address,
        "",
        state.queue_manager,
        0,
        0,
        "",
        (),
        wall_us=now_us,
        store_id=state.store_id,
    )
    return Feed(
        state.store_id,
        state.store_id[:8],
        "",
        there,
        "seq",
        state.last,
        rows,
        lambda after: 0,
        state.first,
        taken,
    )
