"""Browsed messages as rows of table messages."""

from collections.abc import Iterator

from qmgr_client import dead_letter
from qmgr_client.message import PUBLICATIONS, split
from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from qmgr_protocol.messages import DELIVERY, DELIVERY_BYTES
from qmgr_tables import row as rows
from qmgr_tables.options import DELAYED, READY, Options
from qmgr_tables.row import Row
from qmgr_tables.stream.queue_feed import Page

_MS_US = 1_000


def rows_of(page: Page, queue: str, queue_manager: str, options: Options) -> Iterator[Row]:
    """Yields the selected messages of *page*. Columns that only a snapshot has are null."""
    source = queue_manager, None, None
    for at, item in enumerate(page.items):
        row = _row(item, page.delays.get(at), page.wall_us, queue, source, options)
        if options.wants_row(row.state, row.put_at):
            yield row


def _row(
    item: bytes,
    delay_ms: int | None,
    wall_us: int,
    queue: str,
    source: rows.RowSource,
    options: Options,
) -> Row:
    priority, arrival, _, delivered, failed, state, put_us = DELIVERY.unpack_from(item)
    record, left_ms, note, _ = split(item[DELIVERY_BYTES:], state)
    is_awaited = delay_ms is not None and (left_ms is None or delay_ms < left_ms)
    expires_at, deliver_at = _later(wall_us, left_ms), _later(wall_us, delay_ms)
    times = rows.time_of(put_us), expires_at, deliver_at if is_awaited else None
    place = queue, priority, arrival
    try:
        fields = records.decode(record)
    except RequestError:
        if not put_us:  # All metadata of the message is damaged.
            return rows.damaged(place, rows.NO_TIMES, (None, None), "", source)
        return rows.damaged(place, (*times, None), (delivered, failed), "", source)
    is_on_its_way = queue == PUBLICATIONS or queue.startswith("@")
    shown = rows.own_priority(fields) if is_on_its_way else priority
    return rows.of_record(
        fields,
        (queue, shown, arrival),
        (*times, not fields.flags & records.FLAG_NOT_PERSISTENT),
        (delivered, failed, READY if delay_ms is None else DELAYED),
        dead_letter.read(note) or {},
        "",
        source,
        options,
    )


def _later(wall_us: int, ms: int | None) -> int | None:
    return None if ms is None else rows.time_of(wall_us + ms * _MS_US)
