"""Rows in the order of their positions.

The division into row groups is the same after a restart.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROW_BYTES = 200  # approximate size of a row without its body


def in_order(
    parts: Sequence[Iterator[pa.RecordBatch]], column: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yields the rows of all *parts* by ascending *column*.

    Each part must already be in ascending order. The function holds one batch of each part in
    memory, independent of the lengths of the parts.
    """
    heads = [(head, part) for part in parts if (head := _next(part)) is not None]
    while heads:
        # All later batches of a part come after its current batch.
        bound = min(_last(head, column) for head, _ in heads)
        taken, left = [], []
        for head, part in heads:
            count = int(np.searchsorted(_positions(head, column), bound, "right"))
            if count:
                taken.append(head.slice(0, count))
            rest = head.slice(count) if count < head.num_rows else _next(part)
            if rest is not None:
                left.append((rest, part))
        heads = left
        table = pa.Table.from_batches(taken, schema)
        yield table if len(taken) == 1 else table.sort_by(column)


def row_groups(tables: Iterator[pa.Table], bytes_max: int, rows_max: int) -> Iterator[pa.Table]:
    """Yields the rows in tables of about *bytes_max* bytes and at most *rows_max* rows.

    The end of a table depends only on the rows since the previous table.
    """
    held: list[pa.Table] = []
    size = rows = 0
    for table in tables:
        while table.num_rows:
            sizes = np.cumsum(row_bytes(table))
            count = int(np.searchsorted(sizes, bytes_max - size)) + 1
            count = min(count, rows_max - rows, table.num_rows)
            held.append(table.slice(0, count))
            size, rows = size + int(sizes[count - 1]), rows + count
            table = table.slice(count)
            if size >= bytes_max or rows >= rows_max:
                yield pa.concat_tables(held)
                held, size, rows = [], 0, 0
    if held:
        yield pa.concat_tables(held)


def whole_positions(tables: Iterator[pa.Table], column: str) -> Iterator[pa.Table]:
    """Yields the rows in tables that end where the ascending *column* changes."""
    held: list[pa.Table] = []
    for table in tables:
        if not table.num_rows:
            continue
        positions = table.column(column).to_numpy()
        # The last position may continue in the next table.
        end = int(np.searchsorted(positions, positions[-1]))
        if held and positions[0] != held[-1].column(column)[-1].as_py():
            yield pa.concat_tables(held)
            held = []
        if end:
            yield pa.concat_tables([*held, table.slice(0, end)])
            held = []
        held.append(table.slice(end))
    if held:
        yield pa.concat_tables(held)


def row_bytes(table: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Returns the approximate size of each row: its bodies plus ROW_BYTES."""
    sizes = np.full(table.num_rows, ROW_BYTES, np.int64)
    for at, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            lengths = pc.fill_null(pc.binary_length(table.column(at)), 0)
            sizes += lengths.to_numpy().astype(np.int64)
    return sizes


def _next(part: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in part if batch.num_rows), None)


def _last(batch: pa.RecordBatch, column: str) -> int:
    last: int = batch.column(column)[batch.num_rows - 1].as_py()
    return last


def _positions(batch: pa.RecordBatch, column: str) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    positions: np.ndarray[tuple[int], np.dtype[np.int64]] = batch.column(column).to_numpy()
    return positions
