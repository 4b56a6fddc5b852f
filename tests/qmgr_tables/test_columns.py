"""Tests that the columns of plain messages have the same values as the rows of row.py."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qmgr_tables import row as rows
from qmgr_tables.chunk import Pair
from qmgr_tables.options import Options
from qmgr_tables.partition import Run
from qmgr_tables.tables import messages
from qmgr_tables.tables.messages import COLUMNS, MESSAGES
from qmgrd.core.layout import keys
from tests.memory_store import MemoryStore
from tests.qmgr_tables.stored import RUNS, SNAPSHOT, Stored, stored

# Most options have no bound. The other bounds are near the times of the messages.
TIMES = st.none() | st.sampled_from([0, 1, 2, 2**40, 2**40 + 1, 2**63])
OPTIONS = st.builds(
    lambda body, most, states, since_us, until_us: Options(
        ("/snap",),
        include_body=body,
        max_body_bytes=most,
        states=states,
        since_us=since_us,
        until_us=until_us,
    ),
    st.booleans(),
    st.sampled_from([2**63 - 1, 3]),
    st.sampled_from([frozenset(), frozenset(["damaged"]), frozenset(["ready", "parked"])]),
    TIMES,
    TIMES,
)
Held = list[tuple[Run, list[Stored]]]
HELD: st.SearchStrategy[Held] = st.lists(
    st.tuples(RUNS, st.lists(stored(), min_size=1, max_size=8)), min_size=1, max_size=3
)


def both(held: Held, options: Options, schema: pa.Schema) -> tuple[pa.Table, list[rows.Row]]:
    """Returns the results of the columns and of the rows."""
    store = MemoryStore()
    pairs: list[Pair] = []
    counts: list[tuple[Run, int]] = []
    for run, those in held:
        for one in those:
            arrival = len(pairs) + 1
            key = keys.message(1, run.lane, run.priority, arrival)
            pairs.append((key, one.write(store, arrival)))
        counts.append((run, len(those)))
    tx: Any = store
    by_row = [
        rows.read(tx, *pair, run, SNAPSHOT, options)
        for pair, run in zip(pairs, [run for run, those in held for _ in those], strict=True)
    ]
    batches = [*messages.batches(tx, pairs, counts, SNAPSHOT, options, schema)]
    for batch in batches:
        batch.validate(full=True)
    expected = [
        row for row in by_row if row is not None and options.wants_row(row.state, row.put_at)
    ]
    return pa.Table.from_batches(batches, schema), expected


@pytest.mark.long
@settings(max_examples=200)
@given(HELD, OPTIONS)
def test_columns_say_what_rows_say(held: Held, options: Options) -> None:
    table, by_row = both(held, options, MESSAGES.schema)
    columns = dict(zip(rows.Row._fields, zip(*by_row, strict=True), strict=False))
    for column in COLUMNS:
        expected = pa.array(columns.get(column.name, ()), column.type)
        assert table[column.name].combine_chunks().equals(expected), column.name


@pytest.mark.long
@given(HELD, st.permutations(MESSAGES.schema.names), st.integers(1, 34))
def test_columns_that_are_not_asked_for_change_no_other(
    held: Held, names: list[str], count: int
) -> None:
    schema = pa.schema([MESSAGES.schema.field(name) for name in names[:count]])
    table, _ = both(held, Options(("/snap",)), MESSAGES.schema)
    some, _ = both(held, Options(("/snap",)), schema)
    assert some.equals(table.select(schema.names))
